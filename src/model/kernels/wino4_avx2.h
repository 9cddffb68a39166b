/* wino4_avx2.h: what both AVX2 files of wino4 share: masked loads, the input transform, how rows are cut for 6 × 16 tiles. */
#ifndef MODEL_KERNELS_WINO4_AVX2_H
#define MODEL_KERNELS_WINO4_AVX2_H

#include "model/kernels/wino4_blocks.h"

#include <immintrin.h>

#define ALL_ROWS 0x3fu /* of a window of 6 */

/* Fills in what f32_wino4_gradient_avx2.c provides. */
void wino4_kernels_init_avx2_gradient(struct wino4_kernels *k);

/* The first `n` of eight lanes; n may be 0 or more than eight. */
WINO4_INLINE __m256i first_lanes(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

WINO4_INLINE __m256 load_lanes(const float *p, bool whole, __m256i lanes)
{
    return whole ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes);
}

WINO4_INLINE void store_lanes(float *p, __m256 v, bool whole, __m256i lanes)
{
    if (whole)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, lanes, v);
}

/* How many of `left` rows to multiply next: at most 6, and no last tile of few rows, whose additions would wait for each other.
 */
WINO4_INLINE unsigned next_rows(size_t left)
{
    return left >= 12 || left == 10 || left == 11 ? 6 : left == 9 ? 5 : left == 8 || left == 7 ? 4 : (unsigned)left;
}

/* Few fused operations: on Zen they share ports with stores, of which the transforms are full (9.1 cycles, now 6.3; 6 stores).
 */
WINO4_INLINE void input_1d(const __m256 d[6], __m256 v[6])
{
    const __m256 a = _mm256_set1_ps(WINO4_A), b = _mm256_set1_ps(WINO4_B), aa = _mm256_set1_ps(WINO4_AA);
    const __m256 bb = _mm256_set1_ps(WINO4_BB), both = _mm256_set1_ps(WINO4_AA_BB);
    __m256 even = _mm256_sub_ps(d[4], _mm256_mul_ps(bb, d[2]));
    __m256 odd = _mm256_mul_ps(a, _mm256_sub_ps(d[3], _mm256_mul_ps(bb, d[1])));
    v[1] = _mm256_add_ps(even, odd);
    v[2] = _mm256_sub_ps(even, odd);
    even = _mm256_sub_ps(d[4], _mm256_mul_ps(aa, d[2]));
    odd = _mm256_mul_ps(b, _mm256_sub_ps(d[3], _mm256_mul_ps(aa, d[1])));
    v[3] = _mm256_add_ps(even, odd);
    v[4] = _mm256_sub_ps(even, odd);
    v[0] = _mm256_fnmadd_ps(both, d[2], _mm256_add_ps(d[0], d[4]));
    v[5] = _mm256_fnmadd_ps(both, d[3], _mm256_add_ps(d[1], d[5]));
}

/* The channels of one pass over a run: 8 · vectors from channel `first`. */
struct channels {
    size_t first;
    unsigned vectors;
    bool whole;
    __m256i lanes;
};

/* Vertical transform of `n` columns. `p`: the source at the window's first column, row `row0`, of whose rows `present` exist.
 */
WINO4_INLINE void input_columns(const float *p, ptrdiff_t row0, size_t row, size_t pixel, size_t n, const struct channels *c,
                                unsigned present, float *to)
{
    for (size_t x = 0; x < n; x++, p += pixel, to += WINO4_POINTS * WINO4_PANEL)
        for (unsigned k = 0; k < c->vectors; k++) {
            __m256 d[6], v[6];
            WINO4_UNROLL
            for (ptrdiff_t i = 0; i < 6; i++)
                d[i] = present >> i & 1 ? load_lanes(p + (row0 + i) * (ptrdiff_t)row + 8 * k, c->whole, c->lanes)
                                        : _mm256_setzero_ps();
            input_1d(d, v);
            WINO4_UNROLL
            for (size_t i = 0; i < 6; i++)
                _mm256_storeu_ps(to + i * WINO4_PANEL + 8 * k, v[i]);
        }
}

