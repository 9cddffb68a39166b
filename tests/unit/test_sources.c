/* test_sources.c: sources other than TFRecords: folders, lists, NumPy arrays, ranges, arrays in memory. */
#include "source_fixture.h"

#include "base/fault.h"
#include "base/thread.h"
#include "open_files.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files ---- */

static void put(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    test_write_file(path, text, strlen(text));
}

/* Classes bird, cat, dog, empty; five pictures. */
static const char *make_tree(const char *name)
{
    const char *folder = test_path(name);
    mkdir(folder, 0777);
    put(folder, "dog/b.JPG", "dog b");
    put(folder, "dog/deep/er/a.png", "dog a");
    put(folder, "dog/notes.txt", "no picture");
    put(folder, "cat/1.jpeg", "cat one");
    put(folder, "cat/.hidden.jpg", "hidden");
    put(folder, "bird/z.webp", "");
    put(folder, "bird/a.bmp", "bird a");
    put(folder, "empty/readme.md", "nothing");
    put(folder, "stray.jpg", "stray");
    return folder;
}

struct expected {
    const char *key, *content;
    int64_t label;
};

static void check_files(struct opened *o, const struct expected *e, size_t count, bool labelled)
{
    pst_error error;
    CHECK_INT(opened_count(o), count);
    CHECK_INT(o->spec.count, labelled ? 3 : 2);
    for (uint64_t i = 0; i < count && i < opened_count(o); i++) {
        opened_ahead(o, &i, 1);
        if (!CHECK_STATUS(opened_load(o, i, &error), PST_OK, &error))
            continue;
        CHECK_MSG(bytes_are(opened_bytes(o, "key"), e[i].key), "key %d is %.*s", (int)i, (int)opened_bytes(o, "key").length,
                  (const char *)opened_bytes(o, "key").data);
        CHECK_MSG(bytes_are(opened_bytes(o, "image"), e[i].content), "content of %s", e[i].key);
        CHECK_INT(o->class->bytes_of(o->source, i), strlen(e[i].content));
        if (labelled)
            CHECK_INT(*(const int64_t *)opened_field(o, "label")->data, e[i].label);
    }
}

static void test_class_folders(void)
{
    static const struct expected all[] = {{"bird/a.bmp", "bird a", 0},
                                          {"bird/z.webp", "", 0},
                                          {"cat/1.jpeg", "cat one", 1},
                                          {"dog/b.JPG", "dog b", 2},
                                          {"dog/deep/er/a.png", "dog a", 2}};
    static const struct expected plain[] = {{"bird/a.bmp", "bird a", 0},       {"bird/z.webp", "", 0},
                                            {"cat/1.jpeg", "cat one", 0},      {"dog/b.JPG", "dog b", 0},
                                            {"dog/deep/er/a.png", "dog a", 0}, {"stray.jpg", "stray", 0}};
    static const struct expected some[] = {{"dog/b.JPG", "dog b", 2}, {"dog/notes.txt", "no picture", 2}};
    pst_error error;
    struct opened o;
    char line[256];
    const char *folder = make_tree("tree");
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", folder);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, all, 5, true);
    opened_describe(&o, line, sizeof(line));
    CHECK_STR(line, "5 files, 23 B in 4 classes (bird, cat, dog, empty)");
    opened_describe(&o, line, 12);
    CHECK_STR(line, "5 files, 23");
    opened_close(&o);
    setup_text(&s, "extensions", ".txt, jpg");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, some, 2, true);
    opened_close(&o);
    setup_text(&s, "extensions", "*");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), 7);
    opened_close(&o);
    setup_text(&s, "extensions", "jpg,jpeg,png,bmp,gif,webp");
    setup_text(&s, "labels", "none");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, plain, 6, false);
    opened_close(&o);
}

static void test_folder_refused(void)
{
    pst_error error;
    struct opened o;
    char path[512];
    const char *folder = make_tree("refused");
    struct source_setup s = setup_make(&source_folder);
    snprintf(path, sizeof(path), "%s/nowhere", folder);
    setup_text(&s, "path", path);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    snprintf(path, sizeof(path), "%s/cat", folder); /* files, no folders */
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    CHECK(strstr(error.message, "labels=none") != NULL);
    setup_text(&s, "path", folder);
    setup_text(&s, "extensions", "tiff");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    setup_text(&s, "extensions", "*");
    setup_text(&s, "subset", "training");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    setup_text(&s, "validation_split", "0.1");
    setup_text(&s, "subset", "validation");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error); /* a tenth of seven */
}

