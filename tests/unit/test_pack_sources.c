/* test_pack_sources.c: every kind of source, by what its records hold. */
#include "pack_fixture.h"

#include "base/le.h"
#include "codec/stream.h"
#include "config.h"
#include "record/frame.h"

#include <math.h>
#include <zlib.h>

static char folder[320]; /* sources lie here; OUT is OUT-NAME beside them */

static const char *in_folder(const char *name)
{
    static char buffers[8][512];
    static unsigned next;
    char *b = buffers[next++ % 8];
    snprintf(b, sizeof(buffers[0]), "%s/%s", folder, name);
    return b;
}

/* Packs one source of the folder into OUT-`name`, and opens it. Fails the test and gives NULL when it cannot. */
static struct packed *pack_and_open(const char *source, const char *name, const pst_pack_options *o, pst_pack_report **ret)
{
    char out[512];
    pst_error e;
    snprintf(out, sizeof(out), "%s-%s", folder, name);
    remove_folder(out);
    const char *path = strcmp(source, "-") ? in_folder(source) : source;
    if (!CHECK_STATUS(pst_pack(&path, 1, out, o, ret, &e), PST_OK, &e))
        return NULL;
    return packed_open(out, "train");
}

static pst_status refuse(const char *source, const pst_pack_options *o, pst_error *e)
{
    char out[512];
    snprintf(out, sizeof(out), "%s-refused", folder);
    remove_folder(out);
    return pack_one(in_folder(source), out, o, NULL, e);
}

/* ---- text ---- */

static void text_lines(void)
{
    pst_pack_options o = fast();
    write_text(in_folder("lines.txt"), "\xef\xbb\xbf" "first\r\n\nthird\nlast without end");
    struct packed *p = pack_and_open("lines.txt", "text", &o, NULL);
    REQUIRE(p);
    CHECK_INT(p->count, 4);
    CHECK(packed_is(p, 0, "text", "first") && packed_is(p, 1, "text", "") && packed_is(p, 2, "text", "third"));
    CHECK(packed_is(p, 3, "text", "last without end"));
    CHECK(!packed_value(p, 0, "key").present);
    packed_close(p);
    o.features = "key=id,text=line";
    o.workers = 3;
    p = pack_and_open("lines.txt", "keyed", &o, NULL);
    REQUIRE(p);
    CHECK(packed_is(p, 2, "id", "lines.txt#2") && packed_is(p, 2, "line", "third"));
    packed_close(p);
}

/* Long rows, many of them, in a random order: more than a window holds. */
static void text_in_any_order(void)
{
    pst_pack_options o = fast();
    FILE *f = fopen(in_folder("long.txt"), "w");
    for (int i = 0; i < 3000; i++)
        fprintf(f, "%d %*d\n", i, i % 700 == 699 ? 30000 : i % 97, 0);
    fclose(f);
    o.shuffle = true;
    o.workers = 3;
    struct packed *p = pack_and_open("long.txt", "long", &o, NULL);
    REQUIRE(p);
    CHECK_INT(p->count, 3000);
    char seen[3000] = {0};
    for (size_t i = 0; i < p->count; i++) {
        pst_bytes b = packed_bytes(p, i, "text");
        int n = atoi((const char *)b.data);
        REQUIRE(n >= 0 && n < 3000 && !seen[n]);
        seen[n] = 1;
        CHECK_INT(b.length, (size_t)snprintf(NULL, 0, "%d %*d", n, n % 700 == 699 ? 30000 : n % 97, 0));
    }
    packed_close(p);
}

static pst_status collect(void *user, const void *data, size_t length, pst_error *reterr)
{
    (void)reterr;
    return fwrite(data, 1, length, user) == length ? PST_OK : PST_EIO;
}

static void write_compressed(const char *path, pst_compression compression, const void *data, size_t length)
{
    struct compressor *c;
    FILE *f = fopen(path, "wb");
    if (!f || compressor_create(&c, compression, 0, NULL) < 0 || compressor_run(c, data, length, true, collect, f, NULL) < 0)
        abort();
    compressor_destroy(c);
    fclose(f);
}

