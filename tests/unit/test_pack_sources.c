/* test_pack_sources.c: the sources that are files and rows, by what their records hold. Arrays: test_pack_arrays.c. */
#include "pack_sources.h"

#include "record/frame.h"

#include <math.h>

/* ---- text ---- */

static void text_lines(void)
{
    pst_pack_options o = fast();
    write_text(in_folder("lines.txt"), "\xef\xbb\xbf"
                                       "first\r\n\nthird\nlast without end");
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
    write_text(in_folder("wide.txt"), "\xff\xfe"
                                      "a");
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
    /* To the byte what the builder makes of the same values. */
    pst_builder *b;
    pst_bytes want;
    REQUIRE(pst_builder_create(&b, NULL) == PST_OK);
    pst_builder_add_int64s(b, "id", &(int64_t){-2}, 1, NULL);
    pst_builder_add_floats(b, "x", &(float){NAN}, 1, NULL);
    pst_builder_add_bytes(b, "name", &(pst_bytes){(const uint8_t *)"b \"o\" b", 7}, 1, NULL);
    pst_builder_add_bytes(b, "zip", &(pst_bytes){(const uint8_t *)"010", 3}, 1, NULL);
    pst_builder_add_bytes(b, "mixed", &(pst_bytes){(const uint8_t *)"2.5", 3}, 1, NULL);
    pst_builder_add_int64s(b, "gap", NULL, 0, NULL);
    REQUIRE(pst_builder_finish(b, &want, NULL) == PST_OK);
    CHECK(want.length == p->records[1].length && memcmp(want.data, p->records[1].data, want.length) == 0);
    pst_builder_destroy(b);
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
    o.bad = "skip";
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
    CHECK_MSG(strstr(e.message, "line 3: ") && strstr(e.message, "word") && strstr(e.message, "int"), "%s", e.message);
    o = fast();
    char text[512] = "a,b\n1,\"two\nlines\"\n\n";
    for (int i = 0; i < 40; i++)
        strcat(text, i == 20 ? "\n\r\n3,4\n" : "3,4\n");
    write_text(in_folder("lines.csv"), strcat(text, "5,6,7\n8,9\n"));
    CHECK_STATUS(refuse("lines.csv", &o, &e), PST_ECORRUPT, &e);
    CHECK_INT(e.record, 41);
    CHECK_MSG(strstr(e.message, "line 47: "), "%s", e.message); /* header, two lines, an empty one, 40 rows, two more empty lines */
    write_text(in_folder("void.csv"), "a,b\n1,\n2,NA\n");
    p = pack_and_open("void.csv", "void", &o, NULL);
    REQUIRE(p);
    CHECK_MSG(packed_is(p, 0, "b", "") && packed_is(p, 1, "b", "NA"), "a column without a value is text");
    packed_close(p);
    write_text(in_folder("head.csv"), "a,b\n");
    CHECK_STATUS(refuse("head.csv", &o, &e), PST_ENOTFOUND, &e);
}

/* An open quote swallows the rest: told at its place, not taken for a header as wide as what was read of it. */
static void csv_header_without_end(void)
{
    const size_t size = (size_t)5 << 20;
    char *text = malloc(size + 1);
    pst_pack_options o = fast();
    pst_error e;
    REQUIRE(text);
    memset(text, 'x', size);
    memcpy(text, "a,\"b", 4);
    text[size] = 0;
    write_text(in_folder("endless.csv"), text);
    free(text);
    CHECK_STATUS(refuse("endless.csv", &o, &e), PST_ELIMIT, &e);
    CHECK_MSG(strstr(e.path, "endless.csv") && strstr(e.message, "first row"), "%s", e.message);
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
        {"mixed.csv", "pics/a.jpg,7\npics/b b.png,x\npics/c.jpg,9\n", {0, 2, 1}, 3},
        {"tabs.tsv", "pics/a.jpg\t3\npics/b b.png\t4\npics/c.jpg\t3\n", {3, 4, 3}, 0},
        {"zeros.csv", "pics/a.jpg, 007\npics/b b.png,1.5\npics/c.jpg,2\n", {0, 1, 2}, 3},
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
            CHECK_MSG(packed_int(p, i, "label") == kinds[k].labels[i], "%s: label %zu is %lld", kinds[k].name, i,
                      (long long)packed_int(p, i, "label"));
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

/* Labels with a fraction are float, in every record. */
static void lists_of_numbers(void)
{
    static const char *const refused[] = {"pics/a.jpg,5\npics/c.jpg, 99999999999999999999\n", "pics/a.jpg,0.5\npics/c.jpg,16777217\n",
                                          "pics/a.jpg,0.5\npics/c.jpg,1e39\n"};
    pst_error e;
    pst_pack_options o = fast();
    pst_pack_report *r;
    make_pictures();
    write_text(in_folder("halves.csv"), "pics/a.jpg,0.5\npics/b b.png,-3\npics/c.jpg,1e2\n");
    struct packed *p = pack_and_open("halves.csv", "halves", &o, &r);
    REQUIRE(p);
    static const float want[] = {0.5f, -3, 100};
    for (size_t i = 0; i < 3; i++)
        CHECK(packed_float(p, i, "label", 0) == want[i]);
    CHECK_INT(r->classes, 0);
    packed_close(p);
    pst_pack_report_destroy(r);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        write_text(in_folder("refused.csv"), refused[i]);
        CHECK_STATUS(refuse("refused.csv", &o, &e), PST_ETYPE, &e);
    }
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
    o.bad = "skip";
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
    pst_free((void *)(uintptr_t)jpg.data);
    pst_free((void *)(uintptr_t)png.data);
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
    o.bad = "skip";
    p = pack_and_open("bad.tfrecord", "mended", &o, &r);
    REQUIRE(p);
    CHECK_INT(p->count, 3);
    CHECK_INT(r->skips, 2);
    packed_close(p);
    pst_pack_report_destroy(r);
    o.bad = "skip:1";
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
    CHECK(report_has_note(r, "left out: 1 file without an image's extension, such as"));
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
                         {"csv header without end", csv_header_without_end},
                         {"csv: several tables", several_tables},
                         {"list: labels", lists},
                         {"list: numbers", lists_of_numbers},
                         {"list: faults", lists_with_faults},
                         {"tar", tars},
                         {"tfrecord: records pass through", records_pass_through},
                         {"tfrecord: descriptions are carried", descriptions_are_carried},
                         {"folder: images without classes", images_without_classes},
                         {"folder: classes may be deep or empty", classes_may_be_deep_or_empty},
                         {NULL, NULL},
                     });
}
