/* number_avx2.h: eight values of any number type, in registers as float32. */
#ifndef MODEL_KERNELS_NUMBER_AVX2_H
#define MODEL_KERNELS_NUMBER_AVX2_H

#include "model/kernels/gemm_avx2.h"
#include "model/number.h"

#include <string.h>

GEMM_INLINE __m256 number_widen(__m128i bits, enum number n)
{
    return n == NUMBER_F16 ? _mm256_cvtph_ps(bits) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/* Rounds to the nearest, ties to even; NaN stays NaN. */
GEMM_INLINE __m128i number_narrow(__m256 v, enum number n)
{
    if (n == NUMBER_F16)
        return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    __m256i bits = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i nan = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    rounded = _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
}

/* Values from `i` on: eight (`whole`), or the first `count`, and zeros. */
GEMM_INLINE __m256 number_load8(const void *p, enum number n, size_t i, bool whole, size_t count)
{
    if (n == NUMBER_F32)
        return whole ? _mm256_loadu_ps((const float *)p + i) : _mm256_maskload_ps((const float *)p + i, gemm_lanes(count));
    if (whole)
        return number_widen(_mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)p + i)), n);
    uint16_t few[8] = {0};
    memcpy(few, (const uint16_t *)p + i, (count < 8 ? count : 8) * sizeof(few[0]));
    return number_widen(_mm_loadu_si128((const __m128i *)(const void *)few), n);
}

GEMM_INLINE void number_store8(void *p, enum number n, size_t i, __m256 v, bool whole, size_t count)
{
    if (n == NUMBER_F32) {
        if (whole)
            _mm256_storeu_ps((float *)p + i, v);
        else
            gemm_store((float *)p + i, v, count);
        return;
    }
    if (whole) {
        _mm_storeu_si128((__m128i *)(void *)((uint16_t *)p + i), number_narrow(v, n));
        return;
    }
    uint16_t few[8];
    _mm_storeu_si128((__m128i *)(void *)few, number_narrow(v, n));
    memcpy((uint16_t *)p + i, few, (count < 8 ? count : 8) * sizeof(few[0]));
}

#endif
