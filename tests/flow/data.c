/* data.c: see data.h. All of it is a function of nothing. */
#include "data.h"

#include "config.h"
#include "harness.h"

#include <penstock/example.h>
#include <penstock/image.h>
#include <penstock/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CLASSES   3
#define PHOTOS    4
#define SHARDS    2
#define PER_SHARD 7

static void must(bool done, const char *what)
{
    if (done)
        return;
    printf("# making test data: %s failed\n", what);
    abort();
}

static void must_do(pst_status st, const pst_error *e, const char *what)
{
    if (st < 0)
        printf("# %s\n", e->message);
    must(st >= 0, what);
}

/* ---- Pictures ---- */

/* Gradients with some structure, so that crops, flips and scales all show. */
static pst_bytes picture(unsigned number, pst_image_format format)
{
    pst_image image;
    pst_error e;
    pst_encode_options options = {.size = sizeof(options), .lossless = true};
    uint8_t *bytes;
    size_t length;
    uint32_t width = 20 + number * 7 % 13, height = 17 + number * 5 % 11;
    must_do(pst_image_create(&image, width, height, 3, &e), &e, "an image");
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *p = image.pixels + y * image.stride + x * 3;
            p[0] = (uint8_t)(x * 11 + number * 3);
            p[1] = (uint8_t)(y * 13 + number * 17);
            p[2] = (uint8_t)((x / 4 + y / 3) % 2 ? 230 : 20 + number);
        }
    must_do(pst_image_encode(&bytes, &length, &image, format, &options, &e), &e, "encoding");
    pst_image_finish(&image);
    return (pst_bytes){bytes, length};
}

static pst_image_format nth_format(unsigned n)
{
    static const pst_image_format formats[] = {
        PST_IMAGE_JPEG,
        PST_IMAGE_BMP,
#ifdef HAVE_PNG
        PST_IMAGE_PNG,
#endif
#ifdef HAVE_WEBP
        PST_IMAGE_WEBP,
#endif
    };
    return formats[n % (sizeof(formats) / sizeof(formats[0]))];
}

static void make_photos(void)
{
    char path[64], lines[4096] = "path,label\n";
    must(mkdir("photos", 0755) == 0, "photos/");
    for (unsigned c = 0; c < CLASSES; c++) {
        snprintf(path, sizeof(path), "photos/class%u", c);
        must(mkdir(path, 0755) == 0, path);
        for (unsigned i = 0; i < PHOTOS; i++) {
            pst_image_format format = nth_format(i);
            pst_bytes bytes = picture(c * PHOTOS + i, format);
            snprintf(path, sizeof(path), "photos/class%u/%u.%s", c, i, pst_image_format_name(format));
            test_write_file(path, bytes.data, bytes.length);
            snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s,%u\n", path, c);
            pst_free((void *)bytes.data);
        }
    }
    test_write_file("photos.csv", lines, strlen(lines));
}

/* ---- Examples ---- */

static void add_example(pst_writer *w, pst_builder *b, unsigned number, bool broken)
{
    pst_error e;
    pst_image_format format = number % 3 ? PST_IMAGE_JPEG : number % 6 ? nth_format(2) : PST_IMAGE_YUV420;
    pst_bytes image = picture(number, format), record;
    pst_bytes tags[3] = {{(const uint8_t *)"red", 3}, {(const uint8_t *)"", 0}, {(const uint8_t *)"yellow", 6}};
    int64_t label = number % 5;
    float x[4], boxes[8];
    for (unsigned i = 0; i < 8; i++)
        boxes[i] = (float)(number * 10 + i) / 4;
    for (unsigned i = 0; i < 4; i++)
        x[i] = (float)number - (float)i / 3;
    uint8_t *whole = (uint8_t *)image.data;
    if (broken)
        image.length = 30;
    pst_builder_reset(b);
    must_do(pst_builder_add_bytes(b, "image", &image, 1, &e), &e, "image");
    must_do(pst_builder_add_int64s(b, "label", &label, 1, &e), &e, "label");
    must_do(pst_builder_add_floats(b, "x", x, 4, &e), &e, "x");
    must_do(pst_builder_add_bytes(b, "tags", tags, number % 4, &e), &e, "tags");
    must_do(pst_builder_add_floats(b, "boxes", boxes, number % 3 * 4, &e), &e, "boxes");
    must_do(pst_builder_finish(b, &record, &e), &e, "an Example");
    must_do(pst_writer_write(w, record.data, record.length, &e), &e, "writing");
    pst_free(whole);
}

