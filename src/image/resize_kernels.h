/* resize_kernels.h: the inner loops of the resize and the table that names them; for resize*.c and their test.
 *
 * resize_kernels_init fills the table with the C reference, then overrides upward by CPU feature. All levels give the same
 * bytes. */
#ifndef IMAGE_RESIZE_KERNELS_H
#define IMAGE_RESIZE_KERNELS_H

#include "image/resize.h"

#define RESIZE_INLINE  static inline __attribute__((always_inline)) /* arguments become constants, wherever it is used */
#define RESIZE_PADDING 32u /* bytes after a scratch row that a kernel may read and write */
#define RESIZE_ROWS    4u  /* rows that a horizontal kernel processes at once, to share the weights */

/* `rows` (1…RESIZE_ROWS) rows of a->in pixels to a->out pixels each. Reads nothing outside the input rows; `out` are rows of
 * scratch. */
typedef void (*resize_horizontal_fn)(const uint8_t *const *in, uint8_t *const *out, unsigned rows, const struct resize_axis *a);

/* `n` bytes of `out` from `taps` scratch rows. The table of rows holds one more when `taps` is odd, weighted 0. */
typedef void (*resize_vertical_fn)(const uint8_t *const *rows, const int16_t *weights, uint32_t taps, uint8_t *out, size_t n);

struct resize_kernels {
    resize_horizontal_fn horizontal[5]; /* by channels; [0] is unused */
    resize_vertical_fn vertical;
};

void resize_kernels_init(struct resize_kernels *k, unsigned features);
void resize_kernels_init_c(struct resize_kernels *k);
void resize_kernels_init_avx2(struct resize_kernels *k);
void resize_kernels_init_vnni(struct resize_kernels *k);

/* resize_run with a given table. */
void resize_run_with(const struct resize_kernels *k, const pst_image *in, pst_image *out, const struct resize_axis *x,
                     const struct resize_axis *y, void *scratch);

/* Negative weights may bring a sum outside the range of levels. */
RESIZE_INLINE uint8_t resize_level(int32_t sum)
{
    int32_t level = sum >> RESIZE_BITS;
    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

/* One output pixel: the definition, and what a SIMD kernel falls back to where a row is too short for its loads. */
RESIZE_INLINE void resize_pixel(const uint8_t *in, uint8_t *out, const struct resize_axis *a, uint32_t x, unsigned channels)
{
    const uint8_t *p = in + (size_t)a->first[x] * channels;
    const int16_t *w = resize_weights(a, x);
    const int32_t half = 1 << (RESIZE_BITS - 1);
    int32_t sums[4] = {half, half, half, half};
    for (uint32_t t = 0; t < a->taps; t++, p += channels) {
        int32_t weight = resize_weight(w, t);
        for (unsigned c = 0; c < channels; c++)
            sums[c] += p[c] * weight;
    }
    for (unsigned c = 0; c < channels; c++)
        out[(size_t)x * channels + c] = resize_level(sums[c]);
}

#endif
