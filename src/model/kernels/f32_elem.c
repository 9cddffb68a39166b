/* f32_elem.c: the passes of elem.h in plain C, compiled once for every instruction set: the loops are left to the compiler's
 * vectoriser, and without contraction every level computes the same bits. The usual numbers of channels are constants. */
#include "model/kernels/elem.h"

#include <string.h>

#ifndef ELEM_TABLE
#define ELEM_TABLE elem_kernels_c
#endif

#define INLINE static inline __attribute__((always_inline))
#define RUN    64 /* pixels whose sums are taken in float */

extern const struct elem_kernels ELEM_TABLE;

INLINE float clamp(float v, float low, float high)
{
    v = v < low ? low : v;
    return v > high ? high : v;
}

INLINE float read_value(const struct elem_read *r, bool lazy, float low, float high, size_t at, size_t k)
{
    float v = r->z[at];
    return lazy ? clamp(r->scale[k] * (v - r->centre[k]) + r->shift[k], low, high) : v;
}

/* `body` with the number of channels as a constant where it is a usual one. */
#define EACH_WIDTH(channels, body)                                                                                              \
    do {                                                                                                                        \
        switch (channels) {                                                                                                     \
        case 16:                                                                                                                \
            body(16);                                                                                                           \
            break;                                                                                                              \
        case 32:                                                                                                                \
            body(32);                                                                                                           \
            break;                                                                                                              \
        case 64:                                                                                                                \
            body(64);                                                                                                           \
            break;                                                                                                              \
        default:                                                                                                                \
            body(channels);                                                                                                     \
        }                                                                                                                       \
    } while (0)

INLINE void read_width(const struct elem_read *r, size_t pixels, size_t channels, float *restrict to)
{
    const float *restrict z = r->z, *restrict centre = r->centre, *restrict scale = r->scale, *restrict shift = r->shift;
    const float low = r->low, high = r->high;
    for (size_t p = 0; p < pixels; p++, z += channels, to += channels)
        for (size_t k = 0; k < channels; k++)
            to[k] = clamp(scale[k] * (z[k] - centre[k]) + shift[k], low, high);
}

static void read_values(const struct elem_read *from, size_t pixels, size_t channels, float *to)
{
#define BODY(n) read_width(from, pixels, n, to)
    EACH_WIDTH(channels, BODY);
#undef BODY
}

INLINE void norm_width(const float *restrict g, const float *restrict z, const float *restrict centre, const float *restrict by_gradient,
                       const float *restrict by_z, const float *restrict offset, size_t pixels, size_t channels,
                       float *restrict to)
{
    for (size_t p = 0; p < pixels; p++, g += channels, z += channels, to += channels)
        for (size_t k = 0; k < channels; k++)
            to[k] = by_gradient[k] * g[k] + by_z[k] * (z[k] - centre[k]) + offset[k];
}

static void norm_gradient(const float *g, const float *z, const float *centre, const float *by_gradient, const float *by_z, const float *offset,
                          size_t pixels, size_t channels, float *to)
{
#define BODY(n) norm_width(g, z, centre, by_gradient, by_z, offset, pixels, n, to)
    EACH_WIDTH(channels, BODY);
#undef BODY
}

INLINE void add_width(const struct elem_read *a, const struct elem_read *b, bool lazy_a, bool lazy_b, float low, float high,
                      size_t pixels, size_t channels, float *restrict to)
{
    const struct elem_read x = *a, y = *b;
    for (size_t p = 0, at = 0; p < pixels; p++, at += channels)
        for (size_t k = 0; k < channels; k++)
            to[at + k] = clamp(read_value(&x, lazy_a, x.low, x.high, at + k, k) + read_value(&y, lazy_b, y.low, y.high, at + k, k),
                               low, high);
}

static void add(const struct elem_read *a, const struct elem_read *b, float low, float high, size_t pixels, size_t channels,
                float *to)
{
    bool la = a->scale != NULL, lb = b->scale != NULL;
#define BODY(n)                                                                                                                 \
    do {                                                                                                                        \
        if (la && lb)                                                                                                           \
            add_width(a, b, true, true, low, high, pixels, n, to);                                                              \
        else if (la)                                                                                                            \
            add_width(a, b, true, false, low, high, pixels, n, to);                                                             \
        else if (lb)                                                                                                            \
            add_width(a, b, false, true, low, high, pixels, n, to);                                                             \
        else                                                                                                                    \
            add_width(a, b, false, false, low, high, pixels, n, to);                                                            \
    } while (0)
    EACH_WIDTH(channels, BODY);
#undef BODY
}

#define LANES 8
#include "model/kernels/f32_elem_gradient.h"
#undef LANES

#ifdef __AVX512F__
#define LANES 16
#include "model/kernels/f32_elem_gradient.h"
#undef LANES
#endif