static void make_shard(const char *folder, unsigned shard, pst_compression compression, bool damaged)
{
    char path[64];
    pst_error e;
    pst_writer *w;
    pst_builder *b;
    pst_writer_options options = {.size = sizeof(options), .compression = compression, .no_sync = true};
    snprintf(path, sizeof(path), "%s/set-train.tfrecord-%05u-of-%05u", folder, shard, SHARDS);
    must_do(pst_writer_open(&w, path, &options, &e), &e, path);
    must_do(pst_builder_create(&b, &e), &e, "a builder");
    for (unsigned i = 0; i < PER_SHARD; i++)
        add_example(w, b, shard * PER_SHARD + i, damaged && i == 5);
    must_do(pst_writer_commit(w, &e), &e, path);
    pst_builder_destroy(b);
    pst_writer_close(w);
    if (!damaged)
        return;
    size_t length;
    uint8_t *bytes = test_read_file(path, &length);
    bytes[40] ^= 1; /* in the first record's payload */
    test_write_file(path, bytes, length);
    free(bytes);
}

/* ---- NumPy ---- */

static void make_npy(const char *path, const char *descr, const char *shape, const void *data, size_t length)
{
    uint8_t file[128 + 8192];
    char header[119];
    must(length <= 8192, path);
    int n = snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    memset(header + n, ' ', sizeof(header) - (size_t)n);
    header[117] = '\n';
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(file + 10, header, 118);
    memcpy(file + 128, data, length);
    test_write_file(path, file, 128 + length);
}

static void make_npys(void)
{
    float x[11 * 3];
    uint8_t images[9 * 12 * 10 * 3];
    for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++)
        x[i] = (float)i / 8 - 2;
    for (size_t i = 0; i < sizeof(images); i++)
        images[i] = (uint8_t)(i * 7 + i / 30 * 5);
    make_npy("x.npy", "<f4", "11, 3", x, sizeof(x));
    make_npy("images.npy", "|u1", "9, 12, 10, 3", images, sizeof(images));
}

const char *const data_array_names[DATA_ARRAYS] = {"id", "vector", "word"};

static int64_t id[10];
static float vector[10][5];
static pst_bytes word[10];
const pst_tensor data_arrays[DATA_ARRAYS] = {
    {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {10}, .data = id},
    {.dtype = PST_DTYPE_F32, .rank = 2, .shape = {10, 5}, .data = vector},
    {.dtype = PST_DTYPE_BYTES, .rank = 1, .shape = {10}, .data = word},
};

static void fill_arrays(void)
{
    for (int i = 0; i < 10; i++) {
        id[i] = i * i - 7;
        word[i] = (pst_bytes){(const uint8_t *)"abcdefghij", (size_t)i};
        for (int k = 0; k < 5; k++)
            vector[i][k] = (float)(i - k) / 2;
    }
}

void data_make(void)
{
    make_photos();
    must(mkdir("shards", 0755) == 0 && mkdir("zipped", 0755) == 0 && mkdir("damaged", 0755) == 0, "folders");
    for (unsigned s = 0; s < SHARDS; s++) {
        make_shard("shards", s, PST_COMPRESSION_NONE, false);
        make_shard("zipped", s, PST_COMPRESSION_GZIP, false);
        make_shard("damaged", s, PST_COMPRESSION_NONE, s == 0);
    }
    make_npys();
    data_make_tables();
    fill_arrays();
}
