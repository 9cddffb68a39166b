/* plane_c.c: the plane kernels in plain C: the reference that every other level must equal byte for byte. */
#include "image/plane_kernels.h"

void plane_columns_c(const uint8_t *const *rows, const int16_t *weights, uint32_t taps, uint32_t factor, uint8_t *out, size_t n)
{
    enum { BLOCK = 64 }; /* sums that stay in the first-level cache while the taps pass by */
    int32_t sums[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t width = n - at < BLOCK ? n - at : BLOCK;
        for (size_t i = 0; i < width; i++)
            sums[i] = 0;
        for (uint32_t t = 0; t < taps; t++)
            for (size_t i = 0; i < width; i++)
                sums[i] += rows[t][at + i] * weights[t];
        for (size_t i = 0; i < width; i++)
            out[at + i] = plane_level(sums[i], factor);
    }
}

void plane_rows_c(const uint8_t *in, uint8_t *out, const struct plane_axis *a)
{
    const int16_t *w = a->weights;
    for (uint32_t x = 0; x < a->out; x++, w += a->taps) {
        const uint8_t *p = in + a->first[x];
        int32_t sum = 0;
        for (uint32_t t = 0; t < a->taps; t++)
            sum += p[t] * w[t];
        out[x] = plane_level(sum, a->factor);
    }
}

static uint8_t clamped(int32_t level)
{
    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

/* Factors with 16 fractional bits, rounded half up, as in libjpeg. */
static void colour(uint8_t *y_red, uint8_t *cb_green, uint8_t *cr_blue, size_t width)
{
    for (size_t x = 0; x < width; x++) {
        int32_t y = y_red[x], cb = cb_green[x] - 128, cr = cr_blue[x] - 128;
        y_red[x] = clamped(y + ((91881 * cr + 32768) >> 16));
        cb_green[x] = clamped(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
        cr_blue[x] = clamped(y + ((116130 * cb + 32768) >> 16));
    }
}

static void merge(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *out, size_t width)
{
    for (size_t x = 0; x < width; x++, out += 3) {
        out[0] = red[x];
        out[1] = green[x];
        out[2] = blue[x];
    }
}

void plane_kernels_init_c(struct plane_kernels *k)
{
    *k = (struct plane_kernels){plane_columns_c, plane_rows_c, colour, merge};
}