/* Channel k of up to RUN pixels. */
static void gradient_channel(const float *g, const float *y, float low, float high, const struct elem_service *s, bool adds,
                             size_t pixels, size_t stride, size_t k, float *to)
{
    const bool sums = s->sum != NULL;
    float sum = 0, sum2 = 0;
    for (size_t p = 0, at = k; p < pixels; p++, at += stride) {
        float v = g[at], read = s->y.z ? read_value(&s->y, s->y.scale != NULL, s->y.low, s->y.high, at, k) : 0;
        if (y && !(y[at] > low && y[at] < high))
            v = 0;
        if (s->y.z && !(read > s->y.low && read < s->y.high))
            v = 0;
        if (sums) {
            sum += v;
            sum2 += v * (s->z[at] - s->centre[k]);
        }
        to[at] = adds ? to[at] + v : v;
    }
    if (sums) {
        s->sum[k] += (double)sum;
        s->sum2[k] += (double)sum2;
    }
}

static void gradient(const float *g, const float *y, float low, float high, const struct elem_service *service, bool adds,
                     size_t pixels, size_t channels, float *to)
{
    for (size_t p = 0; p < pixels; p += RUN) {
        size_t count = pixels - p < RUN ? pixels - p : RUN, at = p * channels, k = 0;
        struct elem_service s = *service;
        s.y.z = s.y.z ? s.y.z + at : NULL;
        s.z = s.sum ? s.z + at : NULL;
#ifdef __AVX512F__
        for (; k + 16 <= channels; k += 16)
            gradient_16(g + at, y ? y + at : NULL, low, high, &s, adds, count, channels, k, to + at);
#endif
        for (; k + 8 <= channels; k += 8)
            gradient_8(g + at, y ? y + at : NULL, low, high, &s, adds, count, channels, k, to + at);
        for (; k < channels; k++)
            gradient_channel(g + at, y ? y + at : NULL, low, high, &s, adds, count, channels, k, to + at);
    }
}

/* One window: its four pixels do not overlap, which the vectoriser must be told. */
INLINE void unpool_window(const float *restrict g, const uint8_t *restrict argmax, size_t channels, float *restrict top_left,
                          float *restrict top_right, float *restrict bottom_left, float *restrict bottom_right)
{
    for (size_t k = 0; k < channels; k++) {
        float v = g[k];
        uint32_t tap = argmax[k];
        top_left[k] = tap == 0 ? v : 0;
        top_right[k] = tap == 1 ? v : 0;
        bottom_left[k] = tap == 2 ? v : 0;
        bottom_right[k] = tap == 3 ? v : 0;
    }
}

INLINE void unpool_width(const float *g, const uint8_t *argmax, size_t h, size_t w, size_t channels, float *dz)
{
    size_t row = w * channels;
    for (size_t y = 0; y < h / 2; y++) {
        float *top = dz + 2 * y * row, *bottom = top + row;
        for (size_t x = 0; x < w / 2; x++, g += channels, argmax += channels, top += 2 * channels, bottom += 2 * channels)
            unpool_window(g, argmax, channels, top, top + channels, bottom, bottom + channels);
        if (w % 2) {
            memset(top, 0, channels * sizeof(float));
            memset(bottom, 0, channels * sizeof(float));
        }
    }
    if (h % 2)
        memset(dz + (h - 1) * row, 0, row * sizeof(float));
}

static void unpool(const float *g, const uint8_t *argmax, size_t h, size_t w, size_t channels, float *dz)
{
#define BODY(n) unpool_width(g, argmax, h, w, n, dz)
    EACH_WIDTH(channels, BODY);
#undef BODY
}

#ifdef __AVX512F__
typedef vector_16 vector; /* the widest */
#else
typedef vector_8 vector;
#endif
#define LANES (sizeof(vector) / sizeof(float))
#define AT(p) (*(const vector *)(p))

/* Channels k to k + LANES · count - 1 of `pixels` pixels. */
INLINE void sum_vectors(const float *x, size_t pixels, size_t channels, size_t k, size_t count, float *to)
{
    vector total[2];
    for (size_t i = 0; i < count; i++)
        total[i] = AT(to + k + LANES * i);
    for (size_t p = 0; p < pixels; p++)
        for (size_t i = 0; i < count; i++)
            total[i] += AT(x + p * channels + k + LANES * i);
    for (size_t i = 0; i < count; i++)
        *(vector *)(to + k + LANES * i) = total[i];
}

static void sum(const float *x, size_t pixels, size_t channels, float *restrict to)
{
    while (pixels > 0) {
        size_t count = pixels < RUN ? pixels : RUN, k = 0;
        for (; k + 2 * LANES <= channels; k += 2 * LANES)
            sum_vectors(x, count, channels, k, 2, to);
        for (; k + LANES <= channels; k += LANES)
            sum_vectors(x, count, channels, k, 1, to);
        for (size_t p = 0; p < count; p++)
            for (size_t c = k; c < channels; c++)
                to[c] += x[p * channels + c];
        x += count * channels;
        pixels -= count;
    }
}

static void accumulate(const float *restrict from, size_t count, float *restrict to)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

const struct elem_kernels ELEM_TABLE = {
    .read = read_values,
    .norm_gradient = norm_gradient,
    .add = add,
    .gradient = gradient,
    .unpool = unpool,
    .sum = sum,
    .accumulate = accumulate,
};