static void compressed_sources_are_unpacked(void)
{
    static const struct {
        const char *name;
        pst_compression compression;
    } kinds[] = {{"t.txt.gz", PST_COMPRESSION_GZIP}, {"t.txt.zst", PST_COMPRESSION_ZSTD}, {"t.txt.zz", PST_COMPRESSION_ZLIB}};
    for (size_t i = 0; i < 3; i++) {
        pst_pack_options o = fast();
        pst_pack_report *r;
        write_compressed(in_folder(kinds[i].name), kinds[i].compression, "one\ntwo\n", 8);
        struct packed *p = pack_and_open(kinds[i].name, "unpacked", &o, &r);
        REQUIRE(p);
        CHECK_INT(p->count, 2);
        CHECK(packed_is(p, 1, "text", "two"));
        CHECK(report_has_note(r, "unpacked to a temporary file"));
        packed_close(p);
        pst_pack_report_destroy(r);
    }
    /* "x^" is how zlib streams begin, and how a formula may. */
    pst_pack_options o = fast();
    pst_error e;
    write_text(in_folder("formula.txt"), "x^2 + y^2 = 1\n");
    struct packed *p = pack_and_open("formula.txt", "formula", &o, NULL);
    REQUIRE(p);
    CHECK(packed_is(p, 0, "text", "x^2 + y^2 = 1"));
    packed_close(p);
    size_t length;
    uint8_t *data = test_read_file(in_folder("t.txt.gz"), &length);
    test_write_file(in_folder("cut.txt.gz"), data, length - 5);
    free(data);
    CHECK_STATUS(refuse("cut.txt.gz", &o, &e), PST_ECORRUPT, &e);
    write_text(in_folder("wide.txt"), "\xff\xfe" "a");
    CHECK_STATUS(refuse("wide.txt", &o, &e), PST_EUNSUPPORTED, &e);
}

static void standard_input(void)
{
    pst_pack_options o = fast();
    pst_error e;
    pst_pack_report *r;
    int saved = dup(0), pipes[2];
    REQUIRE(saved >= 0 && pipe(pipes) == 0);
    REQUIRE(write(pipes[1], "from\na pipe\n", 12) == 12);
    close(pipes[1]);
    dup2(pipes[0], 0);
    close(pipes[0]);
    const char *minus = "-";
    char out[512];
    snprintf(out, sizeof(out), "%s-stdin", folder);
    CHECK_STATUS(pst_pack(&minus, 1, out, &o, NULL, &e), PST_EINVAL, &e);
    o.from = "text";
    struct packed *p = pack_and_open("-", "stdin", &o, &r);
    dup2(saved, 0);
    close(saved);
    REQUIRE(p);
    CHECK_INT(p->count, 2);
    CHECK(packed_is(p, 1, "text", "a pipe"));
    CHECK(report_has_note(r, "standard input"));
    packed_close(p);
    pst_pack_report_destroy(r);
}

/* ---- csv ---- */

