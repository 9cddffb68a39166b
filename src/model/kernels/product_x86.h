/* product_x86.h: products of small matrices in registers for every kernel that multiplies matrices: 6 rows × 16 columns at a time with
 * AVX2, 12 rows × 16 or 32 columns with AVX-512. Every value is one sum, step by step, whatever the tile: the same bits.
 *
 * The right side lies in panels of 16 columns; values of the left side are broadcast from where they lie. */
#ifndef MODEL_KERNELS_PRODUCT_X86_H
#define MODEL_KERNELS_PRODUCT_X86_H

#include "model/kernels/vector_x86.h"

#define PRODUCT_ROWS    (VEC == 16 ? 12 : 6) /* at most */
#define PRODUCT_PANELS  (VEC == 16 ? 2 : 1)  /* at most */
#define PRODUCT_VECTORS 2                    /* per row, at most: two halves of a panel, or two panels */
#define PRODUCT_BASES   4                    /* pointers to rows, three of which share one: an address is a pointer plus up to two steps */
#define PRODUCT_UNROLL  _Pragma("GCC unroll 12")

/* Values Σ over segments and k < length: source[segment][at + r · step + k · next] · panel[k]. Either `step` or `next` is usually 1. */
struct product {
    const float *const *source;
    size_t segments, at, length, step, next;
    const float *panel;
    size_t panel_pitch; /* between rows of a panel */
    size_t panel_gap;   /* between panels, where there are two */
    size_t ahead;       /* floats after each row of the panel from which lines are fetched; 0: none */
    size_t ahead_lines; /* of them, per row */
};

GEMM_INLINE size_t product_vectors(size_t panels)
{
    return panels * GEMM_PANEL / VEC;
}

/* Floats from a row's first vector to its second: of the next panel, or of the same one. */
GEMM_INLINE size_t product_gap(size_t panel_gap)
{
    return VEC == GEMM_PANEL ? panel_gap : VEC;
}

/* How many of `left` rows to multiply next: no last tile of few rows, whose additions would wait for each other; an odd number only at the
 * end, so that what takes turns from row to row does so throughout. */
GEMM_INLINE size_t product_rows(size_t left)
{
    if (VEC == 16 && (left >= 20 || left == 12))
        return 12;
    if (VEC == 16 && (left >= 13 || left == 8))
        return 8;
    return left >= 10 ? 6 : left >= 7 ? 4 : left;
}

GEMM_INLINE void product_step(size_t rows, size_t vectors, const struct product *p, const float *const *a, const float *panel, vec *acc)
{
    const vec w0 = vec_load(panel), w1 = vectors > 1 ? vec_load(panel + product_gap(p->panel_gap)) : w0;
    for (size_t i = 0; p->ahead && i < p->ahead_lines; i++)
        _mm_prefetch((const char *)(panel + p->ahead + i * GEMM_PANEL), _MM_HINT_T0);
    PRODUCT_UNROLL
    for (size_t i = 0; i < rows; i++) {
        const vec x = vec_set(a[i / 3][i % 3 * p->step]);
        acc[PRODUCT_VECTORS * i] = vec_fma(x, w0, acc[PRODUCT_VECTORS * i]);
        if (vectors > 1)
            acc[PRODUCT_VECTORS * i + 1] = vec_fma(x, w1, acc[PRODUCT_VECTORS * i + 1]);
    }
}

#define PRODUCT_UNROLLED 2 /* steps of a sum per turn of its loop: short sums then end as the processor foresees */

/* acc[PRODUCT_VECTORS · row + vector] += the product, in registers. */
GEMM_INLINE void product_sum(size_t rows, size_t panels, const struct product *p, vec *acc)
{
    const size_t vectors = product_vectors(panels), next = p->next;
    const float *panel = p->panel;
    for (size_t s = 0; s < p->segments; s++) {
        const float *a0 = p->source[s] + p->at, *a3 = a0 + 3 * p->step, *a6 = a3 + 3 * p->step, *a9 = a6 + 3 * p->step;
        size_t k = 0;
        for (; k + PRODUCT_UNROLLED <= p->length; k += PRODUCT_UNROLLED) {
            PRODUCT_UNROLL
            for (size_t u = 0; u < PRODUCT_UNROLLED; u++, panel += p->panel_pitch) {
                product_step(rows, vectors, p, (const float *const[PRODUCT_BASES]){a0, a3, a6, a9}, panel, acc);
                a0 += next, a3 += next, a6 += next, a9 += next;
            }
        }
        for (; k < p->length; k++, panel += p->panel_pitch) {
            product_step(rows, vectors, p, (const float *const[PRODUCT_BASES]){a0, a3, a6, a9}, panel, acc);
            a0 += next, a3 += next, a6 += next, a9 += next;
        }
    }
}

GEMM_INLINE void product_zero(size_t rows, vec *acc)
{
    PRODUCT_UNROLL
    for (size_t i = 0; i < rows; i++)
        acc[PRODUCT_VECTORS * i] = acc[PRODUCT_VECTORS * i + 1] = vec_zero();
}

/* out[r] = [out[r] +] the product, rows `pitch` apart, panels `gap` apart. */
GEMM_INLINE void product_tile(size_t rows, size_t panels, bool adds, const struct product *p, float *out, size_t pitch, size_t gap)
{
    const size_t vectors = product_vectors(panels);
    vec acc[PRODUCT_VECTORS * PRODUCT_ROWS];
    product_zero(rows, acc);
    PRODUCT_UNROLL
    for (size_t i = 0; adds && i < rows; i++) {
        acc[PRODUCT_VECTORS * i] = vec_load(out + i * pitch);
        if (vectors > 1)
            acc[PRODUCT_VECTORS * i + 1] = vec_load(out + i * pitch + product_gap(gap));
    }
    product_sum(rows, panels, p, acc);
    PRODUCT_UNROLL
    for (size_t i = 0; i < rows; i++) {
        vec_store(out + i * pitch, acc[PRODUCT_VECTORS * i]);
        if (vectors > 1)
            vec_store(out + i * pitch + product_gap(gap), acc[PRODUCT_VECTORS * i + 1]);
    }
}

/* `tile` with the number of rows, its first argument, as a constant. */
#ifdef __AVX512F__
#define PRODUCT_LARGE_TILES(tile, ...)                                                                                          \
    case 12:                                                                                                                    \
        tile(12, __VA_ARGS__);                                                                                                  \
        break;                                                                                                                  \
    case 8:                                                                                                                     \
        tile(8, __VA_ARGS__);                                                                                                   \
        break;
#else
#define PRODUCT_LARGE_TILES(tile, ...)
#endif
#define PRODUCT_SWITCH(tile, rows, ...)                                                                                         \
    do {                                                                                                                        \
        switch (rows) {                                                                                                         \
            PRODUCT_LARGE_TILES(tile, __VA_ARGS__)                                                                              \
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
#define PRODUCT_TILE(rows, ...) PRODUCT_SWITCH(product_tile, rows, __VA_ARGS__)

#endif
