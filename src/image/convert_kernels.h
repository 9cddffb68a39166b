/* convert_kernels.h: the loops of convert.c and the table that names them; for convert*.c and their test.
 *
 * Loads and stores stay within the rows. All levels give the same bits. */
#ifndef IMAGE_CONVERT_KERNELS_H
#define IMAGE_CONVERT_KERNELS_H

#include "image/convert.h"

struct convert_kernels {
    /* By channels; [0] is unused. `width` pixels from right to left. */
    void (*flip[5])(const uint8_t *in, uint8_t *out, size_t width);
    /* By channels; [0] and [1] are unused. Plane c begins at out + c × plane. */
    void (*split[5])(const uint8_t *in, uint8_t *out, size_t plane, size_t width);
    /* out[i] = in[i] × scale[i % CONVERT_PERIOD] + bias[i % CONVERT_PERIOD] for n values. */
    void (*scale)(const uint8_t *in, float *out, size_t n, const float *scale, const float *bias);
    /* The same past the caches; other threads see it only after a fence. */
    void (*stream)(const uint8_t *in, float *out, size_t n, const float *scale, const float *bias);
    void (*fence)(void);
};

void convert_kernels_init(struct convert_kernels *k, unsigned features);
void convert_kernels_init_c(struct convert_kernels *k);
void convert_kernels_init_avx2(struct convert_kernels *k);

/* convert_row and convert_planes with a given table. */
void convert_row_with(const struct convert_kernels *k, const struct convert *c, const uint8_t *in, uint32_t width, void *out,
                      size_t plane, void *scratch);
void convert_planes_with(const struct convert_kernels *k, const struct convert *c, const uint8_t *const *in, uint32_t width,
                         void *out, size_t plane, void *scratch);

#endif
