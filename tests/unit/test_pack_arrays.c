/* test_pack_arrays.c: NumPy and HDF5 arrays, by what their records hold. */
#include "pack_sources.h"

#include "base/le.h"
#include "config.h"

#include <zlib.h>

/* ---- npy ---- */

/* A version 1 file; returns its length. */
static size_t npy_in_order(uint8_t *out, const char *descr, const char *shape, bool fortran, const void *data, size_t length)
{
    char header[256];
    int n = snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", descr,
                     fortran ? "True" : "False", shape);
    int total = (n + 10 + 1 + 63) / 64 * 64;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (uint8_t)(total - 10);
    out[9] = (uint8_t)((total - 10) >> 8);
    memset(out + 10, ' ', (size_t)(total - 10));
    memcpy(out + 10, header, (size_t)n);
    out[total - 1] = '\n';
    memcpy(out + total, data, length);
    return (size_t)total + length;
}

static size_t npy(uint8_t *out, const char *descr, const char *shape, const void *data, size_t length)
{
    return npy_in_order(out, descr, shape, false, data, length);
}

static void write_npy(const char *name, const char *descr, const char *shape, const void *data, size_t length)
{
    uint8_t *buffer = malloc(length + 512);
    size_t n = npy(buffer, descr, shape, data, length);
    test_write_file(in_folder(name), buffer, n);
    free(buffer);
}

static void arrays_of_every_type(void)
{
    static const double f8[] = {1.5, -2.25, 3.0};
    static const uint16_t f2[] = {0x3c00, 0xc000, 0x0001}; /* 1, -2, the smallest subnormal */
    static const uint8_t big[] = {0x01, 0x02, 0xff, 0xfe, 0, 0};
    static const uint8_t flags[] = {1, 0, 1};
    static const uint64_t u8[] = {1, 2, 3};
    static const char words[] = "ab\0\0cdefg\0\0\0";
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6};
    pst_error e;
    pst_pack_options o = fast();
    pst_pack_report *r;
    char paths[7][512], out[512];
    const char *list[7];
    write_npy("d.npy", "<f8", "3,", f8, sizeof(f8));
    write_npy("h.npy", "<f2", "3,", f2, sizeof(f2));
    write_npy("b.npy", ">i2", "3,", big, sizeof(big));
    write_npy("f.npy", "|b1", "3,", flags, sizeof(flags));
    write_npy("u.npy", "<u8", "3,", u8, sizeof(u8));
    write_npy("s.npy", "|S4", "3,", words, 12);
    write_npy("r.npy", "|u1", "3, 2", bytes, sizeof(bytes));
    for (size_t i = 0; i < 7; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%c.npy", folder, "dhbfusr"[i]);
        list[i] = paths[i];
    }
    snprintf(out, sizeof(out), "%s-types", folder);
    REQUIRE_OK(pst_pack(list, 7, out, &o, &r, &e), &e);
    struct packed *p = packed_open(out, "train");
    CHECK_INT(p->count, 3);
    CHECK(packed_float(p, 1, "d", 0) == -2.25f);
    CHECK(packed_float(p, 0, "h", 0) == 1.0f && packed_float(p, 1, "h", 0) == -2.0f && packed_float(p, 2, "h", 0) == 0x1p-24f);
    CHECK_INT(packed_int(p, 0, "b"), 258);
    CHECK_INT(packed_int(p, 1, "b"), -2);
    CHECK_INT(packed_int(p, 1, "f"), 0);
    CHECK_INT(packed_int(p, 2, "u"), 3);
    CHECK(packed_is(p, 0, "s", "ab") && packed_is(p, 1, "s", "cdef") && packed_is(p, 2, "s", "g"));
    CHECK(packed_is(p, 2, "r", "\x05\x06"));
    CHECK(report_has_note(r, "d is float64"));
    packed_close(p);
    pst_pack_report_destroy(r);
    o.resize = "8";
    remove_folder(out);
    CHECK_STATUS(pst_pack(list, 7, out, &o, NULL, &e), PST_EINVAL, &e);
}

