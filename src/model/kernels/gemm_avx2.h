/* gemm_avx2.h: how kernels cut rows and columns for tiles of 6 rows × 16 columns, and stores of their last columns. */
#ifndef MODEL_KERNELS_GEMM_AVX2_H
#define MODEL_KERNELS_GEMM_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#define GEMM_INLINE static inline __attribute__((always_inline))
#define GEMM_PANEL  16 /* columns */

/* The first `n` of eight lanes; n may be 0 or more than eight. */
GEMM_INLINE __m256i gemm_lanes(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Stores the first `n` values. Masked stores take many times as long on some processors. */
GEMM_INLINE void gemm_store(float *to, __m256 v, size_t n)
{
    __m128 low = _mm256_castps256_ps128(v);
    if (n >= 8) {
        _mm256_storeu_ps(to, v);
        return;
    }
    if (n & 4) {
        _mm_storeu_ps(to, low);
        low = _mm256_extractf128_ps(v, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, low);
        low = _mm_movehl_ps(low, low);
        to += 2;
    }
    if (n & 1)
        _mm_store_ss(to, low);
}

/* How many of `left` rows to multiply next: at most 6, and no last tile of few rows, whose additions would wait for each other. */
GEMM_INLINE size_t gemm_rows(size_t left)
{
    return left >= 12 || left == 10 || left == 11 ? 6 : left == 9 ? 5 : left == 8 || left == 7 ? 4 : left;
}

#endif
