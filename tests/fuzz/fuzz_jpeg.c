/* fuzz_jpeg.c: whatever the bytes, our JPEG decoder leaves them to libjpeg-turbo, or has its pixels, at every level of
 * instructions; a part has the pixels of the whole, by points and without, and both ways to planes agree. */
#include "expect.h"

#include "base/cpu.h"
#include "codec/jpeg/planes.h"
#include "codec/libjpeg.h"

#include <string.h>

#define MOST_PIXELS (1 << 16)
#define MOST_POINTS (MOST_PIXELS / 64 / JPEG_POINT_STEP + 1)

static bool has(const pst_image *whole, const struct region *r, const pst_image *part)
{
    for (uint32_t y = 0; y < r->height; y++)
        if (memcmp(part->pixels + y * part->stride, whole->pixels + (r->y + y) * whole->stride + (size_t)r->x * whole->channels,
                   (size_t)r->width * whole->channels) != 0)
            return false;
    return part->width == r->width && part->height == r->height && part->channels == whole->channels;
}

static uint32_t pick(uint32_t below, const uint8_t *data, size_t size, size_t at)
{
    return data[(size / 3 + at) % size] * 257u % below;
}

static struct jpeg_decoder *decoder_of(unsigned level)
{
    static struct jpeg_decoder *decoders[2];
    static struct jpeg_kernels kernels[2];
    if (!decoders[level]) {
        EXPECT((decoders[level] = jpeg_decoder_create()) != NULL);
        jpeg_kernels_init(&kernels[level], level ? cpu_features() : 0);
        decoders[level]->kernels = &kernels[level];
    }
    return decoders[level];
}

static void check_planes(struct jpeg_decoder *d, const uint8_t *data, size_t size, const struct region *r, unsigned scale)
{
    struct jpeg_plane own[3], turbo[3];
    struct jpeg_frame frame;
    static uint8_t kept[3][MOST_PIXELS * 4];
    if (jpeg_decode_planes(d, r, 3, scale, NULL, own, NULL) < 0)
        return;
    for (uint32_t c = 0; c < d->frame.components; c++)
        for (uint32_t y = 0; y < own[c].height; y++)
            memcpy(kept[c] + (size_t)y * own[c].width, own[c].pixels + y * own[c].stride, own[c].width);
    EXPECT(jpeg_decode_planes_turbo(d, data, size, r, 3, scale, 10, &frame, turbo, NULL) == PST_OK);
    EXPECT(frame.h == d->frame.h && frame.v == d->frame.v && frame.rgb == d->frame.rgb);
    for (uint32_t c = 0; c < d->frame.components; c++) {
        EXPECT(own[c].x == turbo[c].x && own[c].width == turbo[c].width && own[c].height == turbo[c].height);
        for (uint32_t y = 0; y < own[c].height; y++)
            EXPECT(memcmp(kept[c] + (size_t)y * own[c].width, turbo[c].pixels + y * turbo[c].stride, own[c].width) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct region_memory memory;
    static struct jpeg_point found[MOST_POINTS];
    static const uint32_t channels[3] = {1, 3, 4};
    const uint32_t choice = size ? data[size / 2] : 0;
    pst_decode_options options = {.size = sizeof(options), .channels = channels[choice % 3], .max_scans = 10};
    struct jpeg_decoder *d = decoder_of(choice >> 7);
    struct jpeg_frame frame;
    pst_image want, got;
    pst_error error;
    if (jpeg_decoder_open(d, data, size, &frame, &error) < 0 || (uint64_t)frame.width * frame.height > MOST_PIXELS)
        return 0;
    struct region whole = {.width = frame.width, .height = frame.height};
    struct region r = {.x = pick(frame.width, data, size, 0), .y = pick(frame.height, data, size, 1)};
    r.width = 1 + pick(frame.width - r.x, data, size, 2);
    r.height = 1 + pick(frame.height - r.y, data, size, 3);

    pst_image_info info = {
        .format = PST_IMAGE_JPEG, .width = frame.width, .height = frame.height, .channels = frame.components};
    pst_status wanted = jpeg_read(&want, data, size, &info, &whole, &options, &memory, &error);
    pst_status st = jpeg_decode_pixels(d, &r, options.channels, NULL, &got, &error);
    EXPECT(st == PST_OK ? wanted == PST_OK && has(&want, &r, &got) : st == PST_EUNSUPPORTED);
    if (st == PST_OK)
        check_planes(d, data, size, &r, 8u >> (choice >> 2) % 4);
    st = jpeg_decode_pixels(d, &whole, options.channels, NULL, &got, &error);
    EXPECT(st == PST_OK ? wanted == PST_OK && has(&want, &whole, &got) : st == PST_EUNSUPPORTED);
    if (jpeg_points_find(d, found, &error) == PST_OK && st == PST_OK) {
        const uint32_t count = (uint32_t)jpeg_points_count(d);
        struct jpeg_points points = {.step = JPEG_POINT_STEP, .count = count, .known = count, .sound = true, .point = found};
        EXPECT(jpeg_decode_pixels(d, &r, options.channels, &points, &got, &error) == PST_OK && has(&want, &r, &got));
    }
    return 0;
}
