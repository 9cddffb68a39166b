/* i8_avx2.h: the last step of the AVX2 kernels: sums to 8-bit integers or floats. */
#ifndef QUANT_KERNELS_I8_AVX2_H
#define QUANT_KERNELS_I8_AVX2_H

#include "quant/kernels/i8.h"

#include <immintrin.h>
#include <string.h>

/* What a result's last step needs, as values: results are bytes, whose stores may change anything that is read through pointers. */
struct i8_ending {
    const int32_t *bias;
    const float *factors;
    uint8_t *out; /* NULL: floats */
    float *out_real;
    size_t co;
    __m256i zero;
    __m128i low, high;
    __m256 least, most;
};

static inline struct i8_ending i8_ending_of(const struct i8_job *j)
{
    return (struct i8_ending){.bias = j->bias,
                              .factors = j->factors,
                              .out = j->out,
                              .out_real = j->out_real,
                              .co = j->shape.co,
                              .zero = _mm256_set1_epi16(j->zero),
                              .low = _mm_set1_epi8((char)j->low),
                              .high = _mm_set1_epi8((char)j->high),
                              .least = _mm256_set1_ps(j->least),
                              .most = _mm256_set1_ps(j->most)};
}

/* The bias of channels from `o` on. */
static inline __m256i i8_bias(const struct i8_ending *e, size_t o)
{
    return _mm256_loadu_si256((const void *)(e->bias + o));
}

/* acc · factor, rounded to nearest even. */
static inline __m256i i8_scale(__m256i acc, const float *factors)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(factors)));
}

static inline __m256 i8_real(const struct i8_ending *e, __m256i acc, const float *factors)
{
    __m256 x = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(factors));
    return _mm256_min_ps(_mm256_max_ps(x, e->least), e->most);
}

/* 16 scaled sums as 16 bytes. */
static inline __m128i i8_bytes(const struct i8_ending *e, __m256i a, __m256i b)
{
    __m256i x = _mm256_adds_epi16(_mm256_packs_epi32(a, b), e->zero);
    x = _mm256_permute4x64_epi64(x, 0xd8);
    __m128i q = _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return _mm_min_epu8(_mm_max_epu8(q, e->low), e->high);
}

/* Stores `count` ≤ 16 results of a pixel, from output channel `o` on; the sums have their bias. `at` is the pixel. */
static inline __attribute__((always_inline)) void i8_store(const struct i8_ending *e, __m256i a, __m256i b, size_t at, size_t o, size_t count)
{
    if (e->out) {
        __m128i q = i8_bytes(e, i8_scale(a, e->factors + o), i8_scale(b, e->factors + o + 8));
        uint8_t *to = e->out + at * e->co + o, tail[16];
        if (count == 16) {
            _mm_storeu_si128((void *)to, q);
            return;
        }
        _mm_storeu_si128((void *)tail, q);
        memcpy(to, tail, count);
        return;
    }
    float tail[16];
    _mm256_storeu_ps(tail, i8_real(e, a, e->factors + o));
    _mm256_storeu_ps(tail + 8, i8_real(e, b, e->factors + o + 8));
    memcpy(e->out_real + at * e->co + o, tail, count * sizeof(float));
}

#endif
