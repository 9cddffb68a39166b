/* test_sources.c: arrays and numbers as sources: NumPy files, memory, ranges. */
#include "source_fixture.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- NumPy ---- */

/* A .npy of format 1 whose header has a length of `align` times something, plus `shift`. */
static void put_npy(const char *folder, const char *name, const char *descr, bool fortran, const char *shape, const void *data,
                    size_t length, size_t shift)
{
    char path[512], header[256], file[2048];
    int n = snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr,
                     fortran ? "True" : "False", shape);
    size_t total = ((size_t)n + 10 + 63) / 64 * 64 + shift;
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (char)((total - 10) & 255);
    file[9] = (char)((total - 10) >> 8);
    memset(file + 10, ' ', total - 10);
    memcpy(file + 10, header, (size_t)n);
    memcpy(file + total, data, length);
    snprintf(path, sizeof(path), "%s/%s.npy", folder, name);
    test_write_file(path, file, total + length);
}

struct npy_case {
    const char *descr, *shape;
    uint8_t data[40];
    size_t length, shift;
    pst_dtype dtype;
    uint32_t rank;
    double values[3][2]; /* a row each; the second value only where the rank is 1 */
};

static const struct npy_case npy_cases[] = {
    {"|u1", "(3, 2)", {1, 2, 3, 4, 255, 6}, 6, 0, PST_DTYPE_U8, 1, {{1, 2}, {3, 4}, {255, 6}}},
    {"|b1", "(3,)", {0, 1, 1}, 3, 0, PST_DTYPE_U8, 0, {{0}, {1}, {1}}},
    {"|i1", "(3,)", {0xff, 1, 0x80}, 3, 0, PST_DTYPE_I32, 0, {{-1}, {1}, {-128}}},
    {"<i2", "(3,)", {0xfe, 0xff, 0, 1, 0, 0x80}, 6, 0, PST_DTYPE_I32, 0, {{-2}, {256}, {-32768}}},
    {">u2", "(3,)", {0xff, 0xff, 1, 0, 0, 2}, 6, 0, PST_DTYPE_I32, 0, {{65535}, {256}, {2}}},
    {"<i4", "(3,)", {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0}, 12, 0, PST_DTYPE_I32, 0, {{1}, {-1}, {256}}},
    {"<i4", "(3,)", {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0}, 12, 3, PST_DTYPE_I32, 0, {{1}, {-1}, {256}}},
    {">i4", "(3,)", {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0}, 12, 0, PST_DTYPE_I32, 0, {{1}, {-1}, {256}}},
    {"<u4", "(3,)", {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0}, 12, 0, PST_DTYPE_I64, 0, {{1}, {4294967295.0}, {256}}},
    {"<i8",
     "(3,)",
     {1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255, 3},
     24,
     0,
     PST_DTYPE_I64,
     0,
     {{1}, {-2}, {3}}},
    {"<f4", "(3, 1)", {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f}, 12, 0, PST_DTYPE_F32, 1, {{1}, {-2}, {0.5}}},
    {">f4", "(3,)", {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0, 0x3f, 0, 0, 0}, 12, 1, PST_DTYPE_F32, 0, {{1}, {-2}, {0.5}}},
    {"<f8", "(3,)", {[6] = 0xf0, 0x3f, [15] = 0xc0, [22] = 0xe0, 0x3f}, 24, 0, PST_DTYPE_F64, 0, {{1}, {-2}, {0.5}}},
};

static double value_of(const pst_tensor *t, size_t i)
{
    if ((uintptr_t)t->data % pst_dtype_size(t->dtype))
        CHECK_MSG(false, "values are not aligned");
    switch (t->dtype) {
    case PST_DTYPE_U8:
        return ((const uint8_t *)t->data)[i];
    case PST_DTYPE_I32:
        return ((const int32_t *)t->data)[i];
    case PST_DTYPE_I64:
        return (double)((const int64_t *)t->data)[i];
    case PST_DTYPE_F32:
        return (double)((const float *)t->data)[i];
    case PST_DTYPE_F64:
        return ((const double *)t->data)[i];
    default:
        abort();
    }
}