static void csv_types(void)
{
    pst_pack_options o = fast();
    pst_pack_report *r;
    write_text(in_folder("t.csv"), "\xef\xbb\xbfid,x,name,zip,mixed,gap\n"
                                   "1,0.5,ann,007,1,3\n"
                                   "-2,,\"b \"\"o\"\" b\",010,2.5,\n"
                                   "\n"
                                   "9223372036854775807,1e-3,\"two\nlines\",100,x,NA\r\n");
    struct packed *p = pack_and_open("t.csv", "csv", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 3);
    CHECK_INT(packed_int(p, 0, "id"), 1);
    CHECK_INT(packed_int(p, 1, "id"), -2);
    CHECK_INT(packed_int(p, 2, "id"), INT64_MAX);
    CHECK(packed_float(p, 0, "x", 0) == 0.5f);
    CHECK(isnan(packed_float(p, 1, "x", 0)));
    CHECK(packed_float(p, 2, "x", 0) == 1e-3f);
    CHECK(packed_is(p, 1, "name", "b \"o\" b") && packed_is(p, 2, "name", "two\nlines"));
    CHECK_MSG(packed_is(p, 0, "zip", "007"), "leading zeros are kept");
    CHECK(packed_is(p, 0, "mixed", "1") && packed_is(p, 2, "mixed", "x"));
    CHECK_INT(packed_int(p, 0, "gap"), 3);
    pst_value v = packed_value(p, 1, "gap");
    CHECK(v.present && v.kind == PST_INT64 && v.count == 0);
    CHECK(report_has_note(r, "gap lacks 2 of 3"));
    packed_close(p);
    pst_pack_report_destroy(r);
    o.columns = "id:string,gap:float";
    p = pack_and_open("t.csv", "declared", &o, NULL);
    REQUIRE(p);
    CHECK(packed_is(p, 1, "id", "-2"));
    CHECK(isnan(packed_float(p, 1, "gap", 0)) && packed_float(p, 0, "gap", 0) == 3.0f);
    packed_close(p);
}

static void csv_forms(void)
{
    pst_pack_options o = fast();
    pst_error e;
    write_text(in_folder("s.csv"), "a;b\n1;2\n3;4\n");
    struct packed *p = pack_and_open("s.csv", "semicolon", &o, NULL);
    REQUIRE(p);
    CHECK_INT(packed_int(p, 1, "b"), 4);
    packed_close(p);
    o.no_header = true;
    o.delimiter = '\t';
    write_text(in_folder("t.tsv"), "1\t2\n3\t4\n");
    p = pack_and_open("t.tsv", "tabs", &o, NULL);
    REQUIRE(p);
    CHECK_INT(p->count, 2);
    CHECK_INT(packed_int(p, 0, "c1"), 2);
    packed_close(p);
    o = fast();
    write_text(in_folder("twice.csv"), "a,a\n1,2\n");
    CHECK_STATUS(refuse("twice.csv", &o, &e), PST_EINVAL, &e);
    write_text(in_folder("short.csv"), "a,b\n1,2\n3\n5,6\n");
    CHECK_STATUS(refuse("short.csv", &o, &e), PST_ECORRUPT, &e);
    CHECK_INT(e.record, 1);
    o.bad.skip = true;
    pst_pack_report *r;
    p = pack_and_open("short.csv", "short", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 2);
    CHECK_INT(r->skips, 1);
    CHECK_STR(r->skip[0].key, "short.csv#1");
    packed_close(p);
    pst_pack_report_destroy(r);
    o = fast();
    o.columns = "a:number";
    CHECK_STATUS(refuse("s.csv", &o, &e), PST_EINVAL, &e);
    o.columns = "nope:int";
    CHECK_STATUS(refuse("s.csv", &o, &e), PST_EINVAL, &e);
    o.columns = "a:int";
    write_text(in_folder("word.csv"), "a,b\n1,2\nword,4\n");
    CHECK_STATUS(refuse("word.csv", &o, &e), PST_ETYPE, &e);
    CHECK_MSG(strstr(e.message, "word") && strstr(e.message, "int"), "%s", e.message);
    o = fast();
    write_text(in_folder("head.csv"), "a,b\n");
    CHECK_STATUS(refuse("head.csv", &o, &e), PST_ENOTFOUND, &e);
}

static void several_tables(void)
{
    pst_error e;
    pst_pack_options o = fast();
    char a[512], b[512], out[512];
    snprintf(a, sizeof(a), "%s/part-a.csv", folder);
    snprintf(b, sizeof(b), "%s/part-b.csv", folder);
    snprintf(out, sizeof(out), "%s-tables", folder);
    FILE *f = fopen(a, "w"), *g = fopen(b, "w");
    fputs("n,w\n", f);
    fputs("n,w\n", g);
    for (int i = 0; i < 500; i++)
        fprintf(i < 300 ? f : g, "%d,w%d\n", i, i);
    fclose(f);
    fclose(g);
    const char *both[] = {a, b};
    o.workers = 3;
    o.shards = 3;
    REQUIRE_OK(pst_pack(both, 2, out, &o, NULL, &e), &e);
    struct packed *p = packed_open(out, "train");
    CHECK_INT(p->count, 500);
    for (size_t i = 0; i < p->count; i++)
        CHECK_INT(packed_int(p, i, "n"), i);
    packed_close(p);
    write_text(b, "n,other\n1,2\n");
    remove_folder(out);
    CHECK_STATUS(pst_pack(both, 2, out, &o, NULL, &e), PST_EINVAL, &e);
}

