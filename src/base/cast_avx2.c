/* cast_avx2.c: float16 by the instructions that are made for it, eight values at a time. */
#include "base/cast_kernels.h"

#include "base/half.h"

#include <immintrin.h>

#define TO_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

void cast_f16_from_f32_avx2(void *restrict to, const void *restrict from, size_t count)
{
    uint16_t *t = to;
    const float *f = from;
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(t + i), _mm256_cvtps_ph(_mm256_loadu_ps(f + i), TO_NEAREST));
    for (; i < count; i++)
        t[i] = half_from_float(f[i]);
}

void cast_f16_from_u8_avx2(void *restrict to, const void *restrict from, size_t count)
{
    uint16_t *t = to;
    const uint8_t *f = from;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(f + i)));
        _mm_storeu_si128((__m128i *)(void *)(t + i), _mm256_cvtps_ph(_mm256_cvtepi32_ps(wide), TO_NEAREST));
    }
    for (; i < count; i++)
        t[i] = half_from_float((float)f[i]);
}

void cast_f32_from_f16_avx2(void *restrict to, const void *restrict from, size_t count)
{
    float *t = to;
    const uint16_t *f = from;
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(t + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(f + i))));
    for (; i < count; i++)
        t[i] = float_from_half(f[i]);
}
