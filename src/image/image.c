/* image.c: pst_image as the public calls own it: creating, releasing, resizing. Decoding and encoding are src/codec's. */
#include "base/memory.h"
#include "image/resize.h"

#include <inttypes.h>

pst_status pst_image_create(pst_image *ret, uint32_t width, uint32_t height, uint32_t channels, pst_error *reterr)
{
    size_t stride, bytes;
    if (!width || !height || channels < 1 || channels > 4)
        return pst_fail(reterr, PST_EINVAL,
                        "an image of %" PRIu32 " × %" PRIu32 " pixels, %" PRIu32 " channels; at least 1 × 1 and 1…4 channels",
                        width, height, channels);
    uint8_t *pixels = NULL;
    if (!__builtin_mul_overflow((size_t)width, (size_t)channels, &stride) &&
        !__builtin_mul_overflow(stride, (size_t)height, &bytes))
        pixels = mem_aligned(bytes);
    if (!pixels)
        return pst_fail(reterr, PST_ENOMEM, "no memory for an image of %" PRIu32 " × %" PRIu32 " × %" PRIu32, width, height,
                        channels);
    *ret = (pst_image){.pixels = pixels, .width = width, .height = height, .channels = channels, .stride = stride};
    return PST_OK;
}

void pst_image_finish(pst_image *image)
{
    if (!image)
        return;
    mem_free(image->pixels);
    *image = (pst_image){0};
}

static pst_status check_resize(const pst_image *image, uint32_t width, uint32_t height, pst_filter filter, pst_error *reterr)
{
    if (!image->pixels || image->channels < 1 || image->channels > 4)
        return pst_fail(reterr, PST_EINVAL, "resize: the image is empty or has %" PRIu32 " channels; expected 1…4",
                        image->channels);
    if (!image->width || !image->height || !width || !height || image->width > INT32_MAX || image->height > INT32_MAX ||
        width > INT32_MAX || height > INT32_MAX)
        return pst_fail(reterr, PST_EINVAL,
                        "resize: %" PRIu32 " × %" PRIu32 " to %" PRIu32 " × %" PRIu32 "; sides are 1…%" PRId32, image->width,
                        image->height, width, height, INT32_MAX);
    if ((unsigned)filter > PST_FILTER_MITCHELLCUBIC)
        return pst_fail(reterr, PST_EINVAL, "resize: filter %d; expected one of pst_filter: %d…%d", (int)filter,
                        (int)PST_FILTER_TRIANGLE, (int)PST_FILTER_MITCHELLCUBIC);
    return PST_OK;
}

pst_status pst_image_resize(pst_image *ret, const pst_image *image, uint32_t width, uint32_t height, pst_filter filter,
                            pst_error *reterr)
{
    struct resize_axis x, y;
    void *x_memory = NULL, *y_memory = NULL, *scratch = NULL;
    pst_image out = {0};
    pst_status st = check_resize(image, width, height, filter, reterr);
    if (st < 0)
        return st;
    x_memory = mem_alloc(resize_axis_bytes(image->width, width, filter));
    y_memory = mem_alloc(resize_axis_bytes(image->height, height, filter));
    if (x_memory && y_memory) {
        resize_axis_init(&x, image->width, width, filter, x_memory);
        resize_axis_init(&y, image->height, height, filter, y_memory);
        size_t bytes = resize_scratch_bytes(&x, &y, image->channels);
        scratch = bytes == SIZE_MAX ? NULL : mem_aligned(bytes);
    }
    if (scratch) {
        st = pst_image_create(&out, width, height, image->channels, reterr);
    } else {
        st = pst_fail(reterr, PST_ENOMEM, "no memory to resize %" PRIu32 " × %" PRIu32 " to %" PRIu32 " × %" PRIu32,
                      image->width, image->height, width, height);
    }
    if (st == PST_OK) {
        resize_run(image, &out, &x, &y, scratch);
        *ret = out;
    }
    mem_free(scratch);
    mem_free(y_memory);
    mem_free(x_memory);
    return st;
}