/* Horizontal transform of `n` tiles to frequencies `pitch` apart, tiles `stride` apart. */
WINO4_INLINE void input_rows(const float *columns, size_t n, unsigned vectors, float *v, size_t pitch, size_t stride)
{
    for (size_t t = 0; t < n; t++, v += stride, columns += 4 * WINO4_POINTS * WINO4_PANEL)
        WINO4_UNROLL
    for (size_t i = 0; i < 6; i++)
        for (unsigned k = 0; k < vectors; k++) {
            __m256 d[6], out[6];
            WINO4_UNROLL
            for (size_t j = 0; j < 6; j++)
                d[j] = _mm256_loadu_ps(columns + (j * WINO4_POINTS + i) * WINO4_PANEL + 8 * k);
            input_1d(d, out);
            WINO4_UNROLL
            for (size_t j = 0; j < 6; j++)
                _mm256_storeu_ps(v + (6 * i + j) * pitch + 8 * k, out[j]);
        }
}

WINO4_INLINE void input_zero_columns(size_t n, float *to)
{
    for (size_t i = 0; i < n * WINO4_POINTS * WINO4_PANEL; i += 8)
        _mm256_storeu_ps(to + i, _mm256_setzero_ps());
}

/* One run of tiles to v, 8 · vectors channels. Constants: `pixel`, `pitch`, `stride`, most of `c`. */
WINO4_INLINE void input_run(const struct conv_source *s, const struct wino4_run *r, const struct channels *c, size_t pixel,
                            float *columns, float *v, size_t pitch, size_t stride)
{
    const ptrdiff_t y = (ptrdiff_t)r->y - (ptrdiff_t)s->top, x = (ptrdiff_t)r->x - (ptrdiff_t)s->left;
    const ptrdiff_t h = (ptrdiff_t)s->h, w = (ptrdiff_t)s->w, n = (ptrdiff_t)(4 * r->count + 2);
    ptrdiff_t from = x < 0 ? -x : 0, to = w - x < n ? w - x : n;
    unsigned present = 0;
    for (ptrdiff_t i = 0; i < 6; i++)
        present |= (unsigned)(y + i >= 0 && y + i < h) << i;
    if (to < from || present == 0)
        to = from = from < n ? from : n;
    if (from > 0)
        input_zero_columns((size_t)from, columns);
    if (to < n)
        input_zero_columns((size_t)(n - to), columns + (size_t)to * WINO4_POINTS * WINO4_PANEL);
    if (to > from) {
        const float *p = s->data + r->image * s->strides.image + (size_t)(x + from) * pixel + c->first;
        float *first = columns + (size_t)from * WINO4_POINTS * WINO4_PANEL;
        size_t count = (size_t)(to - from);
        if (!c->whole)
            input_columns(p, y, s->strides.row, pixel, count, c, present, first);
        else if (present == ALL_ROWS)
            input_columns(p, y, s->strides.row, pixel, count, c, ALL_ROWS, first);
        else if (present == (ALL_ROWS & ~1u)) /* the padding above… */
            input_columns(p, y, s->strides.row, pixel, count, c, ALL_ROWS & ~1u, first);
        else if (present == ALL_ROWS >> 1) /* …and below */
            input_columns(p, y, s->strides.row, pixel, count, c, ALL_ROWS >> 1, first);
        else
            input_columns(p, y, s->strides.row, pixel, count, c, present, first);
    }
    input_rows(columns, r->count, c->vectors, v + c->first, pitch, stride);
}

/* Tiles `at`…`end` to v[36][tile][stride], zeros after channel ci. `fast`: ci is a multiple of 16 and the pixels lie ci apart.
 */
WINO4_INLINE void input_block(const struct conv_source *s, const struct wino4_grid *g, size_t at, size_t end, size_t ci,
                              bool fast, float *columns, float *v, size_t pitch)
{
    const size_t stride = wino4_round(ci, 8), step = fast ? 16 : 8;
    while (at < end) {
        struct wino4_run r = wino4_run_at(g, at, end);
        for (size_t c = 0; c < ci; c += step) {
            struct channels part = {.first = c, .vectors = fast ? 2 : 1, .whole = fast, .lanes = first_lanes(ci - c)};
            input_run(s, &r, &part, fast ? ci : s->strides.pixel, columns, v, pitch, stride);
        }
        at += r.count;
        v += r.count * stride;
    }
}

#endif
