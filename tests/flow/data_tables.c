/* data_tables.c: tables, text, records, tars and tokens for the flow tests; see data.h. All of it is a function of nothing. */
#include "data.h"

#include "config.h"
#include "harness.h"

#ifdef HAVE_HDF5
#define H5_USE_110_API
#include <hdf5.h>
#endif
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

/* ---- Tars ---- */

#define TAR_ROOM 65536

/* A member as ustar: header, data, padding. */
static size_t put_member(uint8_t *to, const char *name, const char *data)
{
    size_t length = strlen(data);
    unsigned sum = 0;
    char *h = (char *)to;
    memset(to, 0, 512 + (length + 511) / 512 * 512);
    snprintf(h, 100, "%s", name);
    memcpy(h + 100, "0000644", 8);
    snprintf(h + 124, 12, "%011o", (unsigned)length);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += to[i];
    snprintf(h + 148, 7, "%06o", sum);
    memcpy(to + 512, data, length);
    return 512 + (length + 511) / 512 * 512;
}

static void make_tars(void)
{
    uint8_t *tar = calloc(1, TAR_ROOM);
    must(tar != NULL, "memory");
    for (int part = 0; part < 2; part++) {
        size_t n = 0;
        char path[64], data[64];
        for (int i = part * 7; i < part * 7 + 7; i++) {
            snprintf(path, sizeof(path), "dir/s%d.txt", i);
            snprintf(data, sizeof(data), "text of %d", i);
            n += put_member(tar + n, path, data);
            snprintf(path, sizeof(path), "dir/s%d.cls", i);
            snprintf(data, sizeof(data), "%d\n", i * 3 % 5);
            n += put_member(tar + n, path, data);
            if (i % 3 == 0)
                n += put_member(tar + n, "README", "belongs to no sample");
        }
        memset(tar + n, 0, 1024);
        snprintf(path, sizeof(path), "web-%03d.tar", part);
        test_write_file(path, tar, n + 1024);
        snprintf(path, sizeof(path), "web-%03d.tar.gz", part);
        write_gzip(path, tar, n + 1024);
    }
    for (int part = 0; part < 2; part++) { /* class folders */
        static const char *const folders[] = {"wolf", "ant", "bee"};
        size_t n = 0;
        char path[64], data[64];
        for (int i = 0; i < 6; i++) {
            snprintf(path, sizeof(path), "photos/%s/%d%d.jpg", folders[(i + part) % (2 + part)], part, i);
            snprintf(data, sizeof(data), "image %d%d", part, i);
            n += put_member(tar + n, path, data);
        }
        memset(tar + n, 0, 1024);
        snprintf(path, sizeof(path), "photos-%d.tar", part);
        test_write_file(path, tar, n + 1024);
        snprintf(path, sizeof(path), "photos-%d.tar.gz", part);
        write_gzip(path, tar, n + 1024);
    }
    free(tar);
}

static void make_tokens(void)
{
    uint16_t tokens[61];
    for (int i = 0; i < 61; i++)
        tokens[i] = (uint16_t)(i * 1000);
    test_write_file("tokens.bin", tokens, sizeof(tokens));
}

/* ---- HDF5 ---- */

#ifdef HAVE_HDF5
static void add_dataset(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims, bool chunked, const void *data)
{
    hid_t space = H5Screate_simple(rank, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    if (chunked) {
        hsize_t chunk[2] = {4, rank > 1 ? dims[1] : 0};
        must(H5Pset_chunk(list, rank, chunk) >= 0 && H5Pset_deflate(list, 4) >= 0, name);
    }
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    must(set >= 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, name);
    H5Dclose(set);
    H5Pclose(list);
    H5Sclose(space);
}

static void make_hdf5(void)
{
    static const char *const words[] = {"", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
    const hsize_t dims[2] = {11, 3};
    float x[33];
    uint16_t id[11];
    for (int i = 0; i < 33; i++)
        x[i] = (float)i / 4;
    for (int i = 0; i < 11; i++)
        id[i] = (uint16_t)(i * 7);
    hid_t file = H5Fcreate("data.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), text = H5Tcopy(H5T_C_S1);
    must(file >= 0 && H5Tset_size(text, H5T_VARIABLE) >= 0, "data.h5");
    add_dataset(file, "x", H5T_NATIVE_FLOAT, 2, dims, false, x);
    add_dataset(file, "packed", H5T_NATIVE_FLOAT, 2, dims, true, x);
    add_dataset(file, "id", H5T_NATIVE_UINT16, 1, dims, true, id);
    add_dataset(file, "word", text, 1, dims, false, words);
    H5Tclose(text);
    H5Fclose(file);
}
#else
static void make_hdf5(void)
{
}
#endif

void data_make_tables(void)
{
    make_hdf5();
    make_tars();
    make_tokens();
    make_tables();
    make_lines();
    make_records();
}
