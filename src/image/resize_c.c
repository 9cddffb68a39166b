/* resize_c.c: the resize kernels in plain C: the reference that every other level must equal byte for byte. */
#include "image/resize_kernels.h"

/* Inlined with a constant channel count, so that the compiler unrolls over the channels. */
RESIZE_INLINE void horizontal(const uint8_t *const *in, uint8_t *const *out, unsigned rows, const struct resize_axis *a,
                              unsigned channels)
{
    for (unsigned row = 0; row < rows; row++)
        for (uint32_t x = 0; x < a->out; x++)
            resize_pixel(in[row], out[row], a, x, channels);
}

#define HORIZONTAL(channels)                                                                                                   \
    static void horizontal_##channels(const uint8_t *const *in, uint8_t *const *out, unsigned rows,                            \
                                      const struct resize_axis *a)                                                             \
    {                                                                                                                          \
        horizontal(in, out, rows, a, channels);                                                                                \
    }

HORIZONTAL(1)
HORIZONTAL(2)
HORIZONTAL(3)
HORIZONTAL(4)

static void vertical(const uint8_t *const *rows, const int16_t *weights, uint32_t taps, uint8_t *out, size_t n)
{
    enum { BLOCK = 64 }; /* sums that stay in the first-level cache while the taps pass by */
    int32_t sums[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t width = n - at < BLOCK ? n - at : BLOCK;
        for (size_t i = 0; i < BLOCK; i++)
            sums[i] = 1 << (RESIZE_BITS - 1);
        for (uint32_t t = 0; t < taps; t++) {
            int32_t weight = resize_weight(weights, t);
            for (size_t i = 0; i < width; i++)
                sums[i] += rows[t][at + i] * weight;
        }
        for (size_t i = 0; i < width; i++)
            out[at + i] = resize_level(sums[i]);
    }
}

void resize_kernels_init_c(struct resize_kernels *k)
{
    k->horizontal[0] = NULL;
    k->horizontal[1] = horizontal_1;
    k->horizontal[2] = horizontal_2;
    k->horizontal[3] = horizontal_3;
    k->horizontal[4] = horizontal_4;
    k->vertical = vertical;
}
