/* wino4_blocks.h: what the levels of wino4 share: constants of the transforms, how tiles are cut into blocks, scratch layout.
 *
 * With the points 0, ±a, ±b, ∞, ab = 1, and AB = 1 for their squares, per dimension:
 *   input   Bᵀ: d0 - (A+B) d2 + d4;  d4 - B d2 ± a (d3 - B d1);  d4 - A d2 ± b (d3 - A d1);  d1 - (A+B) d3 + d5
 *   weights G:  g0;  k (g0 ± a g1 + A g2);  -k (g0 ± b g1 + B g2);  g2                  k = 1 / 2(A - B)
 *   output  Aᵀ: of sums s and differences d of the two pairs: m0 + B s1 + A s2;  b d1 + a d2;  s1 + s2;  a d1 + b d2 + m5
 * In this form the output costs least; the weight gradient instead takes pairs of the gradient unscaled:
 *   gradient:   y0;  y0 + A y2 ± a (y1 + A y3);  y0 + B y2 ± b (y1 + B y3);  y3         and n1 = Bk, n2 = -Ak in place of ±k
 * A frequency is 6 · (vertical point) + horizontal point. */
#ifndef MODEL_KERNELS_WINO4_BLOCKS_H
#define MODEL_KERNELS_WINO4_BLOCKS_H

#include "model/kernels/wino4.h"

#define WINO4_INLINE static inline __attribute__((always_inline)) /* arguments become constants, wherever it is used */

#if defined(__clang__)
#define WINO4_UNROLL _Pragma("clang loop unroll(full)") /* before loops of at most six rounds, over registers */
#else
#define WINO4_UNROLL _Pragma("GCC unroll 6")
#endif

#define WINO4_A     (2.0f / 3.0f)
#define WINO4_B     (3.0f / 2.0f)
#define WINO4_AA    (4.0f / 9.0f)
#define WINO4_BB    (9.0f / 4.0f)
#define WINO4_AA_BB (97.0f / 36.0f)
#define WINO4_K     (-18.0f / 65.0f) /* 1 / 2(A - B) */
#define WINO4_N1    (WINO4_BB * WINO4_K)
#define WINO4_N2    (-WINO4_AA * WINO4_K)

#define WINO4_POINTS 6u
#define WINO4_FREQS  36u
#define WINO4_PANEL  16u /* output channels computed together */
#define WINO4_RUN    8u  /* tiles of one row transformed together: their columns stay in the first-level cache */
#define WINO4_TILES  64u /* of a block, at most */
#define WINO4_GAP    16u /* floats between frequencies: pitches of a power of two would share cache sets */

/* Floats from one frequency to the next where a tile has 16 channels; the same for every block: a constant. Six lines more than a multiple
 * of the first-level cache's sets: the frequencies of six tiles lie in different ones. */
#define WINO4_PANEL_PITCH (WINO4_TILES * WINO4_PANEL + 6 * WINO4_GAP)
#define WINO4_COLUMNS     ((4 * WINO4_RUN + 2) * WINO4_POINTS * WINO4_PANEL) /* floats: a run after the vertical transform */

#ifndef WINO4_VOLUME /* channels × tiles of a transformed block: 36 × 4 bytes each. Half of a 512 KB second-level cache. */
#define WINO4_VOLUME 2048u
#endif
#ifndef WINO4_GRADIENT_VOLUME /* the same for input and gradient together */
#define WINO4_GRADIENT_VOLUME 4096u
#endif

/* Images of up to WINO4_FEW channels: floats of a row of pixels below WINO4_TILES tiles, read in vectors and in groups of up to 4 tiles. */
#define WINO4_FEW       4u
#define WINO4_FEW_ROW   ((4 * (WINO4_TILES + 3) + 2) * WINO4_FEW + 16)
#define WINO4_FEW_ROWS  (WINO4_POINTS * WINO4_FEW_ROW)
#define WINO4_FEW_PITCH (WINO4_TILES * 4 + WINO4_GAP)

WINO4_INLINE size_t wino4_round(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

WINO4_INLINE size_t wino4_clamp_tiles(size_t n)
{
    return n > WINO4_TILES ? WINO4_TILES : n < 12 ? 12 : n / 2 * 2;
}

/* Tiles of a block of the convolution. */
WINO4_INLINE size_t wino4_conv_tiles(size_t ci)
{
    return wino4_clamp_tiles(WINO4_VOLUME / wino4_round(ci, 8));
}

/* Tiles of a block of the weight gradient. */
WINO4_INLINE size_t wino4_gradient_tiles(size_t ci, size_t co)
{
    return wino4_clamp_tiles(WINO4_GRADIENT_VOLUME / (wino4_round(ci, 8) + wino4_round(co, WINO4_PANEL)));
}

/* Floats from one frequency of a block of n tiles to the next. */
WINO4_INLINE size_t wino4_pitch(size_t tiles, size_t channels)
{
    return tiles * channels + WINO4_GAP;
}

/* The outputs as tiles of 4 × 4, numbered by image, row, column. */
struct wino4_grid {
    size_t rows, columns, total;
};

WINO4_INLINE struct wino4_grid wino4_grid_of(size_t images, size_t h, size_t w)
{
    struct wino4_grid g = {.rows = (h + 3) / 4, .columns = (w + 3) / 4};
    g.total = images * g.rows * g.columns;
    return g;
}

/* Neighbours in one row of tiles; y and x in pixels of the output. */
struct wino4_run {
    size_t image, y, x, count;
};

/* The run that begins with tile `at`, before tile `end`. */
WINO4_INLINE struct wino4_run wino4_run_at(const struct wino4_grid *g, size_t at, size_t end)
{
    size_t row = at / g->columns, column = at % g->columns, count = g->columns - column;
    if (count > end - at)
        count = end - at;
    if (count > WINO4_RUN)
        count = WINO4_RUN;
    return (struct wino4_run){.image = row / g->rows, .y = row % g->rows * 4, .x = column * 4, .count = count};
}

WINO4_INLINE size_t wino4_offset(const struct conv_strides *s, size_t image, size_t y, size_t x)
{
    return image * s->image + y * s->row + x * s->pixel;
}

#endif