/* ---- list ---- */

static void make_pictures(void)
{
    make_folder(in_folder("pics"));
    write_picture(in_folder("pics/a.jpg"), 11, 9, 3, PST_IMAGE_JPEG, 1);
    write_picture(in_folder("pics/b b.png"), 12, 9, 3, PST_IMAGE_PNG, 2);
    write_picture(in_folder("pics/c.jpg"), 13, 9, 1, PST_IMAGE_JPEG, 3);
}

static void lists(void)
{
    static const struct {
        const char *name, *text;
        int64_t labels[3];
        size_t classes;
    } kinds[] = {
        {"names.csv", "pics/a.jpg,zebra\n\"pics/b b.png\",ant\npics/c.jpg,zebra\n", {1, 0, 1}, 2},
        {"ints.csv", "path,label\npics/a.jpg,5\npics/b b.png,-1\npics/c.jpg,7\n", {5, -1, 7}, 0},
        {"swapped.csv", "id,class,file\n1,x,pics/a.jpg\n2,y,pics/b b.png\n3,x,pics/c.jpg\n", {0, 1, 0}, 2},
        {"none.txt", "pics/a.jpg\npics/b b.png\npics/c.jpg\n", {INT64_MIN, INT64_MIN, INT64_MIN}, 0},
        {"tabs.tsv", "pics/a.jpg\t3\npics/b b.png\t4\npics/c.jpg\t3\n", {3, 4, 3}, 0},
    };
    make_pictures();
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        pst_pack_options o = fast();
        pst_pack_report *r;
        write_text(in_folder(kinds[k].name), kinds[k].text);
        struct packed *p = pack_and_open(kinds[k].name, "list", &o, &r);
        REQUIRE(p);
        CHECK_INT(p->count, 3);
        for (size_t i = 0; i < 3; i++) {
            CHECK_MSG(packed_int(p, i, "label") == kinds[k].labels[i], "%s: label %zu is %lld", kinds[k].name, i, (long long)packed_int(p, i, "label"));
            CHECK_INT(packed_int(p, i, "width"), 11 + i);
        }
        CHECK(packed_is(p, 1, "key", "pics/b b.png"));
        CHECK_INT(r->classes, kinds[k].classes);
        packed_close(p);
        pst_pack_report_destroy(r);
    }
    pst_pack_options o = fast();
    write_text(in_folder("caffe.txt"), "pics/a.jpg 65\npics/c.jpg 970\n");
    struct packed *p = pack_and_open("caffe.txt", "caffe", &o, NULL);
    REQUIRE(p);
    CHECK_INT(packed_int(p, 1, "label"), 970);
    packed_close(p);
}

static void lists_with_faults(void)
{
    pst_error e;
    pst_pack_options o = fast();
    pst_pack_report *r;
    make_pictures();
    write_text(in_folder("missing.csv"), "pics/a.jpg,1\npics/none.jpg,2\n");
    CHECK_STATUS(refuse("missing.csv", &o, &e), PST_ENOTFOUND, &e);
    CHECK_MSG(strstr(e.path, "none.jpg"), "%s", e.path);
    o.bad.skip = true;
    struct packed *p = pack_and_open("missing.csv", "missing", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 1);
    CHECK_STR(r->skip[0].key, "pics/none.jpg");
    packed_close(p);
    pst_pack_report_destroy(r);
    write_text(in_folder("unlabelled.csv"), "pics/a.jpg,1\npics/c.jpg,\n");
    CHECK_STATUS(refuse("unlabelled.csv", &o, &e), PST_EINVAL, &e);
    write_text(in_folder("nolist.csv"), "a,b\n1,2\n");
    o.from = "list";
    CHECK_STATUS(refuse("nolist.csv", &o, &e), PST_EINVAL, &e);
}

