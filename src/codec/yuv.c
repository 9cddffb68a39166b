/* yuv.c: images of ours that are not compressed, with half the columns and rows of colour: what a JPEG of 4:2:0 is once its
 * entropy coding and its transform are undone. To RGB as libjpeg would: colours upsampled smoothly, JFIF's equations. */
#include "codec/yuv.h"

#include "base/le.h"
#include "base/memory.h"
#include "codec/image_codec.h"

#include <inttypes.h>
#include <string.h>

#define NAME    "yuv420"
#define HEADER  16
#define VERSION 1

static const uint8_t magic[6] = {'P', 'S', 'T', 'Y', 'U', 'V'};

/* ---- The header ---- */

static bool yuv_match(const uint8_t *data, size_t length)
{
    return length >= sizeof(magic) && memcmp(data, magic, sizeof(magic)) == 0;
}

static pst_status read_header(const uint8_t *data, size_t length, struct yuv_planes *ret, pst_error *reterr)
{
    if (length < HEADER)
        return image_codec_cut_off(NAME, HEADER, length, reterr);
    if (!yuv_match(data, length) || data[6] != VERSION || (data[7] != 1 && data[7] != 3))
        return pst_fail(reterr, PST_ECORRUPT, NAME ": version %u with %u planes; expected version %d with 1 or 3", data[6],
                        data[7], VERSION);
    struct yuv_planes p = {.width = le32(data + 8), .height = le32(data + 12)};
    if (p.width == 0 || p.height == 0 || p.width > INT32_MAX || p.height > INT32_MAX)
        return pst_fail(reterr, PST_ECORRUPT, NAME ": %" PRIu32 " × %" PRIu32 " pixels", p.width, p.height);
    if (data[7] == 3) {
        p.colour_width = (p.width + 1) / 2;
        p.colour_height = (p.height + 1) / 2;
    }
    *ret = p;
    return PST_OK;
}

pst_status yuv_open(const void *data, size_t length, struct yuv_planes *ret, pst_error *reterr)
{
    struct yuv_planes p = {0};
    pst_status st = read_header(data, length, &p, reterr);
    if (st < 0)
        return st;
    /* Sides of 31 bits: no overflow. */
    uint64_t brightness = (uint64_t)p.width * p.height, colour = (uint64_t)p.colour_width * p.colour_height;
    uint64_t needed = HEADER + brightness + 2 * colour;
    if (length < needed)
        return image_codec_cut_off(NAME, (size_t)needed, length, reterr);
    p.y = (const uint8_t *)data + HEADER;
    p.cb = p.y + brightness;
    p.cr = p.cb + colour;
    *ret = p;
    return PST_OK;
}

static pst_status yuv_probe(const uint8_t *data, size_t length, pst_image_info *ret, pst_error *reterr)
{
    struct yuv_planes p = {0};
    pst_status st = read_header(data, length, &p, reterr);
    if (st == PST_OK)
        *ret = (pst_image_info){PST_IMAGE_YUV420, p.width, p.height, p.colour_width ? 3 : 1};
    return st;
}

static pst_status yuv_check_end(const uint8_t *data, size_t length, pst_error *reterr)
{
    struct yuv_planes p = {0};
    return yuv_open(data, length, &p, reterr);
}

/* ---- Decoding ---- */

static uint32_t clamped(uint32_t at, bool next, uint32_t size)
{
    if (next)
        return at + 1 < size ? at + 1 : at;
    return at ? at - 1 : at;
}

/* Colours of a row of pixels from `x` on: three quarters of the sample it lies in, a quarter of its neighbour, in both
 * directions. `sums` is a row of scratch as wide as the plane. */
static void upsample(const uint8_t *plane, const struct yuv_planes *p, uint32_t x, uint32_t y, uint32_t width, uint16_t *sums,
                     uint8_t *out)
{
    uint32_t row = y / 2, first = x / 2 ? x / 2 - 1 : 0, end = (x + width) / 2 + 1;
    const uint8_t *near = plane + (size_t)row * p->colour_width;
    const uint8_t *far = plane + (size_t)clamped(row, y % 2, p->colour_height) * p->colour_width;
    for (uint32_t k = first; k < end && k < p->colour_width; k++)
        sums[k] = (uint16_t)(3 * near[k] + far[k]);
    for (uint32_t i = 0; i < width; i++) {
        uint32_t at = (x + i) / 2, odd = (x + i) % 2;
        out[i] = (uint8_t)((3 * sums[at] + sums[clamped(at, odd, p->colour_width)] + 8 - odd) >> 4);
    }
}

static uint8_t level(int32_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void rgb_row(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++, rgb += 3) {
        int32_t blue = cb[x] - 128, red = cr[x] - 128;
        rgb[0] = level(y[x] + ((91881 * red + 32768) >> 16));
        rgb[1] = level(y[x] + ((-22554 * blue - 46802 * red + 32768) >> 16));
        rgb[2] = level(y[x] + ((116130 * blue + 32768) >> 16));
    }
}

/* Scratch of a row: the sums of a colour row, both colours, pixels. */
static size_t scratch_bytes(const struct yuv_planes *p, uint32_t width)
{
    return (size_t)p->colour_width * sizeof(uint16_t) + 5 * (size_t)width;
}