/* Arrays in Fortran order, of many blocks, in order and shuffled; and text. */
static void fortran_order_and_text(void)
{
    enum { ROWS = 3000, HIGH = 5, WIDE = 7 };
    static float stored[ROWS * HIGH * WIDE];
    static uint32_t words[ROWS][3];
    static uint8_t file[sizeof(stored) + 512];
    char paths[2][512], out[512];
    const char *list[] = {paths[0], paths[1]};
    pst_error e;
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t y = 0; y < HIGH; y++)
            for (uint32_t x = 0; x < WIDE; x++)
                stored[i + ROWS * (y + HIGH * x)] = (float)(i * 100 + y * 10 + x);
        words[i][0] = 0x400 + i;
        words[i][1] = i % 2 ? 'z' : 0;
    }
    test_write_file(in_folder("grid.npy"), file, npy_in_order(file, "<f4", "3000, 5, 7", true, stored, sizeof(stored)));
    write_npy("word.npy", "<U3", "3000,", words, sizeof(words));
    snprintf(paths[0], sizeof(paths[0]), "%s/grid.npy", folder);
    snprintf(paths[1], sizeof(paths[1]), "%s/word.npy", folder);
    for (unsigned shuffle = 0; shuffle < 2; shuffle++) {
        pst_pack_options o = fast();
        o.shuffle = shuffle;
        o.workers = 2;
        snprintf(out, sizeof(out), "%s-fortran%u", folder, shuffle);
        REQUIRE_OK(pst_pack(list, 2, out, &o, NULL, &e), &e);
        struct packed *p = packed_open(out, "train");
        CHECK_INT(p->count, ROWS);
        size_t wrong = 0;
        for (size_t i = 0; i < p->count; i++) {
            pst_value v = packed_value(p, i, "grid");
            float row[HIGH * WIDE] = {0};
            memcpy(row, v.data, v.count < HIGH * WIDE ? v.count * sizeof(*row) : sizeof(row)); /* not aligned */
            uint32_t number = (uint32_t)row[0] / 100, c = 0x400 + number;
            char text[4] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 63)), number % 2 ? 'z' : 0, 0};
            if (c >= 0x800) {
                char wide[5] = {(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63)),
                                number % 2 ? 'z' : 0};
                wrong += !packed_is(p, i, "word", wide);
            } else {
                wrong += !packed_is(p, i, "word", text);
            }
            for (unsigned k = 0; k < HIGH * WIDE; k++)
                wrong += row[k] != (float)(number * 100 + k / WIDE * 10 + k % WIDE);
            wrong += v.count != HIGH * WIDE || (!shuffle && number != i);
        }
        CHECK_INT(wrong, 0);
        packed_close(p);
    }
}

static void large_rows_and_shuffle(void)
{
    enum { ROWS = 50, WIDTH = 6000 };
    static float rows[ROWS][WIDTH];
    pst_pack_options o = fast();
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < WIDTH; k++)
            rows[i][k] = (float)(i * 10000 + k);
    write_npy("wide.npy", "<f4", "50, 6000", rows, sizeof(rows));
    o.shuffle = true;
    o.workers = 3;
    struct packed *p = pack_and_open("wide.npy", "wide", &o, NULL);
    REQUIRE(p);
    CHECK_INT(p->count, ROWS);
    for (size_t i = 0; i < p->count; i++) {
        float first = packed_float(p, i, "wide", 0);
        pst_value v = packed_value(p, i, "wide");
        CHECK_INT(v.count, WIDTH);
        CHECK(memcmp(v.data, rows[(size_t)first / 10000], sizeof(rows[0])) == 0);
    }
    packed_close(p);
}

static void put16(FILE *f, unsigned v)
{
    fputc((int)(v & 255), f);
    fputc((int)(v >> 8 & 255), f);
}

static void put32(FILE *f, uint32_t v)
{
    put16(f, v & 0xffff);
    put16(f, v >> 16);
}

struct member {
    const char *name;
    uint8_t data[2048];
    size_t length, stored;
    uint32_t crc, offset;
};

