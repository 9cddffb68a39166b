/* fuzz_jpeg_points.c: whatever points are given for whatever image, decoding a part stays inside both, and ends. Points that
 * are true do not show, however many of them are known, and those that are added are true.
 *
 * The input is a length in 2 bytes, a JPEG of that length, and bytes that change the points that the image has: none of them
 * leaves true ones. */
#include "expect.h"

#include "base/hash.h"
#include "codec/jpeg/state.h"

#include <string.h>

#define MOST_PIXELS (1 << 16)

static struct jpeg_decoder *d;

/* A status, or a hash of the samples. */
static uint64_t decode(const struct jpeg_frame *f, const struct region *part, struct jpeg_points *points)
{
    struct jpeg_plane planes[3];
    pst_status st = jpeg_decode_planes(d, part, 1, 8, points, planes, NULL);
    EXPECT(st == PST_OK || st == PST_EUNSUPPORTED || (st == PST_ESTALE && points && points->sound));
    uint64_t hash = (uint64_t)(int64_t)st;
    for (uint32_t c = 0; st == PST_OK && c < f->components; c++)
        for (uint32_t y = 0; y < planes[c].height; y++)
            hash = hash_bytes(planes[c].pixels + y * planes[c].stride, planes[c].width, hash);
    return hash;
}

/* An image whose points are all known, as they are stored. */
static void use_stored(const struct jpeg_frame *f, struct jpeg_points points, bool sound, bool true_ones)
{
    const struct region part = {.x = f->width / 3, .y = f->height / 3, .width = 1 + f->width / 3, .height = 1 + f->height / 3};
    pst_image image;
    points.sound = true;
    uint64_t got = decode(f, &part, &points);
    EXPECT(got != (uint64_t)(int64_t)PST_EUNSUPPORTED || !sound);
    EXPECT(!true_ones || got == decode(f, &part, NULL));
    pst_status st = jpeg_decode_pixels(d, &part, 3, &points, &image, NULL);
    EXPECT(st == PST_OK || st == PST_ESTALE || (st == PST_EUNSUPPORTED && !sound));
}

/* The first `known` are, and the others are collected from part to part. `want` has true ones, as far as the data are sound. */
static void collect(const struct jpeg_frame *f, struct jpeg_points points, bool true_ones, const struct jpeg_point *want)
{
    points.sound = false;
    for (uint32_t i = 0; i < 4; i++) {
        static const uint8_t thirds[4][2] = {{1, 0}, {0, 1}, {1, 1}, {0, 2}};
        const struct region part = {.x = thirds[i][0] * (f->width / 3),
                                    .y = thirds[i][1] * (f->height / 3),
                                    .width = f->width - 2 * (f->width / 3),
                                    .height = f->height - 2 * (f->height / 3)};
        const uint64_t got = decode(f, &part, &points);
        EXPECT(points.known <= points.count || !points.count || got == (uint64_t)(int64_t)PST_EUNSUPPORTED);
        EXPECT(!true_ones || got == decode(f, &part, NULL));
        EXPECT(!true_ones || memcmp(points.point, want, points.known * sizeof(*want)) == 0);
    }
}

static void check(const struct jpeg_frame *f, const uint8_t *changes, size_t n)
{
    size_t count = jpeg_points_count(d), bytes = count * sizeof(struct jpeg_point);
    struct jpeg_point *point = calloc(count, sizeof(*point)), *want = calloc(count, sizeof(*want));
    struct jpeg_points points = {
        .step = JPEG_POINT_STEP, .count = (uint32_t)count, .known = (uint32_t)count, .point = point, .room = NULL};
    EXPECT(point != NULL && want != NULL);
    const bool sound = jpeg_points_find(d, want, NULL) == PST_OK;
    bool true_ones = true;
    memcpy(point, want, bytes);
    for (size_t i = 0; i < n && i < bytes; i++) {
        ((uint8_t *)point)[i] ^= changes[i];
        true_ones &= changes[i] == 0;
    }
    if (n > bytes && changes[bytes]) { /* another number of them, each of another number of MCUs */
        points.step = changes[bytes];
        points.count = points.known = n > bytes + 1 ? changes[bytes + 1] % (uint32_t)(count + 1) : points.count;
        true_ones = false;
    }
    use_stored(f, points, sound, true_ones && sound);
    points.room = point;
    points.known = n ? changes[n - 1] % (points.count + 2) : 0;
    /* A pass that ends in trouble leaves true points up to there, and zeros, which are none. */
    uint32_t found = 0;
    while (found < count && jpeg_point_bit(&want[found]))
        found++;
    true_ones &= points.known <= found;
    collect(f, points, true_ones, want);
    memset(point, 0, bytes);
    points = (struct jpeg_points){.step = JPEG_POINT_STEP, .count = (uint32_t)count, .point = point, .room = point};
    collect(f, points, true, want);
    free(point);
    free(want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!d)
        EXPECT((d = jpeg_decoder_create()) != NULL);
    size_t length = size > 2 ? (size_t)(data[0] | data[1] << 8) : 0;
    if (length > size - 2 || !length)
        return 0;
    uint8_t *jpeg = malloc(length); /* exactly, so that a sanitizer sees its end */
    EXPECT(jpeg != NULL);
    memcpy(jpeg, data + 2, length);
    struct jpeg_frame frame;
    if (jpeg_decoder_open(d, jpeg, length, &frame, NULL) == PST_OK && (uint64_t)frame.width * frame.height <= MOST_PIXELS)
        check(&frame, data + 2 + length, size - 2 - length);
    free(jpeg);
    return 0;
}