static void decode_rows(const struct yuv_planes *p, const struct region *part, const pst_image *image, void *scratch)
{
    uint16_t *sums = scratch;
    uint8_t *cb = (uint8_t *)(sums + p->colour_width), *cr = cb + part->width, *rgb = cr + part->width;
    for (uint32_t y = 0; y < part->height; y++) {
        const uint8_t *bright = p->y + (size_t)(part->y + y) * p->width + part->x;
        uint8_t *to = image->pixels + y * image->stride;
        if (!p->colour_width || image->channels == 1) {
            image_codec_convert_row(bright, 1, to, image->channels, part->width);
            continue;
        }
        upsample(p->cb, p, part->x, part->y + y, part->width, sums, cb);
        upsample(p->cr, p, part->x, part->y + y, part->width, sums, cr);
        rgb_row(bright, cb, cr, image->channels == 3 ? to : rgb, part->width);
        if (image->channels != 3)
            image_codec_convert_row(rgb, 3, to, image->channels, part->width);
    }
}

static pst_status yuv_decode_part(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                                  const struct region *part, const pst_decode_options *options, struct region_memory *memory,
                                  pst_error *reterr)
{
    struct yuv_planes p = {0};
    pst_image image = {.width = part->width, .height = part->height, .channels = options->channels};
    size_t pixels, total;
    pst_status st = yuv_open(data, length, &p, reterr);
    if (st < 0)
        return st;
    (void)info;
    image.stride = (size_t)image.width * image.channels;
    if (__builtin_mul_overflow(image.stride, (size_t)image.height, &pixels) ||
        __builtin_add_overflow(pixels, scratch_bytes(&p, image.width) + sizeof(uint16_t), &total) ||
        !region_memory_need(memory, total))
        return image_codec_no_memory(NAME, reterr);
    image.pixels = memory->data;
    decode_rows(&p, part, &image, memory->data + (pixels + 1) / 2 * 2);
    *ret = image;
    return PST_OK;
}

static pst_status yuv_decode(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                             const pst_decode_options *options, pst_error *reterr)
{
    struct yuv_planes p = {0};
    pst_image image;
    pst_status st = yuv_open(data, length, &p, reterr);
    if (st == PST_OK)
        st = pst_image_create(&image, p.width, p.height, options->channels, reterr);
    if (st < 0)
        return st;
    void *scratch = mem_alloc(scratch_bytes(&p, p.width));
    if (!scratch) {
        pst_image_finish(&image);
        return image_codec_no_memory(NAME, reterr);
    }
    (void)info;
    decode_rows(&p, &(struct region){.width = p.width, .height = p.height}, &image, scratch);
    mem_free(scratch);
    *ret = image;
    return PST_OK;
}

/* ---- Encoding ---- */

static void brightness_row(const uint8_t *rgb, uint32_t channels, uint8_t *out, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++, rgb += channels)
        out[x] = channels == 1 ? rgb[0] : (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

/* A row of both colour differences, each the mean of four pixels; beyond an edge its last pixel counts twice. */
static void colour_rows(const pst_image *image, uint32_t y, uint8_t *cb, uint8_t *cr, uint32_t count)
{
    const uint8_t *above = image->pixels + (size_t)(2 * y) * image->stride;
    const uint8_t *below = 2 * y + 1 < image->height ? above + image->stride : above;
    for (uint32_t x = 0; x < count; x++) {
        size_t left = (size_t)x * 6, right = 2 * x + 1 < image->width ? left + 3 : left;
        int32_t sum[3];
        for (size_t c = 0; c < 3; c++)
            sum[c] = above[left + c] + above[right + c] + below[left + c] + below[right + c];
        cb[x] = level((-11059 * sum[0] - 21709 * sum[1] + 32768 * sum[2] + (257 << 17)) >> 18);
        cr[x] = level((32768 * sum[0] - 27439 * sum[1] - 5329 * sum[2] + (257 << 17)) >> 18);
    }
}

static pst_status yuv_encode(struct byte_sink *sink, const pst_image *image, const pst_encode_options *options,
                             pst_error *reterr)
{
    (void)options;
    if (image->channels != 1 && image->channels != 3)
        return image_codec_bad_channels(NAME, image->channels, "1 or 3", reterr);
    if ((uint64_t)image->width * image->height > PST_MAX_PIXELS)
        return pst_fail(reterr, PST_EINVAL, NAME ": %" PRIu32 " × %" PRIu32 " pixels, more than is supported; resize",
                        image->width, image->height);
    bool gray = image->channels == 1;
    size_t brightness = (size_t)image->width * image->height, columns = (image->width + 1) / 2, rows = (image->height + 1) / 2;
    size_t total = HEADER + brightness + (gray ? 0 : 2 * columns * rows);
    if (mem_grow((void **)&sink->data, &sink->capacity, sink->length + total, 1) < 0)
        return image_codec_no_memory(NAME, reterr);
    uint8_t *to = sink->data + sink->length;
    memcpy(to, magic, sizeof(magic));
    to[6] = VERSION;
    to[7] = gray ? 1 : 3;
    put_le32(to + 8, image->width);
    put_le32(to + 12, image->height);
    to += HEADER;
    for (uint32_t y = 0; y < image->height; y++)
        brightness_row(image->pixels + y * image->stride, image->channels, to + (size_t)y * image->width, image->width);
    to += brightness;
    for (uint32_t y = 0; !gray && y < rows; y++)
        colour_rows(image, y, to + y * columns, to + (rows + y) * columns, (uint32_t)columns);
    sink->length += total;
    return PST_OK;
}

const struct image_codec image_codec_yuv = {
    .format = PST_IMAGE_YUV420,
    .match = yuv_match,
    .probe = yuv_probe,
    .decode = yuv_decode,
    .encode = yuv_encode,
    .decode_part = yuv_decode_part,
    .check_end = yuv_check_end,
};
