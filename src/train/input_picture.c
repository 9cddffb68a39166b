/* input_picture.c: inputs of a model as pictures. See run_report.h. */
#include "train/run_report.h"

#include "base/cast.h"
#include "base/error.h"
#include "base/memory.h"
#include <penstock/image.h>

#include <math.h>
#include <string.h>

/* All values as 0 to 255, from the smallest to the largest. */
static void stretch(const float *from, uint8_t *to, size_t count)
{
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        low = from[i] < low ? from[i] : low;
        high = from[i] > high ? from[i] : high;
    }
    float range = high > low ? high - low : 1;
    for (size_t i = 0; i < count; i++) {
        float x = (from[i] - low) / range * 255;
        to[i] = x >= 0 && x <= 255 ? (uint8_t)(x + 0.5f) : 0;
    }
}

pst_status picture_encode(const pst_shape *shape, pst_dtype dtype, const void *data, uint8_t **ret, size_t *ret_length, pst_error *reterr)
{
    pst_image image = {0};
    uint32_t channels = shape->rank == 3 ? shape->size[2] : 0;
    if (channels != 1 && channels != 3)
        return pst_fail(reterr, PST_EUNSUPPORTED, "the input is not a picture");
    size_t row = (size_t)shape->size[1] * channels, count = row * shape->size[0];
    uint8_t *bytes = mem_alloc(count);
    float *values = dtype == PST_DTYPE_U8 ? NULL : mem_array(count, sizeof(*values));
    pst_status st = bytes && (values || dtype == PST_DTYPE_U8) ? PST_OK : fail_memory(reterr, "making a picture");
    if (st == PST_OK && values) {
        cast_values(values, PST_DTYPE_F32, data, dtype, count);
        stretch(values, bytes, count);
    } else if (st == PST_OK) {
        memcpy(bytes, data, count);
    }
    if (st == PST_OK)
        st = pst_image_create(&image, shape->size[1], shape->size[0], channels, reterr);
    for (uint32_t y = 0; st == PST_OK && y < shape->size[0]; y++)
        memcpy(image.pixels + y * image.stride, bytes + y * row, row);
    if (st == PST_OK)
        st = pst_image_encode(ret, ret_length, &image, PST_IMAGE_PNG, NULL, reterr);
    pst_image_finish(&image);
    mem_free(values);
    mem_free(bytes);
    return st;
}
