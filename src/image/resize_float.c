/* resize_float.c: the resize of float32 images, with the weights of the resize of bytes. Nothing is rounded to levels or
 * clamped. Plain loops over rows: such images are rare and short of the decoder's cost. */
#include "image/resize.h"

#include <string.h>

size_t resize_float_bytes(const struct resize_axis *x, const struct resize_axis *y, uint32_t channels)
{
    size_t row = (size_t)x->out * channels * sizeof(float), total;
    return __builtin_mul_overflow(row, (size_t)y->in, &total) ? SIZE_MAX : total;
}

static float weight_at(const int16_t *weights, uint32_t t)
{
    return (float)resize_weight(weights, t) * (1.0f / (1 << RESIZE_BITS));
}

static void filter_row(const float *in, float *out, const struct resize_axis *x, uint32_t channels)
{
    for (uint32_t i = 0; i < x->out; i++, out += channels) {
        const float *p = in + (size_t)x->first[i] * channels;
        const int16_t *weights = resize_weights(x, i);
        if (x->taps == 1) {
            memcpy(out, p, channels * sizeof(*out));
            continue;
        }
        float sums[4] = {0};
        for (uint32_t t = 0; t < x->taps; t++, p += channels) {
            float weight = weight_at(weights, t);
            for (uint32_t c = 0; c < channels; c++)
                sums[c] += p[c] * weight;
        }
        memcpy(out, sums, channels * sizeof(*out));
    }
}

static void blend_rows(const float *rows, float *out, const struct resize_axis *y, uint32_t i, size_t n)
{
    const float *p = rows + y->first[i] * n;
    const int16_t *weights = resize_weights(y, i);
    if (y->taps == 1) {
        memcpy(out, p, n * sizeof(*out));
        return;
    }
    memset(out, 0, n * sizeof(*out));
    for (uint32_t t = 0; t < y->taps; t++, p += n) {
        float weight = weight_at(weights, t);
        for (size_t k = 0; k < n; k++)
            out[k] += p[k] * weight;
    }
}

void resize_float_run(const float *in, size_t in_stride, float *out, size_t out_stride, uint32_t channels,
                      const struct resize_axis *x, const struct resize_axis *y, float *scratch)
{
    size_t n = (size_t)x->out * channels;
    for (uint32_t i = 0; i < y->in; i++)
        filter_row(in + i * in_stride, scratch + i * n, x, channels);
    for (uint32_t i = 0; i < y->out; i++)
        blend_rows(scratch, out + i * out_stride, y, i, n);
}
