/* turn_avx2.h: rows become columns, eight by eight. */
#ifndef MODEL_KERNELS_TURN_AVX2_H
#define MODEL_KERNELS_TURN_AVX2_H

#include "model/kernels/gemm_avx2.h"

/* Eight rows become eight columns. */
GEMM_INLINE void turn(__m256 v[8])
{
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            b[i + 2 * k] = _mm256_shuffle_ps(a[i + k], a[i + k + 2], 0x44);
            b[i + 2 * k + 1] = _mm256_shuffle_ps(a[i + k], a[i + k + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* Up to four columns of eight rows: those of rows 0 to 3 in the lower, of rows 4 to 7 in the upper half. */
GEMM_INLINE void turn_four(const float *from, size_t pitch, size_t rows, size_t columns, __m256 ret[4])
{
    const __m128i lanes = _mm256_castsi256_si128(gemm_lanes(columns));
    __m128 v[8];
    for (size_t i = 0; i < 8; i++)
        v[i] = i < rows ? _mm_maskload_ps(from + i * pitch, lanes) : _mm_setzero_ps();
    _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
    _MM_TRANSPOSE4_PS(v[4], v[5], v[6], v[7]);
    for (size_t i = 0; i < 4; i++)
        ret[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(v[i]), v[i + 4], 1);
}

/* to[c][r] = from[r][c] for `rows` ≤ 8 rows and `columns` columns; zeros for rows up to 8. */
GEMM_INLINE void turn_rows(const float *from, size_t pitch, size_t rows, size_t columns, float *to, size_t to_pitch)
{
    for (size_t c = 0; c < columns; c += 8, from += 8, to += 8 * to_pitch) {
        size_t left = columns - c < 8 ? columns - c : 8;
        __m256 v[8];
        if (left <= 4) {
            turn_four(from, pitch, rows, left, v);
        } else {
            const __m256i lanes = gemm_lanes(left);
            for (size_t i = 0; i < 8; i++)
                v[i] = i < rows ? _mm256_maskload_ps(from + i * pitch, lanes) : _mm256_setzero_ps();
            turn(v);
        }
        for (size_t i = 0; i < left; i++)
            _mm256_storeu_ps(to + i * to_pitch, v[i]);
    }
}

#endif
