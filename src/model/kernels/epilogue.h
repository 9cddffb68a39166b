/* epilogue.h: the epilogues of convolutions in plain C, for one pixel: what vector kernels do in registers. Float32 only. */
#ifndef MODEL_KERNELS_EPILOGUE_H
#define MODEL_KERNELS_EPILOGUE_H

#include "model/kernels/conv.h"

static inline const float *extra_pixel(const struct conv_extra *e, size_t image, size_t y, size_t x)
{
    return e->data ? e->data + image * e->strides.image + y * e->strides.row + x * e->strides.pixel : NULL;
}

static inline const float *numbers_pixel(const struct conv_numbers *e, size_t image, size_t y, size_t x)
{
    return e->data ? (const float *)e->data + image * e->strides.image + y * e->strides.row + x * e->strides.pixel : NULL;
}

static inline void epilogue_pool(const struct conv_job *j, size_t image, size_t y, size_t x, const float *value, size_t channels)
{
    if (y / 2 >= j->h / 2 || x / 2 >= j->w / 2)
        return;
    float *out = (float *)j->out + image * j->out_strides.image + y / 2 * j->out_strides.row + x / 2 * j->out_strides.pixel;
    uint8_t *argmax = j->argmax ? j->argmax + image * j->argmax_strides.image + y / 2 * j->argmax_strides.row + x / 2 * j->argmax_strides.pixel : NULL;
    uint8_t tap = (uint8_t)(2 * (y & 1) + (x & 1));
    for (size_t c = 0; c < channels; c++) {
        float v = value[c] + (j->bias ? j->bias[c] : 0), clamped = v < j->low ? j->low : v > j->high ? j->high : v;
        if (tap == 0 || clamped > out[c]) {
            out[c] = clamped;
            if (argmax)
                argmax[c] = clamped > j->low && clamped < j->high ? tap : 255;
        }
    }
}

/* Channels of pixel (y, x), in rising order of y and x. */
static inline void epilogue_pixel(const struct conv_job *j, size_t image, size_t y, size_t x, const float *value, size_t channels)
{
    if (j->epilogue == CONV_POOL) {
        epilogue_pool(j, image, y, x, value, channels);
        return;
    }
    float *out = (float *)j->out + image * j->out_strides.image + y * j->out_strides.row + x * j->out_strides.pixel;
    const float *add = numbers_pixel(&j->add, image, y, x), *mask = extra_pixel(&j->mask, image, y, x);
    const float *z = numbers_pixel(&j->z, image, y, x);
    for (size_t c = 0; c < channels; c++) {
        float v = value[c], shift = j->shift ? j->shift[c] : 0;
        if (j->epilogue == CONV_CLAMP) {
            v += j->bias ? j->bias[c] : 0;
            v += add ? add[c] : 0;
            v = v < j->low ? j->low : v > j->high ? j->high : v;
        } else if (j->epilogue == CONV_GRADIENT) {
            v += add ? add[c] : 0;
            v = !mask || (mask[c] > j->low && mask[c] < j->high) ? v : 0;
        }
        if (j->sum && j->epilogue != CONV_CLAMP) {
            j->sum[c] += j->epilogue == CONV_RAW ? v - shift : v;
            j->sum2[c] += j->epilogue == CONV_RAW ? (double)(v - shift) * (v - shift) : (double)v * (z[c] - shift);
        }
        out[c] = v;
    }
}

#endif
