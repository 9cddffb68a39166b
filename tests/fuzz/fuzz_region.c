/* fuzz_region.c: whatever the bytes, a part of an image is what the whole has there, and fails where the whole does; by a
 * decoder that is kept from input to input, and forgets them. */
#include "expect.h"

#include "codec/region.h"

#include <string.h>

static uint32_t pick(uint32_t below, const uint8_t *data, size_t size, size_t at)
{
    return size ? data[(size / 3 + at) % size] * 257u % below : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct region_decoder decoders[4];
    static const uint32_t channels[4] = {0, 1, 3, 4};
    const unsigned choice = size ? data[size / 2] % 4 : 0;
    struct region_decoder *d = &decoders[choice];
    struct region_options options = {
        .decode = {.size = sizeof(options.decode), .channels = channels[choice], .max_pixels = 1 << 20, .max_scans = 20}};
    struct region_info info;
    pst_image whole, part;
    pst_error error, part_error;
    if (!d->options.decode.size)
        EXPECT(region_decoder_init(d, &options, &error) == PST_OK);
    pst_status probed = region_probe(d, data, size, &info, &part_error);
    pst_status st = pst_image_decode(&whole, data, size, &options.decode, &error);
    EXPECT(st < 0 || probed == PST_OK);
    if (probed < 0)
        return 0;
    struct region r = {.x = pick(info.width, data, size, 0), .y = pick(info.height, data, size, 1)};
    r.width = 1 + pick(info.width - r.x, data, size, 2);
    r.height = 1 + pick(info.height - r.y, data, size, 3);
    pst_status part_st = region_decode(d, data, size, &info, &r, &part, &part_error);
    EXPECT(part_st == st);
    if (st < 0)
        return 0;
    EXPECT(whole.width == info.width && whole.height == info.height && whole.channels == info.channels);
    EXPECT(part.width == r.width && part.height == r.height && part.channels == whole.channels);
    for (uint32_t y = 0; y < r.height; y++)
        EXPECT(memcmp(part.pixels + y * part.stride, whole.pixels + (r.y + y) * whole.stride + (size_t)r.x * whole.channels,
                      (size_t)r.width * whole.channels) == 0);
    pst_image_finish(&whole);
    return 0;
}
