/* i8_avx512.h: the last step of the AVX-512 kernels: sums to 8-bit integers. */
#ifndef QUANT_KERNELS_I8_AVX512_H
#define QUANT_KERNELS_I8_AVX512_H

#include "quant/kernels/i8.h"

#include <immintrin.h>

/* As values: results are bytes, whose stores may change anything that is read through pointers. */
struct i8_range512 {
    __m512i zero; /* 16 bits */
    __m512i low, high;
};

static inline struct i8_range512 i8_range512_of(uint8_t zero, uint8_t low, uint8_t high)
{
    return (struct i8_range512){_mm512_set1_epi16(zero), _mm512_set1_epi8((char)low), _mm512_set1_epi8((char)high)};
}

/* acc · factor, rounded to nearest even. */
static inline __m512i i8_scale512(__m512i acc, __m512 factors)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), factors));
}

/* 4 × 16 scaled sums as 64 bytes: in every 128 bits 4 of each, as unpacking bytes to 32 bits leaves them. */
static inline __m512i i8_bytes512(const struct i8_range512 *r, __m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(a, b), r->zero),
            high = _mm512_adds_epi16(_mm512_packs_epi32(c, d), r->zero);
    return _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), r->low), r->high);
}

/* Bytes of i8_bytes512 in order: all of `a`, then all of `b`, … */
static inline __m512i i8_in_order(__m512i q)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, q);
}

#endif
