/* test_flow_ops.c: every built-in operation in the engine's harness, as pipeline text over files made here. An operation
 * that no chain of the table names fails the first test: a new one is added to a chain, and the harness covers it. */
#include "config.h"
#include "flow/data.h"
#include "flow_harness.h"
#include <penstock/image.h>
#include <penstock/record.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* %s is the folder with the data. */
static const char *const texts[][2] = {
    {"tfrecord", "tfrecord %s/set | shuffle | example | drop image tags | batch 7"},
    {"schema", "tfrecord %s/set | example schema=\"label:int64 x:float[4] tags:bytes[*] text:bytes\" | shuffle | batch 5"},
    {"needless", "tfrecord %s/set | example | select label | one_hot 3 | batch 8 drop_remainder=true"},
    {"reading", "tfrecord %s/set io=read | shuffle window=2K | example | select x | cast f16 x | batch 9"},
    {"records as they are", "tfrecord %s/set io=read | shuffle window=2K | batch 9"},
    {"stacked", "tfrecord %s/set | example | select label x | stack x label name=row | batch 5"},
    {"direct", "tfrecord %s/set io=direct | example | select label x | rename x data | batch 6"},
    {"compressed", "tfrecord %s/packed | shuffle buffer=3K | example | select label x text | batch 4"},
    {"compressed, cached", "tfrecord %s/packed | example | cache 1M | shuffle buffer=2K | select label x | batch 4"},
    {"order", "range 5 95 3 | skip 2 | shard 2 1 | shuffle seed=3 | repeat 3 | take 30 | prefetch 3 | batch 4 | skip 1"},
    {"balance", "tfrecord %s/set | example | select label x | resample label target=0.5,0.3,0.2 length=60 | batch 7"},
    {"arrays", "npy %s/x.npy | cache | shuffle | batch 6"},
    {"snapshot", "range 40 | shuffle | snapshot %s/snapshot | shuffle | batch 6"},
    {"folder", "folder %s/photos | shuffle | batch 5"},
    {"files", "files %s/list.csv | batch 4 | take 3"},
    {"photos", "folder %s/photos | shuffle | decode | resize 12 | cast f32 | batch 4"},
    {"listed photos", "files %s/list.csv | decode | center_crop 10 | normalize | layout nchw | batch 3"},
    {"training",
     "tfrecord %s/set | shuffle | example schema=\"image:bytes label:int64\" | decode | random_resized_crop 8 | flip | "
     "normalize imagenet | batch 5"},
    {"windows", "range 40 | shuffle | window 3 shift=2 | unbatch | batch 4 | shuffle 4 | rebatch 7"},
    {"padded", "tfrecord %s/set | example | select label tags | padded_batch 3 multiple=2 | shuffle"},
    {"ragged", "folder %s/photos | decode | ragged_batch 3"},
    {"buckets", "tfrecord %s/packed | example | select label tags x | bucket tags boundaries=1,2 sizes=3,2,2 | take 5"},
    {"groups", "tfrecord %s/set | example | select label x | shuffle | group label 3"},
    {"unique", "tfrecord %s/set | example | select label x | unique label | window 2 | unbatch | batch 3"},
    {"tables", "csv table0.csv table1.csv | enumerate | expr \"id * 2\" twice | shuffle | batch 3"},
    {"packed table", "csv table1.csv.gz | batch 4"},
    {"lines", "lines text.txt | shuffle | batch 2"},
    {"fixed records", "records fixed.bin bytes=6 header=3 io=read | shuffle | batch 4"},
    {"archives", "tar web-000.tar web-001.tar | shuffle | batch 4"},
    {"packed archives", "tar web-000.tar.gz | batch 4"},
    {"tokens", "tokens tokens.bin n=8 next=labels | filter \"all(tokens < 60000)\" | shuffle | batch 2"},
    {"datasets", "hdf5 data.h5 | scale 2 field=x | batch 3"},
    {"raw", "npy %s/x.npy | decode_raw u8 3x4 x | batch 3"},
    {"pairs", "zip (npy %s/x.npy) (range 20) | shuffle | batch 4"},
    {"one after another", "concatenate (lines text.txt) (lines text.txt) | batch 4"},
    {"mixture", "sample (range 7) (range 100 140) weights=0.7,0.3 | shuffle | batch 4"},
    {"choice", "choose (range 10) (range 100 110) list=0,1,1 | batch 4"},
    {"turns", "interleave (lines text.txt) (lines text.txt) cycle=2 | batch 4"},
    {"cropping", "folder %s/photos | decode | crop 1 2 9 8 | flip | batch 4"},
    {"random crop",
     "folder %s/photos | shuffle | decode | resize 12 | cache 1M | random_crop 9 padding=2 | flip | normalize | batch 4"},
};
#define TEXTS (sizeof(texts) / sizeof(texts[0]))