/* An archive of .npy files, deflated or stored. */
static void write_npz(const char *path, struct member *m, size_t count, bool deflated)
{
    FILE *f = fopen(path, "wb");
    for (size_t i = 0; i < count; i++) {
        uint8_t packed[4096];
        uLongf n = sizeof(packed);
        m[i].crc = (uint32_t)crc32(0, m[i].data, (uInt)m[i].length);
        m[i].offset = (uint32_t)ftell(f);
        compress2(packed, &n, m[i].data, m[i].length, 6);
        m[i].stored = deflated ? n - 6 : m[i].length; /* without zlib's header and trailer */
        put32(f, 0x04034b50), put16(f, 20), put16(f, 0), put16(f, deflated ? 8 : 0), put32(f, 0);
        put32(f, m[i].crc), put32(f, (uint32_t)m[i].stored), put32(f, (uint32_t)m[i].length);
        put16(f, (unsigned)strlen(m[i].name)), put16(f, 0);
        fputs(m[i].name, f);
        fwrite(deflated ? packed + 2 : m[i].data, 1, m[i].stored, f);
    }
    uint32_t directory = (uint32_t)ftell(f);
    for (size_t i = 0; i < count; i++) {
        put32(f, 0x02014b50), put16(f, 20), put16(f, 20), put16(f, 0), put16(f, deflated ? 8 : 0), put32(f, 0);
        put32(f, m[i].crc), put32(f, (uint32_t)m[i].stored), put32(f, (uint32_t)m[i].length);
        put16(f, (unsigned)strlen(m[i].name)), put16(f, 0), put16(f, 0), put16(f, 0), put16(f, 0), put32(f, 0),
            put32(f, m[i].offset);
        fputs(m[i].name, f);
    }
    uint32_t end = (uint32_t)ftell(f);
    put32(f, 0x06054b50), put16(f, 0), put16(f, 0), put16(f, (unsigned)count), put16(f, (unsigned)count);
    put32(f, end - directory), put32(f, directory), put16(f, 0);
    fclose(f);
}

static void archives_of_arrays(void)
{
    static struct member m[3] = {{.name = "x.npy"}, {.name = "y.npy"}, {.name = "other.npy"}};
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int64_t y[] = {7, 8, 9};
    pst_error e;
    pst_pack_options o = fast();
    m[0].length = npy(m[0].data, "<f4", "3, 2", x, sizeof(x));
    m[1].length = npy(m[1].data, "<i8", "3,", y, sizeof(y));
    m[2].length = npy(m[2].data, "<i8", "2,", y, 16);
    for (int deflated = 0; deflated < 2; deflated++) {
        pst_pack_report *r;
        write_npz(in_folder("a.npz"), m, 2, deflated);
        struct packed *p = pack_and_open("a.npz", "npz", &o, &r);
        REQUIRE(p);
        CHECK_INT(p->count, 3);
        CHECK(packed_float(p, 2, "x", 1) == 6.0f);
        CHECK_INT(packed_int(p, 2, "y"), 9);
        CHECK(report_has_note(r, "unpacked") == (deflated != 0));
        packed_close(p);
        pst_pack_report_destroy(r);
    }
    write_npz(in_folder("three.npz"), m, 3, false);
    CHECK_STATUS(refuse("three.npz", &o, &e), PST_EINVAL, &e);
    CHECK_MSG(strstr(e.message, "belong together"), "%s", e.message);
    struct packed *p = pack_and_open("three.npz:other", "picked", &o, NULL);
    REQUIRE(p);
    CHECK_INT(p->count, 2);
    packed_close(p);
    CHECK_STATUS(refuse("three.npz:none", &o, &e), PST_ENOTFOUND, &e);
    m[0].data[m[0].length - 1] ^= 1;
    write_npz(in_folder("sum.npz"), m, 1, true);
    size_t length;
    uint8_t *data = test_read_file(in_folder("sum.npz"), &length);
    for (size_t i = 0; i + 4 < length; i++)
        if (le32(data + i) == m[0].crc)
            data[i] ^= 1;
    test_write_file(in_folder("sum.npz"), data, length);
    free(data);
    CHECK_STATUS(refuse("sum.npz", &o, &e), PST_ECORRUPT, &e);
}

/* ---- hdf5 ---- */

#ifdef HAVE_HDF5
#include "hdf5_lists.h"

