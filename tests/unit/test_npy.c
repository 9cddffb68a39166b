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
        {"{'descr': '<U10', 'fortran_order': False, 'shape': (1,)}", PST_EUNSUPPORTED, "encode"},
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

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"headers that are read", good},
        {"headers that are refused", bad},
        {"lengths, truncations and bit flips", frames},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