static void test_npy_types(void)
{
    pst_error error;
    struct opened o;
    const char *folder = test_path("npy-types");
    char path[512];
    const char *word = path;
    mkdir(folder, 0777);
    snprintf(path, sizeof(path), "%s/x.npy", folder);
    for (size_t k = 0; k < sizeof(npy_cases) / sizeof(npy_cases[0]); k++) {
        const struct npy_case *c = &npy_cases[k];
        struct source_setup s = setup_make(&source_npy);
        put_npy(folder, "x", c->descr, false, c->shape, c->data, c->length, c->shift);
        setup_words(&s, "paths", &word, 1);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        CHECK_INT(opened_count(&o), 3);
        CHECK_STR(o.spec.field[0].name, "x");
        CHECK_INT(o.spec.field[0].dtype, c->dtype);
        CHECK_INT(o.spec.field[0].rank, c->rank);
        for (uint64_t i = 0; i < 3; i++) {
            opened_ahead(&o, &i, 1);
            REQUIRE_OK(opened_load(&o, i, &error), &error);
            for (size_t v = 0; v < (c->rank ? o.spec.field[0].shape[0] : 1); v++)
                CHECK_MSG(value_of(&o.out[0], v) == c->values[i][v], "%s row %d: %g", c->descr, (int)i, value_of(&o.out[0], v));
        }
        opened_close(&o);
    }
}

static void test_npy_fields(void)
{
    pst_error error;
    struct opened o;
    char a[512], line[128];
    const char *folder = test_path("npy-fields");
    mkdir(folder, 0777);
    static const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400};
    put_npy(folder, "half", "<f2", false, "(2, 2, 1)", halves, 8, 0);
    put_npy(folder, "name", "|S4", false, "(2,)", "ab\0\0a\0b\0", 8, 0);
    put_npy(folder, "sign", "|i1", true, "(2,)", "\xff\x01", 2, 0); /* of one dimension, either order is the same */
    snprintf(a, sizeof(a), "%s/*.npy", folder);
    const char *words[] = {a};
    struct source_setup s = setup_make(&source_npy);
    setup_words(&s, "paths", words, 1);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), 2);
    CHECK_STR(pst_spec_text(&o.spec, line, sizeof(line)), "half: float16 [2,1], name: bytes, sign: int32");
    opened_describe(&o, line, sizeof(line));
    CHECK_MSG(strstr(line, "3 arrays") && strstr(line, "mapped; converted: sign"), "\"%s\"", line);
    REQUIRE_OK(opened_load(&o, 1, &error), &error);
    CHECK(memcmp(opened_field(&o, "half")->data, halves + 2, 4) == 0);
    CHECK(opened_bytes(&o, "name").length == 3 && memcmp(opened_bytes(&o, "name").data, "a\0b", 3) == 0);
    CHECK_INT(*(const int32_t *)opened_field(&o, "sign")->data, 1);
    REQUIRE_OK(opened_load(&o, 0, &error), &error);
    CHECK(bytes_are(opened_bytes(&o, "name"), "ab"));
    CHECK_INT(source_npy.bytes_of(o.source, 0), 4 + 4 + 1);
    struct source_place at;
    source_npy.locate(o.source, 1, 1, &at);
    struct stat info;
    CHECK(strstr(at.path, "name.npy") && stat(at.path, &info) == 0);
    CHECK_INT(at.record, 1);
    CHECK_INT(at.offset, info.st_size - 4);
    source_npy.locate(o.source, 0, 0, &at);
    CHECK(strstr(at.path, "half.npy") != NULL);
    source_npy.locate(o.source, 0, SOURCE_WHOLE, &at);
    CHECK(strstr(at.path, "half.npy") != NULL);
    uint64_t print = opened_fingerprint(&o);
    opened_close(&o);
    CHECK(fingerprint_of(&s) == print);
    put_npy(folder, "sign", "|i1", true, "(2,)", "\xfe\x01", 2, 0);
    CHECK(fingerprint_of(&s) != print);
    put_npy(folder, "more", "|u1", false, "(3,)", "123", 3, 0);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error); /* three rows beside two */
    CHECK(strstr(error.path, "more.npy") != NULL && strstr(error.message, "half") != NULL);
    const char *twice[] = {a, a};
    snprintf(a, sizeof(a), "%s/half.npy", folder);
    setup_words(&s, "paths", twice, 2);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
}

