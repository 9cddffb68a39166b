/* test_npy.c: headers as NumPy and others write them, and those that lie. */
#include "harness.h"

#include "base/le.h"
#include "io/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Builds a header of the version around `dict`; returns its length. */
static size_t build(uint8_t *out, unsigned version, const char *dict)
{
    size_t n = strlen(dict), start = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    uint32_t length = (uint32_t)n;
    memcpy(out + 8, &length, start - 8);
    memcpy(out + start, dict, n);
    return start + n;
}

static pst_status parse(struct npy_header *h, unsigned version, const char *dict, uint64_t data_bytes, pst_error *e)
{
    uint8_t bytes[1024];
    size_t n = build(bytes, version, dict);
    return npy_parse(h, bytes, n, n + data_bytes, "test.npy", e);
}

static void good(void)
{
    static const struct {
        const char *dict;
        uint64_t bytes;
        char kind;
        unsigned width;
        bool swapped, fortran;
        size_t rank;
        uint64_t elements, last;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n", 48, 'f', 4, false, false, 2, 12, 4},
        {"{'descr': '<f8', 'fortran_order': True, 'shape': (5,), }\n", 40, 'f', 8, false, true, 1, 5, 5},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", 1, 'u', 1, false, false, 0, 1, 0},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 0), }\n", 0, 'b', 1, false, false, 2, 0, 0},
        {"{'descr': '>i2', 'fortran_order': False, 'shape': (7,)}", 14, 'i', 2, true, false, 1, 7, 7},
        {"{'descr': '>i1', 'fortran_order': False, 'shape': (7,)}", 7, 'i', 1, false, false, 1, 7, 7},
        {"{'descr': '|S10', 'fortran_order': False, 'shape': (2,)}", 20, 'S', 10, false, false, 1, 2, 2},
        {"{'descr': '>U3', 'fortran_order': False, 'shape': (2,)}", 24, 'U', 12, true, false, 1, 2, 2},
        {"{'descr': '=u8', 'fortran_order': False, 'shape': (2L, 1L)}", 16, 'u', 8, false, false, 2, 2, 1},
        {"{\"shape\":(1,2,3,4,5,6,7,8),\"fortran_order\":False,\"descr\":\"<f2\"}", 80640, 'f', 2, false, false, 8, 40320, 8},
        {" \t{ 'fortran_order' :False ,'shape':( 2 , 2 , ),\n'descr'  :  '<i4' } \n", 16, 'i', 4, false, false, 2, 4, 2},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (18446744073709551615, 2, 0)}", 0, 'i', 8, false, false, 3, 0, 0},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (0, 18446744073709551615)}", 0, 'i', 8, false, false, 2, 0,
         UINT64_MAX},
    };
    for (unsigned version = 1; version <= 3; version++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct npy_header h = {0};
            pst_error e;
            REQUIRE_OK(parse(&h, version, cases[i].dict, cases[i].bytes, &e), &e);
            CHECK_MSG(h.kind == cases[i].kind && h.width == cases[i].width && h.swapped == cases[i].swapped &&
                          h.fortran == cases[i].fortran && h.rank == cases[i].rank && h.elements == cases[i].elements &&
                          (!h.rank || h.shape[h.rank - 1] == cases[i].last),
                      "%s", cases[i].dict);
            CHECK_INT(h.data_offset, strlen(cases[i].dict) + (version == 1 ? 10 : 12));
            if (h.elements && cases[i].bytes)
                CHECK_STATUS(parse(&h, version, cases[i].dict, cases[i].bytes - 1, &e), PST_ECORRUPT, &e);
        }
    }
}

