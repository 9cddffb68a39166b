/* rows.h: rows of an image as if it were padded, for kernels that copy them. */
#ifndef MODEL_KERNELS_ROWS_H
#define MODEL_KERNELS_ROWS_H

#include "model/kernels/conv.h"

#include <string.h>

/* Copies `count` pixels from column `x` of row `y`, without gaps; zeros outside of the image. */
static inline void rows_copy(const struct conv_source *in, size_t image, ptrdiff_t y, ptrdiff_t x, size_t count, size_t channels, float *to)
{
    if (y < 0 || (size_t)y >= in->h) {
        memset(to, 0, count * channels * sizeof(float));
        return;
    }
    size_t before = x < 0 ? (size_t)-x : 0, begin = x < 0 ? 0 : (size_t)x, inside = begin < in->w ? in->w - begin : 0;
    before = before < count ? before : count;
    inside = inside < count - before ? inside : count - before;
    const float *from = in->data + image * in->strides.image + (size_t)y * in->strides.row + begin * in->strides.pixel;
    memset(to, 0, before * channels * sizeof(float));
    to += before * channels;
    if (in->strides.pixel == channels)
        memcpy(to, from, inside * channels * sizeof(float));
    for (size_t p = 0; in->strides.pixel != channels && p < inside; p++)
        memcpy(to + p * channels, from + p * in->strides.pixel, channels * sizeof(float));
    memset(to + inside * channels, 0, (count - before - inside) * channels * sizeof(float));
}

#endif
