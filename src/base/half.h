/* half.h: float16 and bfloat16 as bits: correctly rounded (to nearest, ties to even), as the hardware converts them.
 *
 * No branches, so that loops over these become vector code. A NaN stays a NaN and keeps the upper bits of its payload. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static inline float float_of_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Returns `a` if x < limit, otherwise `b`; both below 2^31. Uses masks, because a compiler may not compute both sides of ?:
 * when one of them comes from floating point. */
static inline uint32_t bits_pick(uint32_t x, uint32_t limit, uint32_t a, uint32_t b)
{
    uint32_t mask = 0u - ((x - limit) >> 31);
    return b ^ ((a ^ b) & mask);
}

static inline uint16_t half_from_float(float v)
{
    uint32_t sign = float_bits(v) & 0x80000000u, bits = float_bits(v) ^ sign;
    /* below 2^-14 the result has no exponent: adding 1/2 moves its last bit to the float's last bit, rounded */
    uint32_t small = float_bits(float_of_bits(bits) + 0.5f) - 0x3f000000u;
    uint32_t normal = (bits + 0xc8000fffu + (bits >> 13 & 1)) >> 13; /* exponent 127 → 15, and half of the last bit */
    uint32_t special = bits_pick(bits, 0x7f800001u, 0x7c00u, 0x7e00u | (bits >> 13 & 0x3ffu));
    uint32_t half = bits_pick(bits, 0x38800000u, small, bits_pick(bits, 0x47800000u, normal, special));
    return (uint16_t)(half | sign >> 16);
}

static inline float float_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, bits = (uint32_t)(half & 0x7fffu) << 13;
    uint32_t small = float_bits(float_of_bits(bits + 0x38800000u) - 0x1p-14f); /* no exponent: 2^-14 × fraction */
    uint32_t normal = bits + 0x38000000u;
    uint32_t special = (bits + 0x70000000u) | bits_pick(bits, 0x0f800001u, 0, 0x400000u);
    return float_of_bits(bits_pick(bits, 0x00800000u, small, bits_pick(bits, 0x0f800000u, normal, special)) | sign);
}

static inline uint16_t bfloat_from_float(float v)
{
    uint32_t bits = float_bits(v), nan = bits >> 16 | 0x40u;
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)bits_pick(bits & 0x7fffffffu, 0x7f800001u, rounded, nan);
}

static inline float float_from_bfloat(uint16_t bfloat)
{
    return float_of_bits((uint32_t)bfloat << 16);
}

#endif
