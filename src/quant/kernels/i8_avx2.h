/* i8_avx2.h: the last step of the AVX2 kernels: sums to 8-bit integers or floats. */
#ifndef QUANT_KERNELS_I8_AVX2_H
#define QUANT_KERNELS_I8_AVX2_H

#include "quant/kernels/i8.h"

#include <immintrin.h>
#include <string.h>

/* acc · factor, rounded to nearest even. */
static inline __m256i i8_scale(__m256i acc, const float *factors)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(factors)));
}

static inline __m256 i8_real(const struct i8_job *j, __m256i acc, const float *factors)
{
    __m256 x = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(factors));
    return _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(j->least)), _mm256_set1_ps(j->most));
}

/* 16 scaled sums as 16 bytes. */
static inline __m128i i8_bytes(const struct i8_job *j, __m256i a, __m256i b)
{
    __m256i x = _mm256_adds_epi16(_mm256_packs_epi32(a, b), _mm256_set1_epi16(j->zero));
    x = _mm256_permute4x64_epi64(x, 0xd8);
    __m128i q = _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return _mm_min_epu8(_mm_max_epu8(q, _mm_set1_epi8((char)j->low)), _mm_set1_epi8((char)j->high));
}

/* Stores `count` ≤ 16 results of a pixel, from output channel `o` on. `at` is the pixel. */
static inline void i8_store(const struct i8_job *j, __m256i a, __m256i b, size_t at, size_t o, size_t count)
{
    a = _mm256_add_epi32(a, _mm256_loadu_si256((const void *)(j->bias + o)));
    b = _mm256_add_epi32(b, _mm256_loadu_si256((const void *)(j->bias + o + 8)));
    if (j->out) {
        __m128i q = i8_bytes(j, i8_scale(a, j->factors + o), i8_scale(b, j->factors + o + 8));
        uint8_t *to = j->out + at * j->shape.co + o, tail[16];
        if (count == 16) {
            _mm_storeu_si128((void *)to, q);
            return;
        }
        _mm_storeu_si128((void *)tail, q);
        memcpy(to, tail, count);
        return;
    }
    float tail[16];
    _mm256_storeu_ps(tail, i8_real(j, a, j->factors + o));
    _mm256_storeu_ps(tail + 8, i8_real(j, b, j->factors + o + 8));
    memcpy(j->out_real + at * j->shape.co + o, tail, count * sizeof(float));
}

#endif