static struct chain_case cases[TEXTS + 1]; /* those whose operations all exist */

/* ---- Data ---- */

static void check(pst_status st, const pst_error *e)
{
    if (st < 0) {
        printf("Bail out! %s\n", e->message);
        exit(1);
    }
}

static pst_image picture(uint32_t number)
{
    pst_image image;
    pst_error e;
    check(pst_image_create(&image, 12 + number % 5, 14 + number % 3, 3, &e), &e);
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width * 3; x++)
            image.pixels[y * image.stride + x] = (uint8_t)(x * 7 + y * 13 + number * 29);
    return image;
}

static uint8_t *encoded(uint32_t number, pst_image_format format, size_t *ret_length)
{
    pst_image image = picture(number);
    pst_error e;
    uint8_t *bytes;
    check(pst_image_encode(&bytes, ret_length, &image, format, NULL, &e), &e);
    pst_image_finish(&image);
    return bytes;
}

static void add_example(pst_writer *w, pst_builder *b, uint32_t i)
{
    pst_error e;
    size_t length;
    uint8_t *jpeg = encoded(i, PST_IMAGE_JPEG, &length);
    int64_t label = i % 3;
    float x[4] = {(float)i, 1, 2, (float)i / 3};
    pst_bytes text = {(const uint8_t *)"some text", i % 10}, image = {jpeg, length}, tags[3] = {text, text, text}, record;
    pst_builder_reset(b);
    check(pst_builder_add_bytes(b, "image", &image, 1, &e), &e);
    check(pst_builder_add_int64s(b, "label", &label, 1, &e), &e);
    check(pst_builder_add_bytes(b, "text", &text, 1, &e), &e);
    check(pst_builder_add_bytes(b, "tags", tags, i % 4, &e), &e);
    check(pst_builder_add_floats(b, "x", x, 4, &e), &e);
    check(pst_builder_finish(b, &record, &e), &e);
    check(pst_writer_write(w, record.data, record.length, &e), &e);
    pst_free(jpeg);
}

static void make_shard(const char *path, pst_compression compression, uint32_t first, uint32_t count)
{
    pst_error e;
    pst_writer *w;
    pst_builder *b;
    pst_writer_options o = {.size = sizeof(o), .compression = compression};
    check(pst_writer_open(&w, path, &o, &e), &e);
    check(pst_builder_create(&b, &e), &e);
    for (uint32_t i = first; i < first + count; i++)
        add_example(w, b, i);
    check(pst_writer_commit(w, &e), &e);
    pst_builder_destroy(b);
    pst_writer_close(w);
}

static void make_photos(void)
{
    char name[64], *list = malloc(4096);
    size_t n = 0;
    mkdir(test_path("photos"), 0777);
    for (uint32_t i = 0; i < 21; i++) {
        size_t length;
        uint8_t *bytes = encoded(i, i % 2 ? PST_IMAGE_JPEG : PST_IMAGE_BMP, &length);
        snprintf(name, sizeof(name), "photos/class%u", i % 3);
        mkdir(test_path(name), 0777);
        snprintf(name, sizeof(name), "photos/class%u/%02u.%s", i % 3, i, i % 2 ? "jpg" : "bmp");
        test_write_file(test_path(name), bytes, length);
        n += (size_t)snprintf(list + n, 4096 - n, "%s,%u\n", name, i % 3);
        pst_free(bytes);
    }
    test_write_file(test_path("list.csv"), list, n);
    free(list);
}

static void make_npy(void)
{
    char header[128];
    uint8_t bytes[128 + 20 * 3 * 4];
    memset(header, ' ', sizeof(header));
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 3), }";
    memcpy(header + 10, dict, sizeof(dict) - 1);
    header[127] = '\n';
    memcpy(bytes, header, 128);
    for (int i = 0; i < 60; i++) {
        float v = (float)i;
        memcpy(bytes + 128 + 4 * i, &v, 4);
    }
    test_write_file(test_path("x.npy"), bytes, sizeof(bytes));
}

