/* test_source_spans.c: csv, lines, records, tar and tokens on files that are hostile or change, and the index of their spans. */
#include "source_fixture.h"

#include "base/hash.h"
#include "base/le.h"
#include "io/walk.h"
#include "ops/op_list.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reused by all tests: one path. */
static const char *path_of;

static struct source_setup setup_of(const struct source_class *class, const char *path)
{
    struct source_setup s = setup_make(class);
    const pst_strings words = {1, &path_of};
    path_of = path;
    memcpy(s.config + setup_param(&s, "paths")->offset, &words, sizeof(words));
    return s;
}

static const char *written(const char *name, const char *text)
{
    const char *path = test_path(name);
    test_write_file(path, text, strlen(text));
    return path;
}

/* ---- Tables ---- */

static void check_bad_row(const char *name, const char *text, uint64_t row, uint64_t offset, const char *says)
{
    pst_error e = {0};
    struct opened o;
    struct source_setup s = setup_of(&source_csv, written(name, text));
    struct source_place at;
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    pst_status st = opened_load(&o, row, &e);
    CHECK_MSG(st == PST_ECORRUPT && strstr(e.message, says), "%s: %s \"%s\"", name, pst_status_name(st), e.message);
    source_csv.locate(o.source, row, SOURCE_WHOLE, &at);
    CHECK_INT(at.record, row);
    CHECK_INT(at.offset, offset);
    CHECK_STR(at.path, path_of);
    opened_close(&o);
}

static void test_bad_rows(void)
{
    check_bad_row("few.csv", "a,b\n1,2\n3\n", 1, 8, "1 column, expected 2");
    check_bad_row("many.csv", "a,b\n1,2\n3,4,5\n", 1, 8, "3 columns, expected 2");
}

static void test_later_rows(void)
{
    char text[32768] = "a,b\n";
    pst_error e = {0};
    struct opened o;
    for (int i = 0; i < 1500; i++)
        strcat(text, i == 1200 ? "many,0\n" : i == 1300 ? ",0\n" : "12,0\n");
    struct source_setup s = setup_of(&source_csv, written("later.csv", text));
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_STATUS(opened_load(&o, 1200, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.message, "column a is \"many\", expected int64") && strstr(e.message, "columns="), "%s", e.message);
    CHECK_STATUS(opened_load(&o, 1300, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.message, "column a is missing"), "%s", e.message);
    CHECK_STATUS(opened_load(&o, 1499, &e), PST_OK, &e);
    opened_close(&o);
}

static _Atomic uint64_t reads;

static bool count_reads(void *user, enum fault_kind kind, const char *what)
{
    (void)user;
    atomic_fetch_add(&reads, kind == FAULT_IO && strstr(what, "read") != NULL);
    return false;
}

/* Every row is bad, and its error names its line: each takes a read or two, not a pass over what comes before. */
static void test_bad_rows_only(void)
{
    enum { ROWS = 6000, WIDTH = 200 };
    char *text = malloc((size_t)ROWS * WIDTH + 100);
    pst_error e = {0};
    struct opened o;
    REQUIRE(text != NULL);
    size_t n = (size_t)sprintf(text, "a,b\n1,2\n");
    for (int i = 0; i < ROWS; i++) { /* every third has an empty line before it */
        n += (size_t)sprintf(text + n, "%s%0*d", i % 3 == 0 ? "\n" : "", WIDTH - 2, i);
        text[n++] = '\n';
    }
    text[n] = 0;
    struct source_setup s = setup_of(&source_csv, written("bad.csv", text));
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_INT(opened_count(&o), ROWS + 1);
    fault_set(count_reads, NULL);
    for (int k = 0; k < ROWS; k++) {
        int i = (int)((unsigned)k * 1009 % ROWS); /* in any order */
        char want[64];
        snprintf(want, sizeof(want), "line %d: 1 column", 3 + i + i / 3 + 1);
        CHECK_STATUS(opened_load(&o, (uint64_t)i + 1, &e), PST_ECORRUPT, &e);
        CHECK_MSG(strstr(e.message, want), "row %d: \"%s\", expected %s", i, e.message, want);
    }
    fault_set(NULL, NULL);
    CHECK_MSG(atomic_load(&reads) < 2 * ROWS, "%llu reads for %d bad rows", (unsigned long long)atomic_load(&reads), ROWS);
    opened_close(&o);
    free(text);
}

