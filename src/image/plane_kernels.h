/* plane_kernels.h: the inner loops of plane.c and the table that names them; for plane*.c and their test. All levels give the
 * same bytes. */
#ifndef IMAGE_PLANE_KERNELS_H
#define IMAGE_PLANE_KERNELS_H

#include "image/plane.h"

struct plane_kernels {
    /* `n` bytes of `out` from `taps` rows of `n` bytes; writes up to PLANE_PADDING bytes more. */
    void (*columns)(const uint8_t *const *rows, const int16_t *weights, uint32_t taps, uint32_t factor, uint8_t *out, size_t n);
    /* A row of a->in samples, with padding, to one of a->out, with padding. */
    void (*rows)(const uint8_t *in, uint8_t *out, const struct plane_axis *a);
    void (*colour)(uint8_t *y_red, uint8_t *cb_green, uint8_t *cr_blue, size_t width);
    void (*merge)(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *out, size_t width);
};

void plane_kernels_init(struct plane_kernels *k, unsigned features);
void plane_kernels_init_c(struct plane_kernels *k);
void plane_kernels_init_avx2(struct plane_kernels *k);
void plane_kernels_init_vnni(struct plane_kernels *k);

/* Uses a given table of kernels. */
void plane_walk_init_with(struct plane_walk *w, const struct plane_kernels *k, const uint8_t *pixels, size_t stride,
                          const struct plane_axis *x, const struct plane_axis *y, void *scratch);

static inline uint8_t plane_level(int32_t sum, uint32_t factor)
{
    int32_t level = (sum * (int32_t)factor + (1 << 14)) >> 15;
    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

/* Used where SIMD does not apply: short rows, many taps. */
void plane_columns_c(const uint8_t *const *rows, const int16_t *weights, uint32_t taps, uint32_t factor, uint8_t *out,
                     size_t n);
void plane_rows_c(const uint8_t *in, uint8_t *out, const struct plane_axis *a);

#endif