/* The operation's name at the beginning of the stage behind `*at`; false: there is none left. */
static bool next_operation(const char **at, char *word, size_t size)
{
    const char *s = *at + strspn(*at, "| ");
    snprintf(word, size, "%.*s", (int)strcspn(s, " "), s);
    *at = s + strcspn(s, "|");
    return word[0] != '\0';
}

static bool names(const char *text, const char *op)
{
    char word[64];
    while (next_operation(&text, word, sizeof(word)))
        if (strcmp(word, op) == 0)
            return true;
    return false;
}

static bool all_exist(const char *text)
{
    char word[64];
    while (next_operation(&text, word, sizeof(word)))
        if (!pst_op_find(word))
            return false;
    return true;
}

static void make_data(void)
{
    static char written[TEXTS][512];
    size_t n = 0;
    mkdir(test_path("set"), 0777);
    mkdir(test_path("packed"), 0777);
    make_shard(test_path("set/a.tfrecord"), PST_COMPRESSION_NONE, 0, 17);
    make_shard(test_path("set/b.tfrecord"), PST_COMPRESSION_NONE, 17, 20);
    make_shard(test_path("packed/a.tfrecord"), PST_COMPRESSION_GZIP, 0, 11);
    make_shard(test_path("packed/b.tfrecord"), PST_COMPRESSION_GZIP, 11, 14);
    make_photos();
    make_npy();
    if (chdir(test_folder()) < 0)
        exit(1);
    data_make_tables();
    for (size_t i = 0; i < TEXTS; i++) {
        if (!all_exist(texts[i][1]))
            continue;
        snprintf(written[i], sizeof(written[i]), texts[i][1], test_folder());
        cases[n++] = (struct chain_case){.name = texts[i][0], .text = written[i]};
    }
}

/* ---- Tests ---- */

static void test_every_operation(void)
{
    for (size_t i = 0; pst_op_at(i); i++) {
        bool named = strcmp(pst_op_at(i)->name, "arrays") == 0; /* has no text; below */
        for (const struct chain_case *c = cases; c->name && !named; c++)
            named = names(c->text, pst_op_at(i)->name);
        CHECK_MSG(named, "no chain has the operation %s", pst_op_at(i)->name);
    }
}

static void test_workers(void)
{
    harness_workers(cases);
}

static void test_seek(void)
{
    harness_seek(cases);
}

static void test_cancel(void)
{
    harness_cancel(cases);
}

static void test_memory(void)
{
    harness_faults(cases, FAULT_MEMORY);
}

static void test_storage(void)
{
    harness_faults(cases, FAULT_IO);
}

static void test_arrays(void)
{
    float x[30];
    int64_t label[10];
    const char *const field[] = {"x", "label"};
    pst_tensor array[2] = {{.dtype = PST_DTYPE_F32, .rank = 2, .shape = {10, 3}, .data = x},
                           {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {10}, .data = label}};
    pst_pipeline *p = NULL;
    pst_batch *b = NULL;
    pst_error e;
    for (int i = 0; i < 30; i++)
        x[i] = (float)i;
    for (int i = 0; i < 10; i++)
        label[i] = 100 + i;
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(pst_pipeline_add_arrays(p, field, array, 2, &e), &e);
    memset(array, 0, sizeof(array)); /* only the data are borrowed */
    REQUIRE_OK(pst_pipeline_add(p, "batch", "4", &e), &e);
    for (int64_t i = 0; pst_pipeline_next(p, &b, &e) == PST_OK; b = pst_batch_unref(b))
        for (size_t k = 0; k < pst_batch_size(b); k++, i++) {
            CHECK_INT(((int64_t *)pst_batch_get(b, "label")->data)[k], 100 + i);
            CHECK(((float *)pst_batch_get(b, "x")->data)[3 * k + 2] == (float)(3 * i + 2));
        }
    pst_pipeline_destroy(p);
}