/* ---- tar ---- */

static void tar_add(FILE *f, const char *name, const void *data, size_t length)
{
    char header[512] = {0};
    unsigned sum = 0;
    snprintf(header, 100, "%s", name);
    snprintf(header + 100, 8, "%07o", 0644);
    snprintf(header + 124, 12, "%011o", (unsigned)length);
    snprintf(header + 136, 12, "%011o", 0);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof(header); i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    fwrite(header, 1, 512, f);
    fwrite(data, 1, length, f);
    static const char zeros[512];
    fwrite(zeros, 1, (512 - length % 512) % 512, f);
}

static void tar_end(FILE *f)
{
    static const char zeros[1024];
    fwrite(zeros, 1, sizeof(zeros), f);
    fclose(f);
}

static void tars(void)
{
    pst_error e;
    pst_pack_options o = fast();
    pst_pack_report *r;
    pst_bytes jpg = picture(21, 9, 3, PST_IMAGE_JPEG, 1), png = picture(22, 9, 3, PST_IMAGE_PNG, 2);
    FILE *f = fopen(in_folder("w.tar"), "wb");
    tar_add(f, "./d/one.jpg", jpg.data, jpg.length);
    tar_add(f, "./d/one.cls", "12\n", 3);
    tar_add(f, "./d/one.json", "{}", 2);
    tar_add(f, "README", "left out", 8);
    tar_add(f, "d/two.PNG", png.data, png.length);
    tar_add(f, "d/two.seg.png", png.data, png.length);
    tar_add(f, "d/two.cls", "-3", 2);
    tar_end(f);
    struct packed *p = pack_and_open("w.tar", "tar", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 2);
    CHECK(packed_is(p, 0, "key", "d/one") && packed_is(p, 1, "key", "d/two"));
    CHECK_INT(packed_int(p, 0, "label"), 12);
    CHECK_INT(packed_int(p, 1, "label"), -3);
    CHECK_INT(packed_int(p, 0, "width"), 21);
    CHECK_INT(packed_int(p, 1, "width"), 22);
    CHECK(packed_is(p, 0, "json", "{}") && !packed_value(p, 1, "json").present);
    CHECK_INT(packed_bytes(p, 1, "seg.png").length, png.length);
    CHECK(report_has_note(r, "json is in 1 of 2") && report_has_note(r, "without an extension"));
    packed_close(p);
    pst_pack_report_destroy(r);

    size_t length;
    uint8_t *data = test_read_file(in_folder("w.tar"), &length);
    write_compressed(in_folder("w.tar.gz"), PST_COMPRESSION_GZIP, data, length);
    free(data);
    p = pack_and_open("w.tar.gz", "targz", &o, NULL);
    REQUIRE(p);
    CHECK_INT(packed_bytes(p, 0, "image").length, jpg.length);
    packed_close(p);

    f = fopen(in_folder("words.tar"), "wb");
    tar_add(f, "a.jpg", jpg.data, jpg.length);
    tar_add(f, "a.cls", "dog", 3);
    tar_add(f, "b.jpg", jpg.data, jpg.length);
    tar_end(f);
    CHECK_STATUS(refuse("words.tar", &o, &e), PST_ETYPE, &e);
    CHECK_MSG(strstr(e.message, "dog"), "%s", e.message);
    f = fopen(in_folder("double.tar"), "wb");
    tar_add(f, "a.txt", "1", 1);
    tar_add(f, "a.txt", "2", 1);
    tar_end(f);
    CHECK_STATUS(refuse("double.tar", &o, &e), PST_ECORRUPT, &e);
    pst_bytes_free((uint8_t *)(uintptr_t)jpg.data);
    pst_bytes_free((uint8_t *)(uintptr_t)png.data);
}

