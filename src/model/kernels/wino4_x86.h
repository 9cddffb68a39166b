/* wino4_x86.h: what the files of wino4 share that are compiled for AVX2 and for AVX-512: products of matrices, the input
 * transform. */
#ifndef MODEL_KERNELS_WINO4_X86_H
#define MODEL_KERNELS_WINO4_X86_H

#include "model/kernels/vector_x86.h"
#include "model/kernels/wino4_blocks.h"

#define ALL_ROWS 0x3fu               /* of a window of 6 */
#define PARTS    (WINO4_PANEL / VEC) /* vectors of a panel */

/* Fills in what f32_wino4_gradient_x86.c provides. */
void VEC_NAME(wino4_kernels_init_gradient)(struct wino4_kernels *k);

/* ---- Products of one frequency: out[rows][16] (+)= a[rows][n] · b[n][16] ---- */

#define PANELS   (VEC == 16 ? 2 : 1)   /* multiplied together, at most: `a` is read once for both */
#define MOST_ROWS (VEC == 16 ? 16 : 6) /* multiplied together with one panel: their sums are in registers */

/* The shape of such a product. All but `count` are constants. */
struct frequency {
    size_t step, next;   /* floats from one row of `a` to the next, from one column to the next */
    size_t n;            /* columns of `a`, rows of `b`; constant where it can be */
    size_t panels;       /* of `b` and `out`… */
    size_t b_apart, out_apart; /* …and how far apart they lie */
    bool add;
    size_t count;        /* rows of `a` */
};

/* How many of `left` rows to multiply next: no last tile of few rows, whose additions would wait for each other. */
WINO4_INLINE size_t next_rows(size_t left, size_t panels)
{
    if (VEC == 16 && panels == 1 && (left >= 24 || left == 16))
        return 16;
    if (VEC == 16)
        return left >= 12 ? 8 : left > 8 ? (left + 1) / 2 : left;
    return left >= 12 || left == 10 || left == 11 ? 6 : left == 9 ? 5 : left == 8 || left == 7 ? 4 : left;
}

/* Step `k` of the sum. The first one multiplies: sums that start from one zeroed register are slower. */
WINO4_INLINE void frequency_step(const struct frequency *p, const float *a, const float *b, size_t k, size_t rows, vec acc[MOST_ROWS][2])
{
    const size_t vectors = PARTS * p->panels;
    vec with[2];
    for (size_t i = 0; i < vectors; i++)
        with[i] = vec_load(b + k * WINO4_PANEL + i / PARTS * p->b_apart + i % PARTS * VEC);
    if (VEC == 16 && rows >= 8) /* what follows: rows below, or columns to the right */
        _mm_prefetch((const char *)(p->next == 1 ? a + rows * (p->step + k) : a + (k + 8) * p->next), _MM_HINT_T0);
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++) {
        vec x = vec_set(a[i * p->step + k * p->next]);
        for (size_t j = 0; j < vectors; j++)
            acc[i][j] = k == 0 ? vec_mul(x, with[j]) : vec_fma(x, with[j], acc[i][j]);
    }
}

WINO4_INLINE void frequency_rows(const struct frequency *p, const float *a, const float *b, float *out, size_t rows)
{
    vec acc[MOST_ROWS][2];
    frequency_step(p, a, b, 0, rows, acc);
    if (VEC == 8 && p->n == 16) {
#pragma GCC unroll 15
        for (size_t k = 1; k < 16; k++)
            frequency_step(p, a, b, k, rows, acc);
    } else {
#pragma GCC unroll 3
        for (size_t k = 1; k < p->n; k++)
            frequency_step(p, a, b, k, rows, acc);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < PARTS * p->panels; j++) {
            float *to = out + WINO4_PANEL * i + j / PARTS * p->out_apart + j % PARTS * VEC;
            vec_store(to, p->add ? vec_add(vec_load(to), acc[i][j]) : acc[i][j]);
        }
}

WINO4_INLINE void frequency_multiply(const struct frequency *p, const float *a, const float *b, float *out)
{
#define ROWS(rows)                                                                                                             \
    case rows:                                                                                                                 \
        frequency_rows(p, a, b, out, rows);                                                                                      \
        break;
    for (size_t left = p->count; left > 0;) {
        size_t rows = next_rows(left, p->panels);
        switch (rows) {
#if VEC == 16
            ROWS(16)
            ROWS(8)
            ROWS(7)
#endif
            ROWS(6)
            ROWS(5)
            ROWS(4)
            ROWS(3)
            ROWS(2)
        default:
            frequency_rows(p, a, b, out, 1);
        }
        left -= rows;
        a += rows * p->step;
        out += rows * WINO4_PANEL;
    }
#undef ROWS
}

