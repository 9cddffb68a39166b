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
        acc[2 * i] = _mm256_loadu_ps(out + i * pitch);                                                                          \
        acc[2 * i + 1] = _mm256_loadu_ps(out + i * pitch + 8);                                                                  \
    }
#define GEMM_STORE(i)                                                                                                           \
    if (rows > i) {                                                                                                             \
        _mm256_storeu_ps(out + i * pitch, acc[2 * i]);                                                                          \
        _mm256_storeu_ps(out + i * pitch + 8, acc[2 * i + 1]);                                                                  \
    }

#define GEMM_UNROLLED 2 /* steps of a sum per turn of its loop: short sums then end as the processor foresees */

GEMM_INLINE void gemm_step(size_t rows, const float *a, size_t step, const float *panel, size_t ahead, __m256 *acc)
{
    __m256 w0 = _mm256_loadu_ps(panel), w1 = _mm256_loadu_ps(panel + 8);
    if (ahead)
        _mm_prefetch((const char *)(panel + ahead), _MM_HINT_T0);
    GEMM_EACH_ROW(GEMM_MULTIPLY)
}

/* acc += Σ over segments and k < length: source[segment][at + r · step + k · next] · panel[k], `rows` × 16 values in registers. Either
 * `step` or `next` is usually 1. Rows of the panel are `panel_pitch` apart; `ahead` floats after each of them are fetched (0: none). */
GEMM_INLINE void gemm_sum(size_t rows, const float *const *source, size_t segments, size_t at, size_t length, size_t step, size_t next,
                          const float *panel, size_t panel_pitch, size_t ahead, __m256 *acc)
{
    for (size_t s = 0; s < segments; s++) {
        const float *a = source[s] + at;
        size_t k = 0;
        for (; k + GEMM_UNROLLED <= length; k += GEMM_UNROLLED)
#pragma GCC unroll 2
            for (size_t u = 0; u < GEMM_UNROLLED; u++, a += next, panel += panel_pitch)
                gemm_step(rows, a, step, panel, ahead, acc);
        for (; k < length; k++, a += next, panel += panel_pitch)
            gemm_step(rows, a, step, panel, ahead, acc);
    }
}

/* out[r] = [out[r] +] the same sum, rows `pitch` apart. */
GEMM_INLINE void gemm_tile_at(size_t rows, bool adds, const float *const *source, size_t segments, size_t at, size_t length, size_t step,
                              size_t next, const float *panel, size_t panel_pitch, size_t ahead, float *out, size_t pitch)
{
    __m256 acc[12];
    GEMM_EACH_ROW(GEMM_ZERO)
    if (adds) {
        GEMM_EACH_ROW(GEMM_LOAD)
    }
    gemm_sum(rows, source, segments, at, length, step, next, panel, panel_pitch, ahead, acc);
    GEMM_EACH_ROW(GEMM_STORE)
}

/* The same with a panel and a result without gaps. */
GEMM_INLINE void gemm_tile(size_t rows, bool adds, const float *const *source, size_t segments, size_t at, size_t length, size_t step,
                           size_t next, const float *panel, float *out)
{
    gemm_tile_at(rows, adds, source, segments, at, length, step, next, panel, GEMM_PANEL, 0, out, GEMM_PANEL);
}

/* gemm_tile and gemm_tile_at with the number of rows as a constant. */
#define GEMM_TILE(rows, ...)    GEMM_SWITCH(gemm_tile, rows, __VA_ARGS__)
#define GEMM_TILE_AT(rows, ...) GEMM_SWITCH(gemm_tile_at, rows, __VA_ARGS__)
#define GEMM_SWITCH(tile, rows, ...)                                                                                            \
    do {                                                                                                                        \
        switch (rows) {                                                                                                         \
        case 6:                                                                                                                 \
            tile(6, __VA_ARGS__);                                                                                               \
            break;                                                                                                              \
        case 5:                                                                                                                 \
            tile(5, __VA_ARGS__);                                                                                               \
            break;                                                                                                              \
        case 4:                                                                                                                 \
            tile(4, __VA_ARGS__);                                                                                               \
            break;                                                                                                              \
        case 3:                                                                                                                 \
            tile(3, __VA_ARGS__);                                                                                               \
            break;                                                                                                              \
        case 2:                                                                                                                 \
            tile(2, __VA_ARGS__);                                                                                               \
            break;                                                                                                              \
        default:                                                                                                                \
            tile(1, __VA_ARGS__);                                                                                               \
        }                                                                                                                       \
    } while (0)

#endif