/* Keeps which of the files were there, by their key. */
static uint64_t keys_of(const struct source_setup *s, size_t *ret_count)
{
    pst_error error;
    struct opened o;
    uint64_t mask = 0;
    if (!CHECK_STATUS(opened_open(&o, s, &error), PST_OK, &error))
        return 0;
    *ret_count = opened_count(&o);
    int last = -1;
    for (uint64_t i = 0; i < *ret_count; i++) {
        CHECK_STATUS(opened_load(&o, i, &error), PST_OK, &error);
        int n = atoi((const char *)opened_bytes(&o, "key").data + 2);
        CHECK(n > last); /* the order stays */
        last = n;
        mask |= UINT64_C(1) << n;
    }
    opened_close(&o);
    return mask;
}

static void test_split(void)
{
    const char *folder = test_path("split");
    uint64_t all = (UINT64_C(1) << 60) - 1, masks[3];
    size_t training, validation;
    mkdir(folder, 0777);
    for (int i = 0; i < 60; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%c/%02d.jpg", (char)('a' + i / 15), i);
        put(folder, name, name);
    }
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", folder);
    setup_text(&s, "validation_split", "0.33"); /* 19.8: rounded down */
    for (int seed = 0; seed < 3; seed++) {
        char text[8];
        snprintf(text, sizeof(text), "%d", seed);
        setup_text(&s, "seed", text);
        setup_text(&s, "subset", "training");
        uint64_t t = keys_of(&s, &training);
        setup_text(&s, "subset", "validation");
        masks[seed] = keys_of(&s, &validation);
        CHECK_INT(training, 41);
        CHECK_INT(validation, 19);
        CHECK((t & masks[seed]) == 0 && (t | masks[seed]) == all);
        for (int class = 0; class < 4; class ++) /* shuffled, not the tail of the listing */
            CHECK(masks[seed] >> (15 * class) & 0x7fff);
    }
    CHECK(masks[0] != masks[1] && masks[1] != masks[2] && masks[0] != masks[2]);
    CHECK_MSG(masks[0] == UINT64_C(0x5502031400cdf40), "%#llx: splits are for ever", (unsigned long long)masks[0]);
    setup_text(&s, "subset", "all");
    CHECK(keys_of(&s, &training) == all);
}

static uint64_t fingerprint_of(const struct source_setup *s)
{
    pst_error error;
    struct opened o;
    if (!CHECK_STATUS(opened_open(&o, s, &error), PST_OK, &error))
        return 0;
    uint64_t print = opened_fingerprint(&o);
    opened_close(&o);
    return print;
}

static void test_folder_changes(void)
{
    pst_error error;
    struct opened o;
    char path[512];
    const char *folder = make_tree("changes");
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", folder);
    uint64_t print = fingerprint_of(&s);
    CHECK(fingerprint_of(&s) == print);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    const struct timespec times[2] = {{1, 2}, {3, 4}};
    snprintf(path, sizeof(path), "%s/bird/a.bmp", folder);
    REQUIRE(utimensat(AT_FDCWD, path, times, 0) == 0);
    CHECK(fingerprint_of(&s) != print); /* the same name and size */
    print = fingerprint_of(&s);
    put(folder, "cat/1.jpeg", "the cat has grown since it was looked at");
    REQUIRE_OK(opened_load(&o, 2, &error), &error);
    CHECK(bytes_are(opened_bytes(&o, "image"), "the cat has grown since it was looked at"));
    put(folder, "cat/1.jpeg", "c");
    REQUIRE_OK(opened_load(&o, 2, &error), &error);
    CHECK(bytes_are(opened_bytes(&o, "image"), "c"));
    snprintf(path, sizeof(path), "%s/cat/1.jpeg", folder);
    unlink(path);
    CHECK_STATUS(opened_load(&o, 2, &error), PST_ENOTFOUND, &error);
    CHECK_STR(error.path, path);
    o.class->need(o.source, 6); /* without the image nobody opens the file */
    REQUIRE_OK(opened_load(&o, 2, &error), &error);
    CHECK(bytes_are(opened_bytes(&o, "key"), "cat/1.jpeg"));
    opened_close(&o);
    CHECK(fingerprint_of(&s) != print);
}