/* The row begins at the quote; the rest of the file belongs to it. */
static void test_unbalanced_quote(void)
{
    pst_error e = {0};
    struct opened o;
    struct source_setup s = setup_of(&source_csv, written("quote.csv", "a,b\n1,x\n2,\"never closed\n3,y\n"));
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_INT(opened_count(&o), 2);
    CHECK_STATUS(opened_load(&o, 0, &e), PST_OK, &e);
    CHECK_STATUS(opened_load(&o, 1, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.message, "a quote that is never closed"), "%s", e.message);
    opened_close(&o);
}

/* 1 GiB after a quote: refused at the limit, with the place where the row begins, and in bounded memory. */
static void test_endless_field(void)
{
    pst_error e = {0};
    struct opened o;
    const char *path = written("endless.csv", "a,b\n1,2\n3,\"");
    CHECK(truncate(path, (off_t)1 << 30) == 0);
    struct source_setup s = setup_of(&source_csv, path);
    setup_text(&s, "max_record", "1MiB");
    pst_status st = opened_open(&o, &s, &e);
    CHECK_STATUS(st, PST_ELIMIT, &e);
    CHECK_INT(e.record, 1);
    CHECK_INT(e.offset, 8);
    CHECK_MSG(strstr(e.message, "is a quote never closed?"), "%s", e.message);
    CHECK(unlink(path) == 0);
}

static void test_nul_bytes(void)
{
    static const char text[] = "a,b\n1,x\0y\n2\0,z\n";
    pst_error e = {0};
    struct opened o;
    const char *path = test_path("nul.csv");
    test_write_file(path, text, sizeof(text) - 1);
    struct source_setup s = setup_of(&source_csv, path);
    setup_text(&s, "columns", "a:int64 b:bytes");
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    REQUIRE_OK(opened_load(&o, 0, &e), &e);
    CHECK(opened_bytes(&o, "b").length == 3 && memcmp(opened_bytes(&o, "b").data, "x\0y", 3) == 0);
    CHECK_STATUS(opened_load(&o, 1, &e), PST_ECORRUPT, &e);
    opened_close(&o);
}

static void test_declarations(void)
{
    static const char *const wrong[] = {"a:",      "a:int", "a:flaot", "a:int64=x", "a=1",  "\"a",         "a a",
                                        "a:int32=3000000000", ":int64", "nope", "a:int64 b:bytes=1 c"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pst_error e = {0};
        struct opened o;
        struct source_setup s = setup_of(&source_csv, written("declared.csv", "a,b\n1,2\n"));
        setup_text(&s, "columns", wrong[i]);
        pst_status st = opened_open(&o, &s, &e);
        bool right = strcmp(wrong[i], "a:int") == 0;
        CHECK_MSG(right ? st == PST_OK : st == PST_EINVAL && e.message[0], "%s: %s %s", wrong[i], pst_status_name(st), e.message);
        if (st == PST_OK)
            opened_close(&o);
    }
}

