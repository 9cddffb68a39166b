/* inspect_fixture.h: small shards with known content, for the tests of src/inspect. */
#ifndef TESTS_INSPECT_FIXTURE_H
#define TESTS_INSPECT_FIXTURE_H

#include "harness.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS 40u

static inline uint32_t item_width(size_t i)
{
    return 16 + (uint32_t)(i % 5);
}

static inline uint32_t item_height(size_t i)
{
    return 12 + (uint32_t)(i % 3);
}

/* A small picture; JPEG for even items, PNG for odd ones. */
static inline pst_bytes item_picture(size_t i)
{
    pst_image image;
    pst_error e;
    uint8_t *bytes;
    size_t length;
    if (pst_image_create(&image, item_width(i), item_height(i), 3, &e) < 0)
        abort();
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width * 3; x++)
            image.pixels[y * image.stride + x] = (uint8_t)(x * 5 + y * 9 + i * 31);
    if (pst_image_encode(&bytes, &length, &image, i % 2 ? PST_IMAGE_PNG : PST_IMAGE_JPEG, NULL, &e) < 0)
        abort();
    pst_image_finish(&image);
    return (pst_bytes){bytes, length};
}

static inline pst_bytes build_item(pst_builder *b, size_t i, bool pictures)
{
    char key[32];
    pst_error e;
    pst_bytes name = {(const uint8_t *)key, (size_t)snprintf(key, sizeof(key), "item-%04zu", i)}, out;
    float scores[3] = {(float)i / 7, -1.5f, (float)(i * i) * 0.01f};
    int64_t label = (int64_t)(i % 4);
    pst_bytes tags[2] = {{(const uint8_t *)"red", 3}, {(const uint8_t *)"round", 5}};
    pst_builder_reset(b);
    if (pictures) {
        pst_bytes picture = item_picture(i);
        pst_builder_add_bytes(b, "image", &picture, 1, &e);
        pst_free((void *)(uintptr_t)picture.data);
    }
    pst_builder_add_int64s(b, "label", &label, 1, &e);
    pst_builder_add_bytes(b, "key", &name, 1, &e);
    pst_builder_add_floats(b, "score", scores, 3, &e);
    pst_builder_add_bytes(b, "tags", tags, i % 3, &e);
    if (i % 10 == 0)
        pst_builder_add_floats(b, "rare", scores, 1, &e);
    if (pst_builder_finish(b, &out, &e) < 0)
        abort();
    return out;
}

static inline void write_items(const char *path, size_t first, size_t count, bool pictures, pst_compression compression,
                               bool no_index)
{
    pst_writer_options options = {
        .size = sizeof(options), .compression = compression, .no_sync = true, .no_index = no_index, .overwrite = true};
    pst_writer *w;
    pst_builder *b;
    pst_error e;
    if (pst_writer_open(&w, path, &options, &e) < 0 || pst_builder_create(&b, &e) < 0)
        abort();
    for (size_t i = first; i < first + count; i++) {
        pst_bytes item = build_item(b, i, pictures);
        if (pst_writer_write(w, item.data, item.length, &e) < 0)
            abort();
    }
    if (pst_writer_commit(w, &e) < 0)
        abort();
    pst_writer_close(w);
    pst_builder_destroy(b);
}

/* Records of any bytes. */
static inline void write_records(const char *path, const pst_bytes *records, size_t count)
{
    pst_writer_options options = {.size = sizeof(options), .no_sync = true, .no_index = true, .overwrite = true};
    pst_writer *w;
    pst_error e;
    if (pst_writer_open(&w, path, &options, &e) < 0)
        abort();
    for (size_t i = 0; i < count; i++)
        if (pst_writer_write(w, records[i].data, records[i].length, &e) < 0)
            abort();
    if (pst_writer_commit(w, &e) < 0)
        abort();
    pst_writer_close(w);
}

static inline const char *folder(const char *name)
{
    const char *path = test_path(name);
    mkdir(path, 0777);
    return path;
}

/* Two shards of pictures, RECORDS in all, in a folder of this name. */
static inline const char *make_pictures(const char *name, pst_compression compression)
{
    char path[400];
    const char *at = folder(name);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/set-train.tfrecord-%05zu-of-00002", at, i);
        write_items(path, i * 25, i ? RECORDS - 25 : 25, true, compression, false);
    }
    return at;
}

static inline pst_inspection *inspect(const char *path, pst_inspect_options options)
{
    pst_inspection *n = NULL;
    pst_error e = {0};
    options.size = sizeof(options);
    if (!CHECK_STATUS(pst_inspect(&path, 1, &options, &n, &e), PST_OK, &e))
        return NULL;
    return n;
}

static inline const pst_inspect_feature *feature(const pst_inspection *n, const char *name)
{
    for (size_t i = 0; i < n->features; i++)
        if (strcmp(n->feature[i].name, name) == 0)
            return &n->feature[i];
    return NULL;
}

static inline void flip(const char *path, size_t at)
{
    size_t length;
    uint8_t *bytes = test_read_file(path, &length);
    bytes[at % length] ^= 0x10;
    test_write_file(path, bytes, length);
    free(bytes);
}

#endif
