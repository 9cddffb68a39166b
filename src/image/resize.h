/* resize.h: separable resampling of interleaved images of bytes or float32. Pure: the caller provides plan and scratch memory.
 *
 * TRIANGLE, BICUBIC and NEAREST are Pillow's, byte for byte: its weights of 22 bits, rows first, rounded to 8 bits, then
 * columns. (Since version 13 Pillow starts with the columns where that is less work, and may differ by one level there. Its
 * weights become too coarse where more than 16384 pixels contribute to one; ours do not.) The others use TensorFlow's
 * positions and weights with the same arithmetic: its results rounded, within one level.
 *
 * A part of the result needs only the part of the image that contributes: an axis may hold a range of its outputs, and
 * reports which inputs they read. Every byte is the same as in the whole result. */
#ifndef IMAGE_RESIZE_H
#define IMAGE_RESIZE_H

#include <penstock/image.h>

#define RESIZE_BITS 22 /* weights are scaled by 1 << RESIZE_BITS */

/* The weights of one axis: for each output position its first input position and `taps` weights. */
struct resize_axis {
    uint32_t in, out;
    uint32_t taps;    /* at most `in`; first + taps never exceeds `in`. 1: positions are picked, not weighted */
    uint32_t pitch;   /* taps rounded up to 8; the rest weighs 0 */
    uint32_t *first;  /* never decreases */
    int16_t *weights; /* out × pitch weights in two parts, so that SIMD multiplies 16 bits: see resize_weight */
};

/* Weight `t` of the output whose weights begin at `w`: a pair of upper parts, a pair of lower ones, and so on. */
static inline int32_t resize_weight(const int16_t *w, uint32_t t)
{
    const int16_t *pair = w + (size_t)(t / 2) * 4 + t % 2;
    return pair[0] * 256 + pair[2];
}

/* Where the weights of output `i` begin. */
static inline const int16_t *resize_weights(const struct resize_axis *a, uint32_t i)
{
    return a->weights + (size_t)i * a->pitch * 2;
}

/* `in` and `out` are 1…INT32_MAX. `memory` is aligned for doubles. */
bool resize_blurs(pst_filter filter); /* even if the size does not change */
size_t resize_axis_bytes(uint32_t in, uint32_t out, pst_filter filter);
void resize_axis_init(struct resize_axis *a, uint32_t in, uint32_t out, pst_filter filter, void *memory);

/* Only `count` outputs from `begin` on; the axis then has that many. */
size_t resize_axis_part_bytes(uint32_t in, uint32_t out, pst_filter filter, uint32_t count);
void resize_axis_init_part(struct resize_axis *a, uint32_t in, uint32_t out, pst_filter filter, uint32_t begin, uint32_t count,
                           void *memory);
/* The axis that turns the mirrored input into the mirrored output. */
void resize_axis_mirror(struct resize_axis *a);
/* Reduces the input to the positions that are read: a->in positions; returns the first. */
uint32_t resize_axis_narrow(struct resize_axis *a);

/* SIZE_MAX: more than the address space. */
size_t resize_scratch_bytes(const struct resize_axis *x, const struct resize_axis *y, uint32_t channels);
/* `out` has x->out × y->out pixels and the channels of `in`; they do not overlap. `scratch` is aligned for pointers. The
 * result does not depend on the SIMD level. */
void resize_run(const pst_image *in, pst_image *out, const struct resize_axis *x, const struct resize_axis *y, void *scratch);

/* The same row by row, for callers that process each row. */
struct resize_kernels;
struct resize_walk {
    const struct resize_kernels *kernels;
    const struct resize_axis *x, *y;
    pst_image in;
    const uint8_t **rows; /* of a window */
    uint8_t *ring;
    size_t pitch, capacity; /* of the ring: bytes per row; number of rows */
    size_t ready;           /* input rows below it are filtered, or were not needed */
    uint32_t next;          /* output row */
};
void resize_walk_init(struct resize_walk *w, const pst_image *in, const struct resize_axis *x, const struct resize_axis *y,
                      void *scratch);
void resize_walk_row(struct resize_walk *w, uint8_t *to); /* the next of y->out rows: x->out pixels */

/* The same for float32 (resize_float.c): x->in × y->in pixels to x->out × y->out, 1…4 channels, strides in floats. The result is
 * not rounded. */
size_t resize_float_bytes(const struct resize_axis *x, const struct resize_axis *y, uint32_t channels); /* SIZE_MAX: too many */
void resize_float_run(const float *in, size_t in_stride, float *out, size_t out_stride, uint32_t channels,
                      const struct resize_axis *x, const struct resize_axis *y, float *scratch);

#endif