/* Inferred types round nothing; a declared float refuses what it would make infinite. */
static void test_types_that_keep_values(void)
{
    static const struct {
        const char *text;
        pst_dtype dtype;
    } columns[] = {
        {"x\n1700000000.5\n1700000001.25\n", PST_DTYPE_F64},      {"x\n16777217\n2.5\n", PST_DTYPE_F64},
        {"x\n5\n7\n", PST_DTYPE_I64},                             {"x\n5\n7\n99999999999999999999\n", PST_DTYPE_BYTES},
        {"x,y\n2.5,\n99999999999999999999,\n", PST_DTYPE_F64},    {"x,y\n5,\n,\n", PST_DTYPE_F64},
        {"x,y\n9007199254740993,\nNA,\n", PST_DTYPE_I64},
    };
    pst_error e = {0};
    struct opened o;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        struct source_setup s = setup_of(&source_csv, written("types.csv", columns[i].text));
        REQUIRE_OK(opened_open(&o, &s, &e), &e);
        CHECK_MSG(o.spec.field[0].dtype == columns[i].dtype, "%zu: %s", i, pst_dtype_name(o.spec.field[0].dtype));
        if (i == 0) {
            REQUIRE_OK(opened_load(&o, 1, &e), &e);
            CHECK(*(const double *)o.out[0].data == 1700000001.25);
        }
        opened_close(&o);
    }
    struct source_setup s = setup_of(&source_csv, written("large.csv", "x\ninf\n1e39\n"));
    setup_text(&s, "columns", "x:float");
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    REQUIRE_OK(opened_load(&o, 0, &e), &e);
    CHECK_STATUS(opened_load(&o, 1, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.message, "float64 holds it"), "%s", e.message);
    opened_close(&o);
    setup_text(&s, "columns", "x:float=1e39");
    CHECK_STATUS(opened_open(&o, &s, &e), PST_EINVAL, &e);
}

static void test_other_columns(void)
{
    const char *paths[] = {written("one.csv", "a,b\n1,2\n"), written("two.csv", "a,c\n1,2\n")};
    pst_error e = {0};
    struct opened o;
    struct source_setup s = setup_make(&source_csv);
    setup_words(&s, "paths", paths, 2);
    for (int pass = 0; pass < 2; pass++) { /* the second time with indexes that are there */
        pst_status st = opened_open(&o, &s, &e);
        CHECK_MSG(st == PST_EINVAL && strstr(e.message, "column 2 is \"c\", in the first file \"b\""), "%s", e.message);
        struct source_setup alone = setup_of(&source_csv, paths[1]);
        REQUIRE_OK(opened_open(&o, &alone, &e), &e);
        opened_close(&o);
    }
}

/* ---- The index ---- */

static uint64_t rows_of(const char *path, char *line, size_t size)
{
    pst_error e = {0};
    struct opened o;
    struct source_setup s = setup_of(&source_csv, path);
    if (!CHECK_STATUS(opened_open(&o, &s, &e), PST_OK, &e))
        return 0;
    uint64_t count = opened_count(&o);
    opened_describe(&o, line, size);
    for (uint64_t i = 0; i < count; i++)
        CHECK_STATUS(opened_load(&o, i, &e), PST_OK, &e);
    opened_close(&o);
    return count;
}

static void test_index_is_kept_and_checked(void)
{
    char text[8192] = "x\n", line[256], index[512];
    for (int i = 0; i < 700; i++)
        sprintf(text + strlen(text), "%d\n", i);
    const char *path = written("kept.csv", text);
    snprintf(index, sizeof(index), "%s.rows.pidx", path);
    CHECK_INT(rows_of(path, line, sizeof(line)), 700);
    CHECK_MSG(strstr(line, "1 made now"), "%s", line);
    CHECK_INT(rows_of(path, line, sizeof(line)), 700);
    CHECK_MSG(strstr(line, "sidecar") && !strstr(line, "made now"), "%s", line);
    size_t length;
    uint8_t *bytes = test_read_file(index, &length);
    for (size_t at = 0; at < length; at += at < 128 ? 1 : 997) { /* any changed byte is noticed, and the index made again */
        bytes[at] ^= 0x40;
        test_write_file(index, bytes, length);
        bytes[at] ^= 0x40;
        CHECK_INT(rows_of(path, line, sizeof(line)), 700);
        CHECK_MSG(strstr(line, "made now"), "byte %zu: %s", at, line);
    }
    for (size_t cut = 0; cut < length; cut += 501) {
        test_write_file(index, bytes, cut);
        CHECK_INT(rows_of(path, line, sizeof(line)), 700);
    }
    free(bytes);
    strcpy(text + 2, "7\n8\n"); /* another file under the same name */
    test_write_file(path, text, strlen(text));
    CHECK_INT(rows_of(path, line, sizeof(line)), 2);
}