/* Arrays in Fortran order and text, mapped and read: as NumPy reads them. */
static void test_npy_orders(void)
{
    static const char *const ios[] = {"auto", "read"};
    static const int16_t big[] = {0x0100, 0x0200, 0x0300, 0x0400, 0x0500, 0x0600}; /* >i2, by columns: 1 2, 3 4, 5 6 */
    static const float floats[] = {0, 10, 1, 11, 2, 12, 3, 13};                    /* (2, 2, 2) */
    static const uint32_t words[] = {'a', 0xe9, 0x20ac, 0x1f600, 0, 0}, bad[] = {'a', 0xd800};
    pst_error error;
    struct opened o;
    char path[512], line[128];
    const char *folder = test_path("npy-orders"), *word = path;
    mkdir(folder, 0777);
    for (size_t k = 0; k < 2; k++) {
        struct source_setup s = setup_make(&source_npy);
        put_npy(folder, "big", ">i2", true, "(2, 3)", big, sizeof(big), 0);
        put_npy(folder, "deep", "<f4", true, "(2, 2, 2)", floats, sizeof(floats), 3);
        put_npy(folder, "word", "<U3", false, "(2,)", words, sizeof(words), 0);
        put_npy(folder, "pair", "|S2", true, "(2, 2)", "a\0c\0bbdd", 8, 0);
        snprintf(path, sizeof(path), "%s/*.npy", folder);
        setup_words(&s, "paths", &word, 1);
        setup_text(&s, "io", ios[k]);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        CHECK_STR(pst_spec_text(&o.spec, line, sizeof(line)),
                  "big: int32 [3], deep: float32 [2,2], pair: bytes [2], word: bytes");
        opened_describe(&o, line, sizeof(line));
        CHECK_MSG(strstr(line, "converted: big, deep, pair, word"), "\"%s\"", line);
        for (uint64_t i = 0; i < 2; i++) {
            opened_ahead(&o, &i, 1);
            REQUIRE_OK(opened_load(&o, i, &error), &error);
            for (unsigned v = 0; v < 3; v++)
                CHECK_INT(value_of(opened_field(&o, "big"), v), 1 + i + 2 * v);
            for (unsigned v = 0; v < 4; v++) /* C order: the last dimension fastest */
                CHECK_INT(value_of(opened_field(&o, "deep"), v), v / 2 + v % 2 * 2 + i * 10);
            const pst_bytes *pair = opened_field(&o, "pair")->data;
            CHECK(bytes_are(pair[0], i ? "c" : "a") && bytes_are(pair[1], i ? "dd" : "bb"));
            CHECK(bytes_are(opened_bytes(&o, "word"), i ? "\xf0\x9f\x98\x80" : "a\xc3\xa9\xe2\x82\xac"));
        }
        struct source_place at, first;
        source_npy.locate(o.source, 1, 0, &at);
        source_npy.locate(o.source, 0, 0, &first);
        CHECK_INT(at.offset - first.offset, 2);
        opened_close(&o);
        put_npy(folder, "word", "<U1", false, "(2,)", bad, sizeof(bad), 0);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        CHECK_STATUS(opened_load(&o, 0, &error), PST_OK, &error);
        CHECK_STATUS(opened_load(&o, 1, &error), PST_ECORRUPT, &error);
        CHECK(strstr(error.path, "word.npy") && error.record == 1);
        opened_close(&o);
    }
}

static void test_npy_refused(void)
{
    static const struct {
        const char *descr, *shape;
        bool fortran;
        pst_status status;
    } cases[] = {
        {"<u8", "(2,)", false, PST_EUNSUPPORTED},
        {"<c8", "(2,)", false, PST_EUNSUPPORTED},
        {"<f4", "()", false, PST_EINVAL},
        {"<f4", "(2, 40)", false, PST_ECORRUPT},
        {"<f4", "(0, 4611686018427387904, 9)", false, PST_ELIMIT},
        {"<f4", "(1, 1, 1, 1, 1, 1, 1, 1)", false, PST_OK},
    };
    pst_error error;
    struct opened o;
    char path[512];
    const char *folder = test_path("npy-refused"), *word = path;
    mkdir(folder, 0777);
    snprintf(path, sizeof(path), "%s/x.npy", folder);
    struct source_setup s = setup_make(&source_npy);
    setup_words(&s, "paths", &word, 1);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_npy(folder, "x", cases[i].descr, cases[i].fortran, cases[i].shape, "0123456789abcdef", 16, 0);
        if (CHECK_STATUS(opened_open(&o, &s, &error), cases[i].status, &error) && cases[i].status == PST_OK)
            opened_close(&o);
    }
    test_write_file(path, "", 0);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ECORRUPT, &error);
    test_write_file(path, "something else, and long enough for it", 38);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ECORRUPT, &error);
    put_npy(folder, "x", "<f4", false, "(2, 2)", "0123456789abcdef", 16, 0);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    REQUIRE(truncate(path, 20) == 0);
    uint64_t one = 1;
    opened_ahead(&o, &one, 1); /* notices */
    CHECK_STATUS(opened_load(&o, 1, &error), PST_ESTALE, &error);
    opened_close(&o);
}

/* ---- Ranges and arrays ---- */

static void check_range(const char *start, const char *stop, const char *step, uint64_t count, int64_t first, int64_t last)
{
    pst_error error;
    struct opened o;
    struct source_setup s = setup_make(&source_range);
    if (start)
        setup_text(&s, "start", start);
    if (stop)
        setup_text(&s, "stop", stop);
    if (step)
        setup_text(&s, "step", step);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), count);
    if (count > 0) {
        REQUIRE_OK(opened_load(&o, 0, &error), &error);
        CHECK_INT(*(const int64_t *)opened_field(&o, "value")->data, first);
        REQUIRE_OK(opened_load(&o, count - 1, &error), &error);
        CHECK_INT(*(const int64_t *)opened_field(&o, "value")->data, last);
    }
    opened_close(&o);
}

