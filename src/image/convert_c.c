/* convert_c.c: the conversions in plain C: the reference that every other level must equal bit for bit. */
#include "image/convert_kernels.h"

#define CONVERT(channels)                                                                                                      \
    static void flip_##channels(const uint8_t *in, uint8_t *out, size_t width)                                                 \
    {                                                                                                                          \
        for (size_t x = 0; x < width; x++)                                                                                     \
            for (size_t c = 0; c < channels; c++)                                                                              \
                out[x * channels + c] = in[(width - 1 - x) * channels + c];                                                    \
    }                                                                                                                          \
    static void split_##channels(const uint8_t *in, uint8_t *out, size_t plane, size_t width)                                  \
    {                                                                                                                          \
        for (size_t x = 0; x < width; x++)                                                                                     \
            for (size_t c = 0; c < channels; c++)                                                                              \
                out[c * plane + x] = in[x * channels + c];                                                                     \
    }

CONVERT(1)
CONVERT(2)
CONVERT(3)
CONVERT(4)

static void scale_values(const uint8_t *in, float *out, size_t n, const float *scale, const float *bias)
{
    size_t at = 0;
    for (; at + CONVERT_PERIOD <= n; at += CONVERT_PERIOD)
        for (size_t i = 0; i < CONVERT_PERIOD; i++)
            out[at + i] = (float)in[at + i] * scale[i] + bias[i];
    for (size_t i = 0; at + i < n; i++)
        out[at + i] = (float)in[at + i] * scale[i] + bias[i];
}

static void fence(void)
{
}

void convert_kernels_init_c(struct convert_kernels *k)
{
    *k = (struct convert_kernels){.flip = {0, flip_1, flip_2, flip_3, flip_4},
                                  .split = {0, split_1, split_2, split_3, split_4},
                                  .scale = scale_values,
                                  .stream = scale_values,
                                  .fence = fence};
}