static void check_class_names(const char *format, const char *want, int line)
{
    char text[512], got[256] = "";
    pst_pipeline *p = NULL;
    pst_error e;
    const char *const *classes = NULL;
    size_t count = 99;
    snprintf(text, sizeof(text), format, test_folder());
    REQUIRE_OK(pst_pipeline_parse(&p, text, NULL, &e), &e);
    for (int again = 0; again < 2; again++) /* the second time they are known */
        REQUIRE_OK(pst_pipeline_class_names(p, &classes, &count, &e), &e);
    for (size_t i = 0; i < count; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s;", classes[i]);
    test_report(strcmp(got, want) == 0, __FILE__, line, "%s has the classes %s, expected %s", text, got, want);
    pst_pipeline_destroy(p);
}

static void test_class_names(void)
{
    static const char named[] = "photos/class0/00.bmp,zebra\nphotos/class1/01.jpg,ape\nphotos/class2/02.bmp,zebra\n";
    test_write_file(test_path("named.csv"), named, sizeof(named) - 1);
    mkdir(test_path("named"), 0777);
    make_shard(test_path("named/a.tfrecord"), PST_COMPRESSION_NONE, 0, 5);
    test_write_file(test_path("named/labels.txt"), "bird\r\ncow\n", 10);
    check_class_names("folder %s/photos | batch 4", "class0;class1;class2;", __LINE__);
    check_class_names("folder %s/photos labels=none | batch 4", "", __LINE__);
    check_class_names("files %s/named.csv | batch 4", "ape;zebra;", __LINE__);
    check_class_names("files %s/list.csv | batch 4", "", __LINE__); /* labels are numbers */
    check_class_names("tfrecord %s/named | example | batch 4", "bird;cow;", __LINE__);
    check_class_names("tfrecord %s/set | example | batch 4", "", __LINE__);
    check_class_names("npy %s/x.npy | batch 4", "", __LINE__);
}

/* Where no schema is given, the records tell; what is inferred is part of the plan. */
static void test_inferred_schema(void)
{
    pst_pipeline *p = NULL;
    pst_error e;
    char text[512], *words = NULL;
    snprintf(text, sizeof(text), "tfrecord %s/set | shuffle | example | select x label | batch 4", test_folder());
    REQUIRE_OK(pst_pipeline_parse(&p, text, NULL, &e), &e);
    REQUIRE_OK(pst_pipeline_describe(p, false, &words, &e), &e);
    CHECK_MSG(strstr(words, "label:int64") && strstr(words, "tags:bytes[*]"), "%s", words);
    CHECK_STR(pst_spec_text(pst_pipeline_spec(p), text, sizeof(text)), "x: float32 [?,4], label: int64 [?]");
    pst_free(words);
    pst_pipeline_destroy(p);
}

#ifdef HAVE_HDF5
#include "hdf5_lists.h"

static void hdf5_lists(void)
{
    static const int32_t want[4][3] = {{1, -2, 0}, {0, 0, 0}, {3, 4, 5}, {6, 0, 0}};
    pst_error e;
    pst_pipeline *p = NULL;
    pst_batch *batch = NULL;
    char text[512];
    snprintf(text, sizeof(text), "hdf5 '%s' | padded_batch 4", test_path("lists.h5"));
    write_hdf5_lists(test_path("lists.h5"));
    REQUIRE_OK(pst_pipeline_parse(&p, text, &(pst_pipeline_options){.size = sizeof(pst_pipeline_options)}, &e), &e);
    if (CHECK_STATUS(pst_pipeline_next(p, &batch, &e), PST_OK, &e)) {
        const pst_tensor *t = pst_batch_get(batch, "lists");
        CHECK(t && t->rank == 2 && t->shape[0] == 4 && t->shape[1] == 3 && t->dtype == PST_DTYPE_I32 && memcmp(t->data, want, sizeof(want)) == 0);
    }
    pst_batch_unref(batch);
    pst_pipeline_destroy(p);
}
#else
static void hdf5_lists(void)
{
}
#endif

static const struct test tests[] = {
    {"every operation is in a chain", test_every_operation},
    {"arrays in memory", test_arrays},
    {"the names of the classes", test_class_names},
    {"a schema is inferred", test_inferred_schema},
    {"any number of workers, any prefetch, fused or not: the same bytes", test_workers},
    {"seek to every batch", test_seek},
    {"cancel at every batch, destroy at every batch", test_cancel},
    {"every allocation may fail", test_memory},
    {"every storage call may fail", test_storage},
    {"hdf5: sequences of numbers", hdf5_lists},
    {0},
};

int main(int argc, char **argv)
{
    make_data();
    return test_main(argc, argv, tests);
}