static void test_list(void)
{
    static const struct expected named[] = {
        {"cat/1.jpeg", "cat one", 1}, {"dog/b.JPG", "dog b", 2}, {"bird/a.bmp", "bird a", 0}};
    static const struct expected numbered[] = {{"dog/b.JPG", "dog b", -7}, {"cat/1.jpeg", "cat one", 12}};
    static const struct expected mixed[] = {{"dog/b.JPG", "dog b", 0}, {"cat/1.jpeg", "cat one", 1}};
    static const struct expected plain[] = {{"dog/notes.txt", "no picture", 0}, {"empty/readme.md", "nothing", 0}};
    pst_error error;
    struct opened o;
    char path[512], line[128];
    const char *folder = make_tree("listed");
    struct source_setup s = setup_make(&source_files);
    snprintf(path, sizeof(path), "%s/list.csv", folder);
    setup_text(&s, "list", path);
    static const char *const texts[] = {("\xef\xbb\xbf"
                                         "cat/1.jpeg,cat\ndog/b.JPG,dog\n\nbird/a.bmp,bird\n"),
                                        "label;image\r\ncat;\"cat/1.jpeg\"\r\ndog;dog/b.JPG\r\nbird;bird/a.bmp",
                                        "cat/1.jpeg cat\ndog/b.JPG dog\nbird/a.bmp bird\n"};
    for (size_t i = 0; i < 3; i++) {
        put(folder, "list.csv", texts[i]);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        check_files(&o, named, 3, true);
        CHECK_STR(opened_describe(&o, line, sizeof(line)), "3 files, 18 B; labels by name, 3 classes");
        opened_close(&o);
    }
    put(folder, "list.csv", "dog/b.JPG,-7\ncat/1.jpeg,12\n");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, numbered, 2, true);
    opened_close(&o);
    put(folder, "list.csv", "dog/b.JPG,7\ncat/1.jpeg,x\n"); /* not all are numbers: all are names */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, mixed, 2, true);
    opened_close(&o);
    char absolute[600], text[700];
    snprintf(absolute, sizeof(absolute), "%s/cat/1.jpeg", folder);
    snprintf(text, sizeof(text), "%s\n", absolute);
    put(folder, "sub/list.csv", text);
    struct source_setup elsewhere = s;
    snprintf(text, sizeof(text), "%s/sub/list.csv", folder);
    setup_text(&elsewhere, "list", text);
    REQUIRE_OK(opened_open(&o, &elsewhere, &error), &error);
    check_files(&o, (const struct expected[]){{absolute, "cat one", 0}}, 1, false);
    opened_close(&o);
    put(folder, "list.csv", "dog/notes.txt\nempty/readme.md\n"); /* no pictures: any files will do */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, plain, 2, false);
    opened_close(&o);
    put(folder, "sub/other.txt", "1.jpeg\n");
    snprintf(path, sizeof(path), "%s/sub/other.txt", folder);
    snprintf(line, sizeof(line), "%s/cat", folder);
    setup_text(&s, "root", line);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, (const struct expected[]){{"1.jpeg", "cat one", 0}}, 1, false);
    opened_close(&o);
}

static void test_list_refused(void)
{
    pst_error error;
    struct opened o;
    char path[512];
    const char *folder = make_tree("list-refused");
    struct source_setup s = setup_make(&source_files);
    snprintf(path, sizeof(path), "%s/list.csv", folder);
    setup_text(&s, "list", path);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    put(folder, "list.csv", "\n\n");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    put(folder, "list.csv", "cat/1.jpeg,1\ndog/b.JPG\n");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    CHECK_INT(error.record, 1);
    put(folder, "list.csv", "cat/1.jpeg,1\ncat,2\n"); /* a folder */
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    put(folder, "list.csv", "cat/1.jpeg,1\ncat/2.jpeg,2\ndog/b.JPG,3\n");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    CHECK(strstr(error.path, "cat/2.jpeg") != NULL);
    s.policy.skip = true; /* then it is a damaged element */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), 3);
    CHECK_STATUS(opened_load(&o, 0, &error), PST_OK, &error);
    CHECK_STATUS(opened_load(&o, 1, &error), PST_ECORRUPT, &error);
    CHECK_STATUS(opened_load(&o, 2, &error), PST_OK, &error);
    opened_close(&o);
}

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