/* ---- npy ---- */

/* A version 1 file; returns its length. */
static size_t npy(uint8_t *out, const char *descr, const char *shape, const void *data, size_t length)
{
    char header[256];
    int n = snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
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
        put16(f, (unsigned)strlen(m[i].name)), put16(f, 0), put16(f, 0), put16(f, 0), put16(f, 0), put32(f, 0), put32(f, m[i].offset);
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

/* ---- tfrecord ---- */

static size_t add_record(uint8_t *out, const char *payload)
{
    size_t n = strlen(payload);
    frame_put_header(out, n);
    memcpy(out + FRAME_HEADER, payload, n);
    frame_put_footer(out + FRAME_HEADER + n, payload, n);
    return n + FRAME_BYTES;
}

static void records_pass_through(void)
{
    uint8_t bytes[4096];
    size_t n = 0, second = 0, third = 0;
    pst_error e;
    pst_pack_options o = fast();
    pst_pack_report *r;
    for (int i = 0; i < 5; i++) {
        char payload[32];
        second = i == 1 ? n : second;
        third = i == 2 ? n : third;
        snprintf(payload, sizeof(payload), "record number %d", i);
        n += add_record(bytes + n, payload);
    }
    test_write_file(in_folder("r.tfrecord"), bytes, n);
    o.shards = 2;
    struct packed *p = pack_and_open("r.tfrecord", "records", &o, NULL);
    REQUIRE(p);
    CHECK_INT(p->count, 5);
    CHECK(memcmp(p->records[3].data, "record number 3", 15) == 0);
    packed_close(p);
    write_compressed(in_folder("r.tfrecord.gz"), PST_COMPRESSION_GZIP, bytes, n);
    p = pack_and_open("r.tfrecord.gz", "records-gz", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 5);
    CHECK(report_has_note(r, "unpacked"));
    packed_close(p);
    pst_pack_report_destroy(r);

    bytes[second + FRAME_HEADER + 3] ^= 1; /* a data CRC */
    bytes[third] ^= 1;                     /* a length CRC */
    test_write_file(in_folder("bad.tfrecord"), bytes, n);
    CHECK_STATUS(refuse("bad.tfrecord", &o, &e), PST_ECORRUPT, &e);
    o.bad.skip = true;
    p = pack_and_open("bad.tfrecord", "mended", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 3);
    CHECK_INT(r->skips, 2);
    packed_close(p);
    pst_pack_report_destroy(r);
    o.bad.max_records = 1;
    CHECK_STATUS(refuse("bad.tfrecord", &o, &e), PST_ECORRUPT, &e);
    o = fast();
    o.features = "image=x";
    CHECK_STATUS(refuse("r.tfrecord", &o, &e), PST_EINVAL, &e);
}

static void descriptions_are_carried(void)
{
    char first[512], second[512], path[512];
    pst_error e;
    pst_pack_options o = fast();
    make_classes(in_folder("classes"), 3, 5);
    snprintf(first, sizeof(first), "%s-first", folder);
    snprintf(second, sizeof(second), "%s-second", folder);
    o.shards = 3;
    REQUIRE_OK(pack_one(in_folder("classes"), first, &o, NULL, &e), &e);
    o.shards = 2;
    REQUIRE_OK(pack_one(first, second, &o, NULL, &e), &e);
    static const char *const same[] = {"features.json", "labels.txt", "label.labels.txt"};
    for (size_t i = 0; i < 3; i++) {
        size_t a, b;
        snprintf(path, sizeof(path), "%s-first/%s", folder, same[i]);
        uint8_t *x = test_read_file(path, &a);
        snprintf(path, sizeof(path), "%s-second/%s", folder, same[i]);
        uint8_t *y = test_read_file(path, &b);
        CHECK(a == b && memcmp(x, y, a) == 0);
        free(x);
        free(y);
    }
    struct packed *p = packed_open(second, "train");
    CHECK_INT(p->count, 15);
    CHECK(packed_is(p, 14, "key", "cat/004.jpg"));
    packed_close(p);
}

/* ---- hdf5 ---- */

#ifdef HAVE_HDF5
#define H5_USE_110_API
#include <hdf5.h>

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
    CHECK(report_has_note(r, "a.h5:packed was unpacked") && report_has_note(r, "1 groups are left out"));
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
static void hdf5(void)
{
    pst_error e;
    pst_pack_options o = fast();
    write_text(in_folder("no.h5"), "");
    CHECK_STATUS(refuse("no.h5", &o, &e), PST_EUNSUPPORTED, &e);
    CHECK(strstr(e.message, "libhdf5"));
}
#endif

/* ---- folder ---- */

static void images_without_classes(void)
{
    pst_pack_options o = fast();
    pst_pack_report *r;
    make_folder(in_folder("flat"));
    write_picture(in_folder("flat/b.jpg"), 11, 9, 3, PST_IMAGE_JPEG, 1);
    write_picture(in_folder("flat/a.PNG"), 12, 9, 3, PST_IMAGE_PNG, 2);
    write_text(in_folder("flat/notes.txt"), "not an image");
    write_text(in_folder("flat/.hidden.jpg"), "not listed");
    struct packed *p = pack_and_open("flat", "flat", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 2);
    CHECK(packed_is(p, 0, "key", "a.PNG") && packed_is(p, 1, "key", "b.jpg"));
    CHECK(!packed_value(p, 0, "label").present);
    CHECK_INT(r->classes, 0);
    CHECK(report_has_note(r, "1 files without an image's extension"));
    packed_close(p);
    pst_pack_report_destroy(r);
}

static void classes_may_be_deep_or_empty(void)
{
    pst_pack_options o = fast();
    pst_pack_report *r;
    make_folder(in_folder("deep"));
    make_folder(in_folder("deep/a"));
    make_folder(in_folder("deep/a/more"));
    make_folder(in_folder("deep/b"));
    make_folder(in_folder("deep/c"));
    write_picture(in_folder("deep/a/more/x.jpg"), 11, 9, 3, PST_IMAGE_JPEG, 1);
    write_picture(in_folder("deep/c/y.jpg"), 11, 9, 3, PST_IMAGE_JPEG, 1);
    write_picture(in_folder("deep/stray.jpg"), 11, 9, 3, PST_IMAGE_JPEG, 1);
    struct packed *p = pack_and_open("deep/", "deep", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 2);
    CHECK(packed_is(p, 0, "key", "a/more/x.jpg"));
    CHECK_INT(packed_int(p, 1, "label"), 2);
    CHECK_INT(r->classes, 3);
    CHECK(report_has_note(r, "without images") && report_has_note(r, "stray.jpg"));
    packed_close(p);
    pst_pack_report_destroy(r);
}

int main(int argc, char **argv)
{
    snprintf(folder, sizeof(folder), "%s", test_path("sources"));
    make_folder(folder);
    return test_main(argc, argv,
                     (const struct test[]){
                         {"text: lines", text_lines},
                         {"text: in any order", text_in_any_order},
                         {"compressed sources are unpacked", compressed_sources_are_unpacked},
                         {"standard input", standard_input},
                         {"csv: types", csv_types},
                         {"csv: forms", csv_forms},
                         {"csv: several tables", several_tables},
                         {"list: labels", lists},
                         {"list: faults", lists_with_faults},
                         {"tar", tars},
                         {"npy: every type", arrays_of_every_type},
                         {"npy: large rows, shuffled", large_rows_and_shuffle},
                         {"npz", archives_of_arrays},
                         {"tfrecord: records pass through", records_pass_through},
                         {"tfrecord: descriptions are carried", descriptions_are_carried},
                         {"hdf5", hdf5},
                         {"folder: images without classes", images_without_classes},
                         {"folder: classes may be deep or empty", classes_may_be_deep_or_empty},
                         {NULL, NULL},
                     });
}
