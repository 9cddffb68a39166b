/* test_csv.c: rows, fields, quotes, and the guess of the delimiter; the labels in lists. */
#include "harness.h"

#include "io/csv.h"
#include "io/list.h"
#include "io/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields as "[a][b]", quoted ones as "<a>". */
static pst_status split(const char *row, size_t length, char delimiter, char *text, pst_error *e)
{
    struct csv_field f[8];
    char *scratch = malloc(length + 1), *copy = malloc(length + 1); /* so that a sanitizer sees every step too far */
    size_t count = 0;
    memcpy(copy, row, length);
    pst_status st = csv_split(copy, length, delimiter, scratch, f, 8, &count, e);
    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        sprintf(text + strlen(text), f[i].quoted ? "<%.*s>" : "[%.*s]", (int)f[i].length, f[i].data);
    free(copy);
    free(scratch);
    return st;
}

static void fields(void)
{
    static const struct {
        const char *row, *want; /* NULL: refused */
        char delimiter;
    } cases[] = {
        {"a,b,c\n", "[a][b][c]", ','},
        {"a,b,c\r\n", "[a][b][c]", ','},
        {"a,b,c", "[a][b][c]", ','},
        {"", "[]", ','},
        {"\n", "[]", ','},
        {"\r\n", "[]", ','},
        {",\n", "[][]", ','},
        {"a,,b,\n", "[a][][b][]", ','},
        {"\"\",x\n", "<>[x]", ','},
        {"\"a,b\";c\n", "<a,b>[c]", ';'},
        {"\"a\"\"b\",\"\"\"\",\"c\"\n", "<a\"b><\"><c>", ','},
        {"\"\"\"a\"\"\",\"\"\"\"\"\"\n", "<\"a\"><\"\">", ','},
        {"\"line\nbreak\",x\r\n", "<line\nbreak>[x]", ','},
        {"\"a\r\nb\"\r\n", "<a\r\nb>", ','},
        {" a , b \n", "[ a ][ b ]", ','},
        {"a\tb\n", "[a][b]", '\t'},
        {"a|b\r", "[a][b\r]", '|'}, /* a lone CR is no line break */
        {"1,2,3,4,5,6,7,8\n", "[1][2][3][4][5][6][7][8]", ','},
        {"1,2,3,4,5,6,7,8,9\n", NULL, ','},
        {"a,b\"c\n", NULL, ','},
        {"a, \"b\"\n", NULL, ','},
        {"\"a\"b,c\n", NULL, ','},
        {"\"a\n", NULL, ','},
        {"\"a\"\"\n", NULL, ','},
        {"x,\"", NULL, ','},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        pst_error e = {0};
        pst_status st = split(cases[i].row, strlen(cases[i].row), cases[i].delimiter, text, &e);
        CHECK_STATUS(st, cases[i].want ? PST_OK : PST_ECORRUPT, &e);
        if (cases[i].want)
            CHECK_STR(text, cases[i].want);
        else
            CHECK_MSG(strstr(e.message, "column") != NULL, "%s: %s", cases[i].row, e.message);
    }
    char text[256];
    pst_error e = {0};
    split("a,b,x\"y\n", 8, ',', text, &e);
    CHECK(strncmp(e.message, "column 3:", 9) == 0);
}

static void rows(void)
{
    static const struct {
        const char *data;
        size_t ends[5];
    } cases[] = {
        {"a\nb\n", {2, 4}},
        {"a\r\nb", {3, 4}},
        {"\n\n", {1, 2}},
        {"\"a\nb\",\"c\"\"\nd\"\nnext\n", {14, 19}},
        {"\"never\nclosed\n", {14}},
        {"\"\"\n\"\"\"\"\n", {3, 8}},
        {"a\"b\nc\"d\ne", {8, 9}}, /* a stray quote takes the row with it: csv_split tells */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length = strlen(cases[i].data), begin = 0;
        for (size_t k = 0; k < 5 && cases[i].ends[k]; k++) {
            begin = csv_row_end(cases[i].data, length, begin);
            CHECK_INT(begin, cases[i].ends[k]);
        }
        CHECK_INT(begin, length);
        CHECK_INT(csv_row_end(cases[i].data, length, length), length);
    }
}

