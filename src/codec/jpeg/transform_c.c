/* transform_c.c: coefficients to samples: libjpeg's accurate integer transform, and its reduced ones for smaller images.
 *
 * The arithmetic is that of libjpeg-turbo's vector code to the last bit, also where values leave the range of images: products
 * and sums keep 16 bits, the result of the first pass saturates, and so does the last. The constants are cosines times 2^13. */
#include "codec/jpeg/kernels.h"

#include <stdbool.h>

#define CONST_BITS 13
#define PASS_BITS  2 /* more precision between the passes */

static int16_t wrap(int32_t x)
{
    return (int16_t)(uint16_t)x;
}

static int16_t saturate(int32_t x)
{
    return (int16_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x);
}

/* Sums may exceed 32 bits for data that is not from an image. */
static int32_t descale(uint32_t sum, unsigned bits)
{
    return (int32_t)(sum + (1u << (bits - 1))) >> bits;
}

static uint8_t sample(int32_t x)
{
    return (uint8_t)((x < -128 ? -128 : x > 127 ? 127 : x) + 128);
}

static uint32_t times(int32_t a, int32_t b)
{
    return (uint32_t)(a * b); /* 16 × 16 bits */
}

/* ---- 8 × 8 ---- */

/* Eight values, `step` apart, before descaling. */
static void eight(const int16_t *in, size_t step, uint32_t out[8])
{
    int16_t x[8];
    for (int i = 0; i < 8; i++)
        x[i] = in[(size_t)i * step];
    uint32_t even3 = times(x[2], 4433 + 6270) + times(x[6], 4433), even2 = times(x[2], 4433) + times(x[6], 4433 - 15137);
    uint32_t even0 = times(wrap(x[0] + x[4]), 1 << CONST_BITS), even1 = times(wrap(x[0] - x[4]), 1 << CONST_BITS);
    int16_t z3 = wrap(x[7] + x[3]), z4 = wrap(x[5] + x[1]);
    uint32_t s3 = times(z3, 9633 - 16069) + times(z4, 9633), s4 = times(z4, 9633 - 3196) + times(z3, 9633);
    uint32_t odd0 = times(x[7], 2446 - 7373) + times(x[1], -7373) + s3;
    uint32_t odd1 = times(x[5], 16819 - 20995) + times(x[3], -20995) + s4;
    uint32_t odd2 = times(x[3], 25172 - 20995) + times(x[5], -20995) + s3;
    uint32_t odd3 = times(x[1], 12299 - 7373) + times(x[7], -7373) + s4;
    out[0] = even0 + even3 + odd3, out[7] = even0 + even3 - odd3;
    out[1] = even1 + even2 + odd2, out[6] = even1 + even2 - odd2;
    out[2] = even1 - even2 + odd1, out[5] = even1 - even2 - odd1;
    out[3] = even0 - even3 + odd0, out[4] = even0 - even3 - odd0;
}

static bool is_one_row(const int16_t *block)
{
    for (int i = 8; i < 64; i++)
        if (block[i])
            return false;
    return true;
}

static void transform_8(const int16_t *block, const int16_t *quant, uint8_t *out, size_t stride)
{
    int16_t x[64];
    uint32_t sums[8];
    bool one_row = is_one_row(block);
    for (int i = 0; i < 64; i++)
        x[i] = wrap(block[i] * quant[i]);
    for (int column = 0; column < 8; column++) {
        int16_t short_way = wrap(x[column] * (1 << PASS_BITS)); /* of libjpeg-turbo, if there is one row only: it wraps */
        eight(x + column, 8, sums);
        for (int row = 0; row < 8; row++)
            x[8 * row + column] = one_row ? short_way : saturate(descale(sums[row], CONST_BITS - PASS_BITS));
    }
    for (int row = 0; row < 8; row++, out += stride) {
        eight(x + 8 * row, 1, sums);
        for (int column = 0; column < 8; column++)
            out[column] = sample(descale(sums[column], CONST_BITS + PASS_BITS + 3));
    }
}

void jpeg_transform_pair_c(const int16_t *a, const int16_t *b, const int16_t *quant, uint8_t *out, size_t stride)
{
    transform_8(a, quant, out, stride);
    transform_8(b, quant, out + 8, stride);
}

/* ---- 4 × 4, from all but the middle row and column ---- */

static void four(const int16_t *in, size_t step, uint32_t out[4])
{
    int16_t x1 = in[step], x2 = in[2 * step], x3 = in[3 * step], x5 = in[5 * step], x6 = in[6 * step], x7 = in[7 * step];
    uint32_t even = times(in[0], 1 << (CONST_BITS + 1)), even2 = times(x2, 15137) + times(x6, -6270);
    uint32_t odd0 = times(x7, -1730) + times(x5, 11893) + times(x3, -17799) + times(x1, 8697);
    uint32_t odd2 = times(x7, -4176) + times(x5, -4926) + times(x3, 7373) + times(x1, 20995);
    out[0] = even + even2 + odd2, out[3] = even + even2 - odd2;
    out[1] = even - even2 + odd0, out[2] = even - even2 - odd0;
}

static void transform_4_c(const int16_t *block, const int16_t *quant, uint8_t *out, size_t stride)
{
    int16_t x[64];
    uint32_t sums[4];
    for (int i = 0; i < 64; i++)
        x[i] = wrap(block[i] * quant[i]);
    for (int column = 0; column < 8; column++) {
        four(x + column, 8, sums);
        for (int row = 0; row < 4; row++)
            x[8 * row + column] = saturate(descale(sums[row], CONST_BITS - PASS_BITS + 1));
    }
    for (int row = 0; row < 4; row++, out += stride) {
        four(x + 8 * row, 1, sums);
        for (int column = 0; column < 4; column++)
            out[column] = sample(descale(sums[column], CONST_BITS + PASS_BITS + 3 + 1));
    }
}

/* ---- 2 × 2, from the odd rows and columns and the first ---- */

static void two(const int16_t *in, size_t step, uint32_t out[2])
{
    uint32_t even = times(in[0], 1 << (CONST_BITS + 2));
    uint32_t odd =
        times(in[7 * step], -5906) + times(in[5 * step], 6967) + times(in[3 * step], -10426) + times(in[step], 29692);
    out[0] = even + odd, out[1] = even - odd;
}

static void transform_2_c(const int16_t *block, const int16_t *quant, uint8_t *out, size_t stride)
{
    int16_t x[64];
    uint32_t sums[2];
    for (int i = 0; i < 64; i++)
        x[i] = wrap(block[i] * quant[i]);
    for (int column = 0; column < 8; column++) {
        two(x + column, 8, sums);
        for (int row = 0; row < 2; row++)
            x[8 * row + column] = saturate(descale(sums[row], CONST_BITS - PASS_BITS + 2));
    }
    for (int row = 0; row < 2; row++, out += stride) {
        two(x + 8 * row, 1, sums);
        for (int column = 0; column < 2; column++)
            out[column] = sample(descale(sums[column], CONST_BITS + PASS_BITS + 3 + 2));
    }
}

static void transform_1_c(const int16_t *block, const int16_t *quant, uint8_t *out, size_t stride)
{
    (void)stride;
    *out = sample((wrap(block[0] * quant[0]) + 4) >> 3);
}

void jpeg_kernels_init_transforms_c(struct jpeg_kernels *k)
{
    k->transform_pair = jpeg_transform_pair_c;
    k->transform_4 = transform_4_c;
    k->transform_2 = transform_2_c;
    k->transform_1 = transform_1_c;
}
