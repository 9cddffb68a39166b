/* image_samples.h: small images for the tests: pixels with a seed, and the bytes of formats that the library does not write. */
#ifndef TESTS_IMAGE_SAMPLES_H
#define TESTS_IMAGE_SAMPLES_H

#include "base/le.h"
#include "base/random.h"

#include <penstock/image.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct bytes {
    uint8_t data[8192];
    size_t length;
};

static inline void add(struct bytes *b, const void *data, size_t n)
{
    if (n > sizeof(b->data) - b->length)
        abort();
    memcpy(b->data + b->length, data, n);
    b->length += n;
}

#define ADD(b, ...) add((b), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void add16(struct bytes *b, unsigned v)
{
    ADD(b, (uint8_t)v, (uint8_t)(v >> 8));
}

static inline void add32(struct bytes *b, uint32_t v)
{
    add16(b, v & 0xffff);
    add16(b, v >> 16);
}

/* Smooth with noise: lossy formats keep it well, lossless ones cannot cheat. Aborts without memory. */
static inline pst_image sample_image(uint32_t width, uint32_t height, uint32_t channels, uint64_t seed)
{
    struct random r;
    pst_image image;
    random_init(&r, seed, 0, 0, 0);
    if (pst_image_create(&image, width, height, channels, NULL) < 0)
        abort();
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                image.pixels[y * image.stride + x * channels + c] =
                    (uint8_t)(40 + 150 * x / width + 40 * y / height + 10 * c + random_below(&r, 8));
    return image;
}

/* The file and info headers of a bitmap; `colours` palette entries and `extra` bytes come before the pixels. */
static inline void bmp_header(struct bytes *b, int32_t width, int32_t height, unsigned bits, unsigned compression,
                              unsigned colours, unsigned extra)
{
    ADD(b, 'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0);
    add32(b, 14 + 40 + 4 * colours + extra);
    add32(b, 40);
    add32(b, (uint32_t)width);
    add32(b, (uint32_t)height);
    add16(b, 1);
    add16(b, bits);
    add32(b, compression);
    ADD(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    add32(b, colours);
    add32(b, 0);
}

/* LZW that never compresses: a clear code before the code size would grow. `bits` is 2…8. */
static inline void gif_pixels(struct bytes *b, unsigned bits, const uint8_t *indexes, size_t n)
{
    uint8_t block[256];
    size_t length = 0, since = 0;
    uint32_t pending = 0, held = 0;
    ADD(b, (uint8_t)bits);
    for (size_t i = 0; i <= n + 1; i++) {
        unsigned codes[2], count = 0;
        if (i == 0 || (i <= n && since == (1u << bits) - 2)) {
            codes[count++] = 1u << bits;
            since = 0;
        }
        if (i > 0)
            codes[count++] = i <= n ? indexes[i - 1] : (1u << bits) + 1;
        since++;
        for (unsigned k = 0; k < count; k++) {
            pending |= codes[k] << held;
            for (held += bits + 1; held >= 8; held -= 8, pending >>= 8) {
                block[length++] = (uint8_t)pending;
                if (length == 255) {
                    ADD(b, 255);
                    add(b, block, length);
                    length = 0;
                }
            }
        }
    }
    block[length++] = (uint8_t)pending;
    ADD(b, (uint8_t)length);
    add(b, block, length);
    ADD(b, 0);
}

/* 3 × 2 pixels of 4 colours on a screen of 4 × 3 at (1, 1), colour 3 transparent. */
static inline struct bytes sample_gif(void)
{
    struct bytes b = {.length = 0};
    add(&b, "GIF89a", 6);
    ADD(&b, 4, 0, 3, 0, 0x81, 0, 0);
    ADD(&b, 10, 20, 30, 250, 0, 0, 0, 250, 0, 0, 0, 250);
    ADD(&b, 0x21, 0xf9, 4, 1, 0, 0, 3, 0);
    ADD(&b, 0x2c, 1, 0, 1, 0, 3, 0, 2, 0, 0);
    gif_pixels(&b, 2, (const uint8_t[]){0, 1, 2, 3, 2, 1}, 6);
    ADD(&b, 0x3b);
    return b;
}

/* 5 × 3 pixels, 8 bits with runs, an absolute run, a step and an early end. */
static inline struct bytes sample_rle(void)
{
    struct bytes b = {.length = 0};
    bmp_header(&b, 5, 3, 8, 1, 4, 0);
    ADD(&b, 0, 0, 0, 0, 1, 2, 3, 0, 40, 50, 60, 0, 255, 255, 255, 0);
    ADD(&b, 5, 1, 0, 0);                   /* five of colour 1, end of line */
    ADD(&b, 0, 3, 1, 2, 3, 0, 2, 2, 0, 0); /* three absolute (padded), two of colour 2, end of line */
    ADD(&b, 0, 2, 3, 0, 1, 3, 0, 1);       /* three to the right, one of colour 3, end of bitmap */
    return b;
}

/* A progressive JPEG; each of its scans is repeated `repeats` times at the end. */
static inline size_t sample_progressive(uint8_t **ret, const pst_image *image, int repeats)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned long length = 0;
    uint8_t *data = NULL;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &length);
    info.image_width = image->width;
    info.image_height = image->height;
    info.input_components = (int)image->channels;
    info.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = image->pixels + info.next_scanline * image->stride;
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    size_t scan = length - 2; /* from the last scan header to the end marker */
    while (scan > 0 && !(data[scan] == 0xff && data[scan + 1] == 0xda))
        scan--;
    size_t piece = length - 2 - scan;
    uint8_t *out = malloc(length + piece * (size_t)repeats);
    if (!out)
        abort();
    memcpy(out, data, length - 2);
    for (int i = 0; i < repeats; i++)
        memcpy(out + length - 2 + piece * (size_t)i, data + scan, piece);
    memcpy(out + length - 2 + piece * (size_t)repeats, "\xff\xd9", 2);
    free(data);
    *ret = out;
    return length + piece * (size_t)repeats;
}

/* In a format that the library writes; free() it. */
static inline uint8_t *encode_image(const pst_image *image, pst_image_format format, size_t *ret_length)
{
    uint8_t *bytes, *copy;
    if (pst_image_encode(&bytes, ret_length, image, format, NULL, NULL) < 0)
        abort();
    copy = malloc(*ret_length); /* exactly so long: reading beyond shows */
    if (!copy)
        abort();
    memcpy(copy, bytes, *ret_length);
    pst_free(bytes);
    return copy;
}

#endif