static void test_npy_refused(void)
{
    static const struct {
        const char *descr, *shape;
        bool fortran;
        pst_status status;
    } cases[] = {
        {"<u8", "(2,)", false, PST_EUNSUPPORTED},
        {"<c8", "(2,)", false, PST_EUNSUPPORTED},
        {"<f4", "(2, 1)", true, PST_EUNSUPPORTED},
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

/* ---- Threads and faults ---- */

struct crowd {
    struct opened *o;
    _Atomic unsigned wrong;
};

static void load_all(void *user, unsigned worker)
{
    struct crowd *c = user;
    const struct source_class *class = c->o->class;
    pst_status st;
    void *w = worker_make(class, c->o->source, &st, NULL);
    for (int round = 0; st == PST_OK && round < 50; round++) {
        for (uint64_t k = 0; st == PST_OK && k < 5; k++) {
            uint64_t i = (k + worker) % 5;
            pst_tensor out[PST_MAX_FIELDS] = {{0}};
            class->ahead(c->o->source, w, &i, 1);
            st = class->load(c->o->source, w, i, NULL, out, NULL);
        }
    }
    if (st != PST_OK)
        atomic_fetch_add(&c->wrong, 1);
    if (class->worker_stop)
        class->worker_stop(c->o->source, w);
    mem_free(w);
}

static void test_threads(void)
{
    pst_error error;
    struct opened o;
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", make_tree("crowded"));
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    struct crowd c = {.o = &o};
    struct thread_group *group = NULL;
    REQUIRE_OK(thread_group_start(&group, 8, "load", load_all, &c, &error), &error);
    thread_group_join(group);
    CHECK_INT(c.wrong, 0);
    opened_close(&o);
}

static pst_status use_source(const struct source_setup *s)
{
    pst_error error;
    struct opened o;
    pst_status st = opened_open(&o, s, &error);
    if (st < 0)
        return st;
    for (uint64_t i = 0; i < opened_count(&o); i++) {
        opened_ahead(&o, &i, 1);
        pst_status loaded = opened_load(&o, i, &error);
        st = st < 0 ? st : loaded;
    }
    opened_close(&o);
    return st;
}

static void fail_all(const struct source_setup *s, int kind, bool forever)
{
    uint64_t live = mem_live();
    size_t files = open_files();
    for (uint64_t n = 0;; n++) {
        test_fault_arm(kind, n, forever);
        pst_status st = use_source(s);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK_MSG(st <= 0, "fault %d of kind %d gives %s", (int)n, kind, pst_status_name(st));
        if (!reached) {
            CHECK_STATUS(st, PST_OK, NULL);
            break;
        }
    }
    CHECK_INT(mem_live(), live);
    CHECK_INT(open_files(), files);
}

static void test_faults(void)
{
    char list[512], npy[512];
    const char *folder = make_tree("failing"), *words[] = {npy};
    float x[2] = {0};
    pst_tensor array = {.dtype = PST_DTYPE_F32, .rank = 1, .shape = {2}, .data = x};
    const char *name = "x";
    put(folder, "list.csv", "cat/1.jpeg,cat\n\"dog/b.JPG\",dog\n");
    put_npy(folder, "a", "<i2", false, "(2,)", "abcd", 4, 0);
    put_npy(folder, "b", "<f4", false, "(2,)", "01234567", 8, 0);
    snprintf(list, sizeof(list), "%s/list.csv", folder);
    snprintf(npy, sizeof(npy), "%s/?.npy", folder);
    struct source_setup setups[5] = {setup_make(&source_folder), setup_make(&source_files), setup_make(&source_npy),
                                     setup_make(&source_range), setup_make(&source_arrays)};
    setup_text(&setups[0], "path", folder);
    setup_text(&setups[0], "validation_split", "0.4");
    setup_text(&setups[0], "subset", "training");
    setup_text(&setups[1], "list", list);
    setup_words(&setups[2], "paths", words, 1);
    setup_text(&setups[3], "start", "3");
    *(struct arrays_config *)(void *)setups[4].config = (struct arrays_config){&name, &array, 1};
    for (size_t i = 0; i < 5; i++) {
        for (int forever = 0; forever < 2; forever++) {
            fail_all(&setups[i], FAULT_MEMORY, forever);
            fail_all(&setups[i], FAULT_IO, forever);
            fail_all(&setups[i], FAULT_THREAD, forever);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"folder", test_class_folders},
        {"folder: what is refused", test_folder_refused},
        {"folder: the split", test_split},
        {"folder: files that change", test_folder_changes},
        {"files", test_list},
        {"files: what is refused", test_list_refused},
        {"npy: types", test_npy_types},
        {"npy: fields", test_npy_fields},
        {"npy: what is refused", test_npy_refused},
        {"range", test_range},
        {"arrays", test_arrays},
        {"threads", test_threads},
        {"faults", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