/* An index that leads anywhere, with checksums that are right: an error, never a read outside the file. */
static void test_hostile_index(void)
{
    char text[512] = "x\n", index[512], line[256];
    pst_error e = {0};
    for (int i = 0; i < 20; i++)
        sprintf(text + strlen(text), "%d\n", i);
    const char *path = written("hostile.csv", text);
    rows_of(path, line, sizeof(line));
    snprintf(index, sizeof(index), "%s.rows.pidx", path);
    size_t length;
    uint8_t *bytes = test_read_file(index, &length);
    static const uint32_t offsets[] = {0, 1, 3, 60, UINT32_MAX, 0x7fffffff};
    for (size_t k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
        struct opened o;
        struct source_setup s = setup_of(&source_csv, path);
        put_le32(bytes + 128 + 8 + 4 * 7, offsets[k]);
        put_le64(bytes + 56, hash_combine(0, hash_bytes(bytes + 128, length - 128, 0)));
        put_le64(bytes + 120, hash_bytes(bytes, 120, 0));
        test_write_file(index, bytes, length);
        REQUIRE_OK(opened_open(&o, &s, &e), &e);
        for (uint64_t i = 0; i < opened_count(&o); i++) {
            pst_status st = opened_load(&o, i, &e);
            CHECK_MSG(st == PST_OK || ((i == 6 || i == 7) && (st == PST_ESTALE || st == PST_ECORRUPT)), "%d: %s", (int)i, e.message);
        }
        opened_close(&o);
    }
    free(bytes);
}

static void test_file_becomes_shorter(void)
{
    pst_error e = {0};
    struct opened o;
    const char *path = written("shorter.txt", "first\nsecond\nthird\n");
    struct source_setup s = setup_of(&source_lines, path);
    setup_text(&s, "io", "read");
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    REQUIRE_OK(opened_load(&o, 2, &e), &e);
    CHECK(bytes_are(opened_bytes(&o, "line"), "third"));
    CHECK(truncate(path, 9) == 0);
    CHECK_STATUS(opened_load(&o, 1, &e), PST_ESTALE, &e);
    CHECK_STATUS(opened_load(&o, 0, &e), PST_OK, &e);
    opened_close(&o);
}

/* ---- Tars ---- */

static size_t put_header(uint8_t *to, const char *name, uint64_t size)
{
    unsigned sum = 0;
    char *h = (char *)to;
    memset(to, 0, 512);
    snprintf(h, 100, "%s", name);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)size & 077777777777ull);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += to[i];
    snprintf(h + 148, 7, "%06o", sum);
    return 512;
}

/* Members of one byte each, then two blocks of zeros. */
static size_t put_tar(uint8_t *to, const char *const *names, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += put_header(to + n, names[i], 1);
        memset(to + n, 0, 512);
        to[n] = (uint8_t)('0' + i % 10);
        n += 512;
    }
    memset(to + n, 0, 1024);
    return n + 1024;
}

static void test_keys_that_repeat(void)
{
    static const char *const apart[] = {"a.txt", "a.cls", "b.txt", "b.cls", "a.txt", "a.cls"}, *const twice[] = {"a.txt", "a.cls", "a.txt"};
    uint8_t tar[16384];
    pst_error e = {0};
    struct opened o;
    const char *path = test_path("apart.tar");
    test_write_file(path, tar, put_tar(tar, apart, 6));
    struct source_setup s = setup_of(&source_tar, path);
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_INT(opened_count(&o), 3);
    REQUIRE_OK(opened_load(&o, 2, &e), &e);
    CHECK(bytes_are(opened_bytes(&o, "key"), "a") && bytes_are(opened_bytes(&o, "txt"), "4"));
    opened_close(&o);
    path = test_path("twice.tar");
    test_write_file(path, tar, put_tar(tar, twice, 3));
    s = setup_of(&source_tar, path);
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_STATUS(opened_load(&o, 0, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.message, "two members"), "%s", e.message);
    opened_close(&o);
}

