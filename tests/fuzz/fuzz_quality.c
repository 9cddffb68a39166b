/* fuzz_quality.c: whatever the bytes, a fast decode and the operations behind it give the same result, or the same error, from
 * the part of the image that is needed and from planes of the whole. Decoders are kept from input to input. */
#include "expect.h"

#include "unit/image_rig.h"

#define LIMITS "max_pixels=20000 max_scans=20"

static const char *const chains[] = {
    "decode recover=true " LIMITS " | random_resized_crop 9 scale=0.05,1 | flip",
    "decode " LIMITS " | random_resized_crop 3 method=area | normalize imagenet",
    "decode recover=true channels=1 " LIMITS " | random_resized_crop 5x7 method=bilinear | layout nchw",
    "decode recover=true quality=fast " LIMITS " | resize 20x30 bicubic | center_crop 6",
    "decode recover=true quality=fast channels=0 " LIMITS " | crop 2 3 5 4 | flip 1",
};
#define CHAINS (sizeof(chains) / sizeof(chains[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image_rig whole[CHAINS], part[CHAINS];
    static const pst_field image = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1};
    static const pst_spec spec = {.count = 1, .field = &image};
    const size_t choice = size ? data[size / 2] % CHAINS : 0;
    pst_bytes bytes = {data, size};
    pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &bytes};
    if (!whole[choice].count) {
        EXPECT(image_rig_init(&whole[choice], chains[choice], &spec, false, NULL) == PST_OK);
        EXPECT(image_rig_init(&part[choice], chains[choice], &spec, true, NULL) == PST_OK);
    }
    struct rig_result a = image_rig_run(&whole[choice], &in, size, 0), b = image_rig_run(&part[choice], &in, size, 0);
    EXPECT(same_result(&a, &b));
    return 0;
}
