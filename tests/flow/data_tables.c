/* data_tables.c: tables, text, records, tars and tokens for the flow tests; see data.h. All of it is a function of nothing. */
#include "data.h"

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void must(bool done, const char *what)
{
    if (done)
        return;
    printf("# making test data: %s failed\n", what);
    abort();
}

static void write_gzip(const char *path, const void *data, size_t length)
{
    gzFile f = gzopen(path, "wb");
    must(f && gzwrite(f, data, (unsigned)length) == (int)length && gzclose(f) == Z_OK, path);
}

/* Quotes, line breaks inside quotes, missing values, empty lines, CRLF. */
static void make_tables(void)
{
    char text[4096] = "id,score,name,note\n";
    for (int part = 0; part < 2; part++) {
        char path[32];
        for (int i = part * 8; i < part * 8 + 8; i++) {
            size_t at = strlen(text);
            snprintf(text + at, sizeof(text) - at, "%d,%s%.3g,\"n%d \"\"q\"\"\nend\",%s%s\n%s", i * i - 7, i % 5 == 3 ? "" : "-",
                     i / 4.0, i, i % 3 ? "plain" : "", i % 4 == 1 ? "\r" : "", i % 6 == 5 ? "\n" : "");
        }
        snprintf(path, sizeof(path), "table%d.csv", part);
        test_write_file(path, text, strlen(text));
        if (part == 1)
            write_gzip("table1.csv.gz", text, strlen(text));
        strcpy(text, "id,score,name,note\n");
    }
}

static void make_lines(void)
{
    static const char text[] = "first\n\nthird\r\nfourth line\n\nsixth\nseventh\neighth\nlast without an end";
    test_write_file("text.txt", text, sizeof(text) - 1);
    write_gzip("text.txt.gz", text, sizeof(text) - 1);
}

static void make_records(void)
{
    uint8_t bytes[3 + 17 * 6];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)('a' + i % 23);
    test_write_file("fixed.bin", bytes, sizeof(bytes));
    write_gzip("fixed.bin.gz", bytes, sizeof(bytes));
}

void data_make_tables(void)
{
    make_tables();
    make_lines();
    make_records();
}