/* What is written by the rules is read back, whatever bytes it holds. */
static void round_trip(void)
{
    static const char alphabet[] = "ab,;\"\r\n\t|'";
    uint32_t state = 7;
    for (int round = 0; round < 20000; round++) {
        char row[64], plain[4][8], text[256], want[256] = "";
        size_t n = 0, count = 0;
        state = state * 1664525 + 1013904223;
        size_t columns = 1 + (state >> 28) % 4;
        for (; count < columns; count++) {
            state = state * 1664525 + 1013904223;
            size_t length = (state >> 28) % 6, at = 0;
            if (count)
                row[n++] = ',';
            row[n++] = '"';
            for (; at < length; at++) {
                state = state * 1664525 + 1013904223;
                char c = alphabet[(state >> 16) % 10];
                plain[count][at] = c;
                row[n++] = c;
                if (c == '"')
                    row[n++] = c;
            }
            plain[count][at] = 0;
            row[n++] = '"';
            sprintf(want + strlen(want), "<%s>", plain[count]);
        }
        row[n++] = '\n';
        pst_error e;
        CHECK_INT(csv_row_end(row, n, 0), n);
        CHECK_STATUS(split(row, n, ',', text, &e), PST_OK, &e);
        CHECK_STR(text, want);
    }
}

static void guesses(void)
{
    static const struct {
        const char *data;
        char want;
    } cases[] = {
        {"a,b,c\n1,2,3\n", ','},
        {"a;b;c\n1,5;2,5;3,5\n", ';'},
        {"a\tb\n1\t2\n", '\t'},
        {"a|b\n1|2\n", '|'},
        {"", ','},
        {"one column\nonly\n", ','},
        {"\"a,b,c\";x\n\"d,e,f\";y\n", ';'},
        {"name;remark\nx;a, b and c\ny;none\n", ';'},
        {"a,b\n1,2\n3,4\n5;6;7;8", ','}, /* the cut row does not count */
        {"x;y", ';'},
        {"path,label\na|b.jpg,cat\nc|d.jpg,dog\n", ','},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char got = csv_guess_delimiter(cases[i].data, strlen(cases[i].data));
        CHECK_MSG(got == cases[i].want, "%zu: '%c', expected '%c'", i, got, cases[i].want);
    }
}

/* A row of a million quoted fields takes a moment, not an hour. */
static void a_long_row(void)
{
    size_t fields_wanted = 1000000, n = 0, count = 0;
    char *row = malloc(4 * fields_wanted + 1), *scratch = malloc(4 * fields_wanted + 1);
    struct csv_field *f = malloc(fields_wanted * sizeof(*f));
    pst_error e;
    for (size_t i = 0; i < fields_wanted; i++, n += 4)
        memcpy(row + n, "\"x\",", 4);
    row[n - 1] = '\n';
    CHECK_INT(csv_row_end(row, n, 0), n);
    CHECK_STATUS(csv_split(row, n, ',', scratch, f, fields_wanted, &count, &e), PST_OK, &e);
    CHECK_INT(count, fields_wanted);
    free(row);
    free(scratch);
    free(f);
}

/* A label with a NUL in it is none; looked up all the same, it is what names_add made of it. */
static void a_nul_in_a_label(void)
{
    static char row[8192] = "a.jpg,cat";
    struct list_form form = {.delimiter = ',', .label = 1};
    struct list_reader r = {0};
    const struct csv_field *path = NULL, *label = NULL;
    pst_error e;
    REQUIRE_OK(list_read_row(&r, &form, row, 9, "list", 0, &path, &label, &e), &e);
    CHECK(label->length == 3);
    CHECK_STATUS(list_read_row(&r, &form, row, sizeof(row), "list", 0, &path, &label, &e), PST_EINVAL, &e);
    CHECK(strstr(e.message, "label") != NULL);
    list_reader_finish(&r);

    struct names n = {0};
    struct arena arena;
    arena_init(&arena);
    CHECK_INT(names_add(&n, &arena, row + 6, sizeof(row) - 6), 0);
    names_number(&n);
    CHECK_STR(n.names[0], "cat");
    CHECK_INT(names_find(&n, row + 6, sizeof(row) - 6), 0);
    names_finish(&n);
    arena_finish(&arena);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"fields", fields},
        {"rows", rows},
        {"round trip", round_trip},
        {"the delimiter is guessed", guesses},
        {"a long row", a_long_row},
        {"a NUL in a label", a_nul_in_a_label},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