static void test_range(void)
{
    pst_error error;
    struct opened o;
    check_range("10", NULL, NULL, 10, 0, 9);
    check_range(NULL, "10", NULL, 10, 0, 9);
    check_range("2", "10", NULL, 8, 2, 9);
    check_range("2", "10", "3", 3, 2, 8);
    check_range("2", "11", "3", 3, 2, 8);
    check_range("10", "0", "-4", 3, 10, 2);
    check_range("5", "5", NULL, 0, 0, 0);
    check_range("5", "2", NULL, 0, 0, 0);
    check_range("-5", NULL, NULL, 0, 0, 0);
    check_range("-9223372036854775807", "9223372036854775807", "9223372036854775807", 2, -9223372036854775807, 0);
    struct source_setup s = setup_make(&source_range);
    setup_text(&s, "step", "0");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    s = setup_make(&source_range);
    setup_text(&s, "start", "-9223372036854775807");
    setup_text(&s, "stop", "9223372036854775807");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ELIMIT, &error);
    setup_text(&s, "start", "3");
    uint64_t a = fingerprint_of(&s);
    setup_text(&s, "start", "4");
    CHECK(fingerprint_of(&s) != a);
}

static void test_arrays(void)
{
    pst_error error;
    struct opened o;
    float x[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    pst_bytes words[3] = {{(const uint8_t *)"a", 1}, {(const uint8_t *)"bc", 2}, {NULL, 0}};
    const char *names[] = {"x", "word"};
    pst_tensor arrays[] = {{.dtype = PST_DTYPE_F32, .rank = 2, .shape = {3, 2}, .data = x},
                           {.dtype = PST_DTYPE_BYTES, .rank = 1, .shape = {3}, .data = words}};
    struct source_setup s = setup_make(&source_arrays);
    struct arrays_config *c = (struct arrays_config *)(void *)s.config;
    *c = (struct arrays_config){names, arrays, 2};
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    char text[128];
    CHECK_INT(opened_count(&o), 3);
    CHECK_STR(pst_spec_text(&o.spec, text, sizeof(text)), "x: float32 [2], word: bytes");
    CHECK_STR(opened_describe(&o, text, sizeof(text)), "2 arrays in memory, 72 B");
    REQUIRE_OK(opened_load(&o, 1, &error), &error);
    CHECK(opened_field(&o, "x")->data == &x[1] && opened_field(&o, "word")->data == &words[1]);
    uint64_t print = opened_fingerprint(&o);
    opened_close(&o);
    x[2][1] = 7;
    CHECK(fingerprint_of(&s) != print);
    x[2][1] = 6;
    CHECK(fingerprint_of(&s) == print);
    words[1].data = (const uint8_t *)"bd";
    CHECK(fingerprint_of(&s) != print);
    uint64_t live = mem_live();

    arrays[1].shape[0] = 2;
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    CHECK(strstr(error.message, "word has 2 rows and x has 3") != NULL);
    arrays[1].shape[0] = 3;
    names[1] = "x";
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    names[1] = "word";
    arrays[0].rank = 0;
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    arrays[0].rank = 2;
    arrays[0].data = NULL;
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    c->count = 0;
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    CHECK_INT(mem_live(), live);
}

static void test_faults(void)
{
    char npy[512];
    const char *folder = test_path("failing"), *words[] = {npy}, *name = "x";
    float x[2] = {0};
    pst_tensor array = {.dtype = PST_DTYPE_F32, .rank = 1, .shape = {2}, .data = x};
    mkdir(folder, 0777);
    put_npy(folder, "a", "<i2", false, "(2,)", "abcd", 4, 0);
    put_npy(folder, "b", "<f4", false, "(2,)", "01234567", 8, 0);
    snprintf(npy, sizeof(npy), "%s/?.npy", folder);
    struct source_setup setups[3] = {setup_make(&source_npy), setup_make(&source_range), setup_make(&source_arrays)};
    setup_words(&setups[0], "paths", words, 1);
    setup_text(&setups[1], "start", "3");
    *(struct arrays_config *)(void *)setups[2].config = (struct arrays_config){&name, &array, 1};
    for (size_t i = 0; i < 3; i++)
        fail_all(use_elements, &setups[i]);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"npy: types", test_npy_types},
        {"npy: fields", test_npy_fields},
        {"npy: Fortran order and text", test_npy_orders},
        {"npy: what is refused", test_npy_refused},
        {"range", test_range},
        {"arrays", test_arrays},
        {"faults", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