static void test_truncated_tar(void)
{
    static const char *const names[] = {"a.txt", "a.cls", "b.txt", "b.cls"};
    uint8_t tar[16384];
    pst_error e = {0};
    struct opened o;
    size_t length = put_tar(tar, names, 4);
    const char *path = test_path("cut.tar");
    for (size_t cut = 512 * 5 + 100; cut < 512 * 8; cut += 100) { /* inside the second sample */
        test_write_file(path, tar, cut);
        struct source_setup s = setup_of(&source_tar, path);
        pst_status st = opened_open(&o, &s, &e);
        if (st == PST_OK) { /* cut in the padding of a member: nothing is missing that the headers name */
            CHECK(opened_count(&o) >= 1);
            opened_close(&o);
            continue;
        }
        CHECK_MSG(st == PST_ECORRUPT && strstr(e.message, "truncated") && e.record == 1 && e.offset != PST_NOWHERE, "%zu: %s", cut,
                  e.message);
        s.policy = (pst_policy){.skip = true};
        REQUIRE_OK(opened_open(&o, &s, &e), &e);
        CHECK_INT(opened_count(&o), 1);
        CHECK_INT(pst_damage_log_total(o.log), 1);
        REQUIRE_OK(opened_load(&o, 0, &e), &e);
        CHECK(bytes_are(opened_bytes(&o, "key"), "a"));
        opened_close(&o);
    }
    (void)length;
}

static int64_t label_of(struct opened *o, uint64_t i)
{
    pst_error e = {0};
    return CHECK_STATUS(opened_load(o, i, &e), PST_OK, &e) ? *(const int64_t *)opened_field(o, "label")->data : -1;
}

static void check_folders(const char *path, const char *const *names, const int64_t *want, size_t count)
{
    pst_error e = {0};
    struct opened o;
    uint8_t tar[16384];
    test_write_file(path, tar, put_tar(tar, names, count));
    for (int pass = 0; pass < 2; pass++) { /* the index is made; found */
        struct path_list classes = {0};
        struct source_setup s = setup_of(&source_tar, path);
        REQUIRE_OK(opened_open(&o, &s, &e), &e);
        CHECK_INT(o.spec.count, 2 + (want != NULL));
        for (size_t i = 0; want && i < count; i++)
            CHECK_INT(label_of(&o, i), want[i]);
        CHECK_STATUS(source_tar.class_names(o.source, &classes, &e), PST_OK, &e);
        CHECK_INT(classes.count, want ? 2 : 0);
        CHECK(!want || (strcmp(classes.paths[0], "cat") == 0 && strcmp(classes.paths[1], "dog") == 0));
        path_list_finish(&classes);
        opened_close(&o);
    }
}

static void test_class_folders(void)
{
    static const char *const classes[] = {"x/dog/1.png", "x/dog/2.png", "x/cat/1.png", "y/dog/1.png"};
    static const char *const flat[] = {"x/1.png", "x/2.png"}, *const outside[] = {"cat/1.png", "./2.png", "dog/1.png"},
                      *const texts[] = {"cat/1.txt", "dog/2.txt"};
    const char *path = test_path("classes.tar");
    check_folders(path, classes, (const int64_t[]){1, 1, 0, 1}, 4);
    check_folders(path, flat, NULL, 2);    /* one folder is not a class */
    check_folders(path, outside, NULL, 3); /* not all lie in folders */
    check_folders(path, texts, NULL, 2);   /* only images have class folders, but for those who ask: */
    pst_error e = {0};
    struct opened o;
    struct source_setup s = setup_of(&source_tar, path);
    setup_text(&s, "fields", "txt label:folder");
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK(label_of(&o, 0) == 0 && label_of(&o, 1) == 1);
    opened_close(&o);
    setup_text(&s, "fields", "txt label=cls:folder");
    CHECK_STATUS(opened_open(&o, &s, &e), PST_EINVAL, &e);
    CHECK_MSG(strstr(e.message, "no extension before :folder"), "%s", e.message);
    uint8_t tar[16384];
    test_write_file(path, tar, put_tar(tar, outside, 3));
    setup_text(&s, "fields", "png label:folder");
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_STATUS(opened_load(&o, 1, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.message, "lies in no folder"), "%s", e.message);
    CHECK(label_of(&o, 0) == 0 && label_of(&o, 2) == 1); /* what lies in no folder is not a class */
    struct path_list classes_found = {0};
    REQUIRE_OK(source_tar.class_names(o.source, &classes_found, &e), &e);
    REQUIRE(classes_found.count == 2);
    CHECK_STR(classes_found.paths[0], "cat");
    CHECK_STR(classes_found.paths[1], "dog");
    path_list_finish(&classes_found);
    opened_close(&o);
    setup_text(&s, "fields", "png label:folder?");
    CHECK_STATUS(opened_open(&o, &s, &e), PST_EINVAL, &e);
}

