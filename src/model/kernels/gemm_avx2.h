/* gemm_avx2.h: products of small matrices in registers, 6 rows × 16 columns at a time, for every kernel that multiplies matrices.
 *
 * The right side lies in panels of 16 columns without gaps; values of the left side are broadcast from where they lie. */
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

/* How many of `left` rows to multiply next: at most 6, and no last tile of few rows, whose additions would wait for each other. */
GEMM_INLINE size_t gemm_rows(size_t left)
{
    return left >= 12 || left == 10 || left == 11 ? 6 : left == 9 ? 5 : left == 8 || left == 7 ? 4 : left;
}

/* Loads, stores and products of the row that `i` names; nothing where the tile has fewer rows. */
#define GEMM_EACH_ROW(do_row) do_row(0) do_row(1) do_row(2) do_row(3) do_row(4) do_row(5)
#define GEMM_MULTIPLY(i)                                                                                                        \
    if (rows > i) {                                                                                                             \
        __m256 x = _mm256_broadcast_ss(a + i * step);                                                                           \
        acc[2 * i] = _mm256_fmadd_ps(x, w0, acc[2 * i]);                                                                        \
        acc[2 * i + 1] = _mm256_fmadd_ps(x, w1, acc[2 * i + 1]);                                                                \
    }
#define GEMM_ZERO(i) acc[2 * i] = acc[2 * i + 1] = _mm256_setzero_ps();
#define GEMM_LOAD(i)                                                                                                            \
    if (rows > i) {                                                                                                             \
        acc[2 * i] = _mm256_load_ps(out + i * GEMM_PANEL);                                                                      \
        acc[2 * i + 1] = _mm256_load_ps(out + i * GEMM_PANEL + 8);                                                              \
    }
#define GEMM_STORE(i)                                                                                                           \
    if (rows > i) {                                                                                                             \
        _mm256_store_ps(out + i * GEMM_PANEL, acc[2 * i]);                                                                      \
        _mm256_store_ps(out + i * GEMM_PANEL + 8, acc[2 * i + 1]);                                                              \
    }

/* out[r] = [out[r] +] Σ over segments and k < length: source[segment][at + r · step + k · next] · panel[k]: `rows` × 16 values,
 * 16 apart. Either `step` or `next` is usually 1. */
GEMM_INLINE void gemm_tile(size_t rows, bool adds, const float *const *source, size_t segments, size_t at, size_t length, size_t step,
                           size_t next, const float *panel, float *out)
{
    __m256 acc[12];
    GEMM_EACH_ROW(GEMM_ZERO)
    if (adds) {
        GEMM_EACH_ROW(GEMM_LOAD)
    }
    for (size_t s = 0; s < segments; s++) {
        const float *a = source[s] + at;
        for (size_t k = 0; k < length; k++, a += next, panel += GEMM_PANEL) {
            __m256 w0 = _mm256_load_ps(panel), w1 = _mm256_load_ps(panel + 8);
            GEMM_EACH_ROW(GEMM_MULTIPLY)
        }
    }
    GEMM_EACH_ROW(GEMM_STORE)
}

/* gemm_tile with the number of rows as a constant. */
#define GEMM_TILE(rows, ...)                                                                                                    \
    do {                                                                                                                        \
        switch (rows) {                                                                                                         \
        case 6:                                                                                                                 \
            gemm_tile(6, __VA_ARGS__);                                                                                          \
            break;                                                                                                              \
        case 5:                                                                                                                 \
            gemm_tile(5, __VA_ARGS__);                                                                                          \
            break;                                                                                                              \
        case 4:                                                                                                                 \
            gemm_tile(4, __VA_ARGS__);                                                                                          \
            break;                                                                                                              \
        case 3:                                                                                                                 \
            gemm_tile(3, __VA_ARGS__);                                                                                          \
            break;                                                                                                              \
        case 2:                                                                                                                 \
            gemm_tile(2, __VA_ARGS__);                                                                                          \
            break;                                                                                                              \
        default:                                                                                                                \
            gemm_tile(1, __VA_ARGS__);                                                                                          \
        }                                                                                                                       \
    } while (0)

#endif