/* ---- The input's transform ---- */

/* Few fused operations: on Zen they share ports with stores, of which the transforms are full (9.1 cycles, now 6.3; 6 stores).
 */
WINO4_INLINE void input_1d(const vec d[6], vec v[6])
{
    const vec a = vec_set(WINO4_A), b = vec_set(WINO4_B), aa = vec_set(WINO4_AA);
    const vec bb = vec_set(WINO4_BB), both = vec_set(WINO4_AA_BB);
    vec even = vec_sub(d[4], vec_mul(bb, d[2]));
    vec odd = vec_mul(a, vec_sub(d[3], vec_mul(bb, d[1])));
    v[1] = vec_add(even, odd);
    v[2] = vec_sub(even, odd);
    even = vec_sub(d[4], vec_mul(aa, d[2]));
    odd = vec_mul(b, vec_sub(d[3], vec_mul(aa, d[1])));
    v[3] = vec_add(even, odd);
    v[4] = vec_sub(even, odd);
    v[0] = vec_fnma(both, d[2], vec_add(d[0], d[4]));
    v[5] = vec_fnma(both, d[3], vec_add(d[1], d[5]));
}

/* The channels of one pass over a run: VEC · vectors from channel `first`. */
struct channels {
    size_t first;
    unsigned vectors;
    bool whole;
    vec_lanes lanes;
};

/* Vertical transform of `n` columns. `p`: the source at the window's first column, row `row0`, of whose rows `present` exist.
 */
WINO4_INLINE void input_columns(const float *p, ptrdiff_t row0, size_t row, size_t pixel, size_t n, const struct channels *c,
                                unsigned present, float *to)
{
    for (size_t x = 0; x < n; x++, p += pixel, to += WINO4_POINTS * WINO4_PANEL)
        for (unsigned k = 0; k < c->vectors; k++) {
            vec d[6], v[6];
            WINO4_UNROLL
            for (ptrdiff_t i = 0; i < 6; i++)
                d[i] = present >> i & 1 ? vec_load_lanes(p + (row0 + i) * (ptrdiff_t)row + VEC * k, c->whole, c->lanes)
                                        : vec_zero();
            input_1d(d, v);
            WINO4_UNROLL
            for (size_t i = 0; i < 6; i++)
                vec_store(to + i * WINO4_PANEL + VEC * k, v[i]);
        }
}

/* Horizontal transform of `n` tiles to frequencies `pitch` apart, tiles `stride` apart. */
WINO4_INLINE void input_rows(const float *columns, size_t n, unsigned vectors, float *v, size_t pitch, size_t stride)
{
    for (size_t t = 0; t < n; t++, v += stride, columns += 4 * WINO4_POINTS * WINO4_PANEL)
        WINO4_UNROLL
    for (size_t i = 0; i < 6; i++)
        for (unsigned k = 0; k < vectors; k++) {
            vec d[6], out[6];
            WINO4_UNROLL
            for (size_t j = 0; j < 6; j++)
                d[j] = vec_load(columns + (j * WINO4_POINTS + i) * WINO4_PANEL + VEC * k);
            input_1d(d, out);
            WINO4_UNROLL
            for (size_t j = 0; j < 6; j++)
                vec_store(v + (6 * i + j) * pitch + VEC * k, out[j]);
        }
}

WINO4_INLINE void input_zero_columns(size_t n, float *to)
{
    for (size_t i = 0; i < n * WINO4_POINTS * WINO4_PANEL; i += VEC)
        vec_store(to + i, vec_zero());
}

/* One run of tiles to v, VEC · vectors channels. Constants: `pixel`, `pitch`, `stride`, most of `c`. */
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
    const size_t stride = wino4_round(ci, VEC), step = fast ? WINO4_PANEL : VEC;
    while (at < end) {
        struct wino4_run r = wino4_run_at(g, at, end);
        for (size_t c = 0; c < ci; c += step) {
            struct channels part = {.first = c, .vectors = fast ? PARTS : 1, .whole = fast, .lanes = vec_first(ci - c)};
            input_run(s, &r, &part, fast ? ci : s->strides.pixel, columns, v, pitch, stride);
        }
        at += r.count;
        v += r.count * stride;
    }
}

#endif