static void write_hdf5(const char *path)
{
    static const float x[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
    static const int32_t y[4] = {-1, 0, 1, 2};
    static const char *const words[4] = {"one", "", "three", "vier"};
    hsize_t dims[2] = {4, 3}, chunk[2] = {3, 3};
    hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), two = H5Screate_simple(2, dims, NULL);
    hid_t one = H5Screate_simple(1, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE), string = H5Tcopy(H5T_C_S1);
    H5Pset_chunk(list, 2, chunk);
    H5Pset_deflate(list, 6);
    H5Tset_size(string, H5T_VARIABLE);
    hid_t d = H5Dcreate2(f, "plain", H5T_IEEE_F32LE, two, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x), H5Dclose(d);
    d = H5Dcreate2(f, "packed", H5T_IEEE_F64BE, two, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x), H5Dclose(d);
    d = H5Dcreate2(f, "y", H5T_STD_I32LE, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, y), H5Dclose(d);
    d = H5Dcreate2(f, "words", string, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, string, H5S_ALL, H5S_ALL, H5P_DEFAULT, words), H5Dclose(d);
    hid_t g = H5Gcreate2(f, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    d = H5Dcreate2(g, "y", H5T_STD_I32LE, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, y), H5Dclose(d);
    H5Gclose(g), H5Tclose(string), H5Pclose(list), H5Sclose(one), H5Sclose(two), H5Fclose(f);
}

static void hdf5_lists(void)
{
    pst_error e;
    pst_pack_options o = fast();
    write_hdf5_lists(in_folder("lists.h5"));
    CHECK_STATUS(refuse("lists.h5", &o, &e), PST_EUNSUPPORTED, &e);
    CHECK(strstr(e.message, "any number of values"));
}

static void hdf5(void)
{
    pst_error e;
    pst_pack_options o = fast();
    pst_pack_report *r;
    write_hdf5(in_folder("a.h5"));
    struct packed *p = pack_and_open("a.h5", "hdf5", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 4);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 3; k++) {
            CHECK(packed_float(p, i, "plain", k) == (float)(i * 3 + k + 1));
            CHECK(packed_float(p, i, "packed", k) == (float)(i * 3 + k + 1));
        }
        CHECK_INT(packed_int(p, i, "y"), (int64_t)i - 1);
    }
    CHECK(packed_is(p, 0, "words", "one") && packed_is(p, 1, "words", "") && packed_is(p, 3, "words", "vier"));
    CHECK(report_has_note(r, "a.h5:packed was unpacked") && report_has_note(r, "left out: 1 group;"));
    packed_close(p);
    pst_pack_report_destroy(r);
    p = pack_and_open("a.h5:/group", "group", &o, NULL);
    REQUIRE(p);
    CHECK_INT(packed_int(p, 3, "y"), 2);
    packed_close(p);
    p = pack_and_open("a.h5:/group/y", "dataset", &o, NULL);
    REQUIRE(p);
    CHECK_INT(packed_int(p, 3, "y"), 2);
    packed_close(p);
    CHECK_STATUS(refuse("a.h5:/none", &o, &e), PST_ENOTFOUND, &e);
    write_text(in_folder("no.h5"), "not HDF5 at all");
    CHECK_STATUS(refuse("no.h5", &o, &e), PST_ECORRUPT, &e);
}
#else
static void hdf5_lists(void)
{
}

static void hdf5(void)
{
    pst_error e;
    pst_pack_options o = fast();
    write_text(in_folder("no.h5"), "");
    CHECK_STATUS(refuse("no.h5", &o, &e), PST_EUNSUPPORTED, &e);
    CHECK(strstr(e.message, "libhdf5"));
}
#endif

/* The number of such rows is not bounded by the file's size. */
static void rows_without_values(void)
{
    pst_error e;
    pst_pack_options o = fast();
    write_npy("none.npy", "|u1", "1152921504606846976, 0", "", 0);
    CHECK_STATUS(refuse("none.npy", &o, &e), PST_EINVAL, &e);
}

int main(int argc, char **argv)
{
    snprintf(folder, sizeof(folder), "%s", test_path("sources"));
    make_folder(folder);
    return test_main(argc, argv,
                     (const struct test[]){
                         {"npy: every type", arrays_of_every_type},
                         {"Fortran order and text", fortran_order_and_text},
                         {"npy: large rows, shuffled", large_rows_and_shuffle},
                         {"npy: rows without values", rows_without_values},
                         {"npz", archives_of_arrays},
                         {"hdf5", hdf5},
                         {"hdf5: sequences of numbers", hdf5_lists},
                         {NULL, NULL},
                     });
}
