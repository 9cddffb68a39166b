/* fuzz_image.c: any bytes decode to an image of the probed size, or to an error that says why; a decoded image resizes. */
#include "expect.h"

#include "base/memory.h"

#include <penstock/image.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t channels[4] = {0, 1, 3, 4};
    const uint64_t live = mem_live();
    const unsigned choice = size ? data[size / 2] : 0; /* from the middle: no header lies there */
    pst_decode_options options = {.size = sizeof(options),
                                  .channels = channels[choice % 4],
                                  .max_pixels = 1 << 20,
                                  .strict = choice & 4,
                                  .max_scans = 20};
    pst_image_info info;
    pst_image image, small;
    pst_error probe_error, error;
    pst_status probed = pst_image_probe(data, size, &info, &probe_error);
    pst_status st = pst_image_decode(&image, data, size, &options, &error);
    EXPECT(probed == PST_OK || (probe_error.status == probed && probe_error.message[0]));
    if (st == PST_OK) {
        EXPECT(probed == PST_OK && image.width == info.width && image.height == info.height);
        EXPECT(image.channels == (options.channels ? options.channels : info.channels < 3 ? 1 : 3));
        EXPECT((uint64_t)image.width * image.height <= options.max_pixels);
        EXPECT(pst_image_resize(&small, &image, 1 + size % 40, 1 + size % 23, PST_FILTER_TRIANGLE, &error) == PST_OK);
        pst_image_finish(&small);
        pst_image_finish(&image);
    } else {
        EXPECT(st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
        EXPECT(error.status == st && error.message[0]);
    }
    EXPECT(mem_live() == live);
    return 0;
}
