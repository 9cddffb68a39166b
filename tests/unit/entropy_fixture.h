/* entropy_fixture.h: JPEGs that have points and JPEGs that have none, alone and in shards. */
#ifndef TESTS_ENTROPY_FIXTURE_H
#define TESTS_ENTROPY_FIXTURE_H

#include "base/hash.h"
#include "harness.h"
#include "jpeg_samples.h"
#include "record/entropy_section.h"
#include <penstock/example.h>
#include <penstock/record.h>

/* A JPEG of its own for every seed; free() it. */
static inline pst_bytes photo_of(const struct jpeg_kind *kind, uint32_t width, uint32_t height, uint32_t seed)
{
    size_t stride = (size_t)width * (unsigned)kind->channels;
    uint8_t *pixels = malloc(stride * height), *data = NULL;
    for (size_t i = 0; i < stride * height; i++)
        pixels[i] = (uint8_t)((i % stride) * (seed % 5 + 1) / 3 + i / stride * (seed % 7 + 1) + ((seed * 31 + i) % 13) * 5);
    pst_image image = {pixels, width, height, (uint32_t)kind->channels, stride};
    size_t length = jpeg_sample(&data, &image, kind, 80);
    free(pixels);
    return (pst_bytes){data, length};
}

static inline const struct jpeg_kind *jpeg_kind_named(const char *name)
{
    for (size_t i = 0; i < JPEG_KINDS; i++)
        if (strcmp(jpeg_kinds[i].name, name) == 0)
            return &jpeg_kinds[i];
    abort();
}

static inline pst_bytes photo(uint32_t seed)
{
    return photo_of(jpeg_kind_named(seed % 2 ? "4:2:0" : "4:4:4"), 120 + seed % 40, 90 + seed % 30, seed);
}

static inline void photo_free(pst_bytes photo)
{
    free((void *)(uintptr_t)photo.data);
}

/* A checksum that is right, whatever the entry says. */
static inline void entry_seal(struct entropy_entry *e, const struct jpeg_point *points)
{
    e->checksum = hash_bytes(points, e->count * sizeof(*points), hash_bytes(e, offsetof(struct entropy_entry, checksum), 0));
}

/* Writes an Example with `count` images in one feature, and a label. */
static inline void photos_write(pst_writer *w, pst_builder *b, const pst_bytes *images, size_t count, int64_t label)
{
    pst_error e = {0};
    pst_bytes record;
    pst_builder_reset(b);
    if (pst_builder_add_int64s(b, "label", &label, 1, &e) < 0 || pst_builder_add_bytes(b, "image", images, count, &e) < 0 ||
        pst_builder_finish(b, &record, &e) < 0 || pst_writer_write(w, record.data, record.length, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        abort();
    }
}

/* A shard of `count` Examples with a photo each, of the seeds from `seed` on. */
static inline void photo_shard(const char *path, uint32_t count, uint32_t seed)
{
    pst_error e;
    pst_writer *w = NULL;
    pst_builder *b = NULL;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true, .overwrite = true};
    if (pst_writer_open(&w, path, &options, &e) < 0 || pst_builder_create(&b, &e) < 0)
        abort();
    for (uint32_t i = 0; i < count; i++) {
        pst_bytes image = photo(seed + i);
        photos_write(w, b, &image, 1, i);
        photo_free(image);
    }
    if (pst_writer_commit(w, &e) < 0)
        abort();
    pst_writer_close(w);
    pst_builder_destroy(b);
}

#endif