/* More folders than are numbered: no label by itself, and an error for those who ask. */
static void test_too_many_folders(void)
{
    size_t count = 65537, length = 0;
    uint8_t *tar = malloc(count * 1024 + 8192);
    char name[32];
    const char *path = test_path("crowded.tar");
    REQUIRE(tar);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%zu/a.png", i);
        length += put_tar(tar + length, (const char *const[]){name}, 1) - 1024; /* without its end */
    }
    memset(tar + length, 0, 1024);
    test_write_file(path, tar, length + 1024);
    free(tar);
    pst_error e = {0};
    struct opened o;
    struct source_setup s = setup_of(&source_tar, path);
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_INT(o.spec.count, 2); /* image and key */
    opened_close(&o);
    setup_text(&s, "fields", "png label:folder");
    CHECK_STATUS(opened_open(&o, &s, &e), PST_ELIMIT, &e);
    CHECK_MSG(strstr(e.message, "more than 65536 folders"), "%s", e.message);
}

/* Names of folders in an index that was changed: it is made again; with a right checksum: an error, never a read outside of it. */
static void test_hostile_note(void)
{
    static const char *const names[] = {"dog/1.png", "cat/1.png"};
    uint8_t tar[8192];
    char index[512], line[256];
    pst_error e = {0};
    struct opened o;
    const char *path = test_path("note.tar");
    test_write_file(path, tar, put_tar(tar, names, 2));
    struct source_setup s = setup_of(&source_tar, path);
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    opened_close(&o);
    snprintf(index, sizeof(index), "%s.samples.pidx", path);
    size_t length, blocks = 128 + 8 + 256 * 4;
    uint8_t *bytes = test_read_file(index, &length);
    CHECK_INT(length, blocks + sizeof("cat") + sizeof("dog"));
    static const uint64_t sizes[] = {0, 1, 7, 9, 1u << 20, UINT64_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put_le64(bytes + 64, sizes[i]);
        put_le64(bytes + 120, hash_bytes(bytes, 120, 0));
        test_write_file(index, bytes, length);
        REQUIRE_OK(opened_open(&o, &s, &e), &e);
        CHECK_MSG(strstr(opened_describe(&o, line, sizeof(line)), "made now; 2 class folders"), "%s", line);
        CHECK(label_of(&o, 0) == 1 && label_of(&o, 1) == 0);
        opened_close(&o);
    }
    put_le64(bytes + 64, 8);
    memcpy(bytes + blocks, "catxdogx", 8); /* no name ends */
    put_le64(bytes + 56, hash_combine(hash_combine(0, hash_bytes(bytes + 128, blocks - 128, 0)), hash_bytes(bytes + blocks, 8, 0)));
    put_le64(bytes + 120, hash_bytes(bytes, 120, 0));
    test_write_file(index, bytes, length);
    setup_text(&s, "fields", "png label:folder");
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_STATUS(opened_load(&o, 0, &e), PST_ECORRUPT, &e);
    opened_close(&o);
    free(bytes);
}

/* Offsets that differ by more than 4 GiB within a block of the index. */
static void test_wide_index(void)
{
    uint8_t header[512];
    pst_error e = {0};
    struct opened o;
    const char *path = test_path("wide.tar");
    const uint64_t large = UINT64_C(5) << 30;
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    put_header(header, "a.bin", large);
    CHECK(pwrite(fd, header, 512, 0) == 512);
    put_header(header, "b.bin", 1);
    CHECK(pwrite(fd, header, 512, (off_t)(512 + large)) == 512 && pwrite(fd, "b", 1, (off_t)(1024 + large)) == 1);
    CHECK(ftruncate(fd, (off_t)(1024 + large + 512)) == 0 && close(fd) == 0);
    struct source_setup s = setup_of(&source_tar, path);
    setup_text(&s, "fields", "bin");
    for (int pass = 0; pass < 2; pass++) {
        REQUIRE_OK(opened_open(&o, &s, &e), &e);
        CHECK_INT(opened_count(&o), 2);
        CHECK_STATUS(opened_load(&o, 0, &e), PST_ELIMIT, &e);
        REQUIRE_OK(opened_load(&o, 1, &e), &e);
        CHECK(bytes_are(opened_bytes(&o, "key"), "b") && bytes_are(opened_bytes(&o, "bin"), "b"));
        opened_close(&o);
    }
    CHECK(unlink(path) == 0);
}