static void bad(void)
{
    static const struct {
        const char *dict;
        pst_status want;
        const char *message;
    } cases[] = {
        {"", PST_ECORRUPT, "'{'"},
        {"{", PST_ECORRUPT, "keys"},
        {"{}", PST_ECORRUPT, "all of the keys"},
        {"{'descr': '<f4', 'shape': (1,)}", PST_ECORRUPT, "all of the keys"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "each once"},
        {"{'descr': '<f4', 'extra': 1, 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "keys"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "','"},
        {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "':'"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", PST_ECORRUPT, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", PST_ECORRUPT, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", PST_ECORRUPT, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", PST_ECORRUPT, "',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", PST_ECORRUPT, "dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", PST_ECORRUPT, "dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", PST_ECORRUPT, "dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", PST_ECORRUPT, "nothing more"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", PST_ECORRUPT, "its end"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "<f4, "},
        {"{'descr': '<f\\4', 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "here"},
        {"{'descr': 4, 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "dtype"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "byte order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", PST_ECORRUPT, "more than"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", PST_ECORRUPT, "more than"},
        {"{'descr': '|S4294967295', 'fortran_order': False, 'shape': (9,)}", PST_ECORRUPT, "follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", PST_EUNSUPPORTED, "dimensions"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "pickled"},
        {"{'descr': '<U0', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "astype"},
        {"{'descr': '<U1073741824', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "astype"},
        {"{'descr': '|U3', 'fortran_order': False, 'shape': (1,)}", PST_ECORRUPT, "byte order"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "astype"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "astype"},
        {"{'descr': '<i3', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "astype"},
        {"{'descr': '|S0', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "astype"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "plain number"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "plain number"},
        {"{'descr': [('x', '<f4'), ('y', '<i4')], 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "each field"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct npy_header h = {.kind = 'x'};
        pst_error e = {0};
        CHECK_STATUS(parse(&h, 1, cases[i].dict, 4, &e), cases[i].want, &e);
        CHECK_MSG(strstr(e.message, cases[i].message) != NULL, "%s: %s", cases[i].dict, e.message);
        CHECK_STR(e.path, "test.npy");
        CHECK_INT(h.kind, 'x');
    }
}

static void frames(void)
{
    static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n";
    uint8_t bytes[256];
    struct npy_header h;
    pst_error e;
    for (unsigned version = 1; version <= 2; version++) {
        size_t n = build(bytes, version, dict);
        for (size_t cut = 0; cut < n; cut++) {
            CHECK_STATUS(npy_parse(&h, bytes, cut, cut, "t", &e), PST_ECORRUPT, &e);
            pst_status st = npy_parse(&h, bytes, cut, n + 48, "t", &e); /* the file goes on, but was not handed over */
            CHECK(st == PST_ECORRUPT || (cut >= 12 && st == PST_ELIMIT) || (version == 1 && cut >= 10 && st == PST_ELIMIT));
        }
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            pst_status st = npy_parse(&h, bytes, n, n + 48, "t", &e);
            CHECK(st == PST_OK || st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
            if (st == PST_OK && h.elements)
                CHECK(h.data_offset + h.elements * h.width <= n + 48);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    build(bytes, 4, dict);
    CHECK_STATUS(npy_parse(&h, bytes, 100, 200, "t", &e), PST_EUNSUPPORTED, &e);
    size_t n = build(bytes, 2, dict);
    bytes[11] = 0xff; /* a header of 4 GB in a file of 8 GB */
    CHECK_STATUS(npy_parse(&h, bytes, n, UINT64_C(8) << 30, "t", &e), PST_ELIMIT, &e);
}

static void test_text(void)
{
    static const uint32_t text[] = {'a', 0, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff, 0, 0};
    static const char utf8[] = "a\0\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
    static const uint32_t bad[] = {0xd800, 0xdfff, 0x110000, 0xffffffff};
    uint32_t other[11];
    uint8_t out[sizeof(text)];
    size_t n = 99;
    for (size_t i = 0; i < 11; i++)
        other[i] = __builtin_bswap32(text[i]);
    for (int swapped = 0; swapped < 2; swapped++) {
        REQUIRE(npy_text((const uint8_t *)(swapped ? other : text), sizeof(text), swapped, out, &n));
        CHECK(n == sizeof(utf8) - 1 && memcmp(out, utf8, n) == 0);
    }
    CHECK(npy_text((const uint8_t *)(text + 9), 8, false, out, &n) && n == 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(!npy_text((const uint8_t *)&bad[i], 4, false, out, &n));
}

static void test_gather(void)
{
    static const uint64_t shape[] = {2, 3, 2}, empty[] = {2, 0};
    enum { ROWS = 5, VALUES = 12 };
    uint16_t stored[VALUES * ROWS], row[VALUES + 1];
    for (unsigned i = 0; i < ROWS; i++) /* each value says where it belongs */
        for (unsigned a = 0; a < 2; a++)
            for (unsigned b = 0; b < 3; b++)
                for (unsigned c = 0; c < 2; c++)
                    stored[i + ROWS * (a + 2 * (b + 3 * c))] = (uint16_t)(i * 1000 + a * 100 + b * 10 + c);
    for (unsigned i = 0; i < ROWS; i++) {
        row[VALUES] = 7;
        npy_gather((uint8_t *)row, (const uint8_t *)(stored + i), 2, shape, 3, ROWS * 2);
        for (unsigned k = 0; k < VALUES; k++)
            CHECK_INT(row[k], i * 1000 + k / 6 * 100 + k / 2 % 3 * 10 + k % 2);
        CHECK_INT(row[VALUES], 7);
    }
    npy_gather((uint8_t *)(row + VALUES), (const uint8_t *)stored, 2, empty, 2, 2);
    CHECK_INT(row[VALUES], 7);
    npy_gather((uint8_t *)row, (const uint8_t *)(stored + 3), 2, NULL, 0, 2);
    CHECK_INT(row[0], 3000);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"headers that are read", good}, {"headers that are refused", bad},      {"lengths, truncations and bit flips", frames},
        {"text as UTF-8", test_text},    {"rows in Fortran order", test_gather}, {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