/* ---- Tokens, records ---- */

static void test_windows_that_do_not_fit(void)
{
    uint16_t tokens[20] = {0};
    pst_error e = {0};
    struct opened o;
    const char *path = test_path("t.bin");
    test_write_file(path, tokens, sizeof(tokens));
    struct source_setup s = setup_of(&source_tokens, path);
    CHECK_STATUS(opened_open(&o, &s, &e), PST_EINVAL, &e); /* n=1024 */
    CHECK_MSG(strstr(e.message, "the longest file has 20"), "%s", e.message);
    setup_text(&s, "n", "20");
    REQUIRE_OK(opened_open(&o, &s, &e), &e);
    CHECK_INT(opened_count(&o), 1);
    opened_close(&o);
    setup_text(&s, "next", "labels");
    CHECK_STATUS(opened_open(&o, &s, &e), PST_EINVAL, &e);
    test_write_file(path, tokens, 39);
    setup_text(&s, "n", "2");
    CHECK_STATUS(opened_open(&o, &s, &e), PST_ECORRUPT, &e);
    CHECK_INT(e.offset, 38);
    test_write_file(path, tokens, 10);
    struct source_setup records = setup_of(&source_records, path);
    CHECK_STATUS(opened_open(&o, &records, &e), PST_EINVAL, &e); /* bytes= is not given */
    setup_text(&records, "bytes", "4");
    CHECK_STATUS(opened_open(&o, &records, &e), PST_ECORRUPT, &e);
    CHECK_INT(e.record, 2);
    CHECK_INT(e.offset, 8);
}

/* ---- Everything may fail ---- */

static void test_everything_may_fail(void)
{
    static const char *const names[] = {"x/a.txt", "x/a.png", "y/b.txt", "y/b.png"};
    uint8_t tar[8192];
    const char *paths[] = {written("f.csv", "a,b\n1,\"x \"\"y\"\"\"\n2,z\n"), written("f.txt", "one\ntwo\n"), test_path("f.tar")};
    test_write_file(paths[2], tar, put_tar(tar, names, 4));
    const struct source_class *const classes[] = {&source_csv, &source_lines, &source_tar};
    for (size_t i = 0; i < 3; i++) {
        struct source_setup s = setup_of(classes[i], paths[i]);
        fail_all(use_elements, &s);
    }
}

static const struct test tests[] = {
    {"rows that are not as the others", test_bad_rows},
    {"values that contradict the inferred type", test_later_rows},
    {"a table of bad rows only", test_bad_rows_only},
    {"a quote that is never closed", test_unbalanced_quote},
    {"a field of 1 GiB", test_endless_field},
    {"NUL bytes", test_nul_bytes},
    {"columns as text", test_declarations},
    {"types that keep values", test_types_that_keep_values},
    {"files with other columns", test_other_columns},
    {"the index is kept, and checked", test_index_is_kept_and_checked},
    {"an index that leads anywhere", test_hostile_index},
    {"a file that becomes shorter", test_file_becomes_shorter},
    {"keys that repeat", test_keys_that_repeat},
    {"truncated tars", test_truncated_tar},
    {"class folders in a tar", test_class_folders},
    {"too many class folders in a tar", test_too_many_folders},
    {"hostile names of folders", test_hostile_note},
    {"offsets beyond 4 GiB", test_wide_index},
    {"windows and records that do not fit", test_windows_that_do_not_fit},
    {"everything may fail", test_everything_may_fail},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
