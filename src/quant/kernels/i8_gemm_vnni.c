/* i8_gemm_vnni.c: convolutions of any shape, and dense layers, by vpdpbusd.
 *
 * A tile is 24 vectors of sums; what is left of a block takes a smaller one. Pixels lie anywhere: i8_strips_vnni.c is faster
 * where they lie side by side. */
#include "quant/kernels/i8_gemm_vnni.h"

/* ---- Packing ---- */

static size_t weights_bytes(const struct i8_shape *s)
{
    struct i8_runs r = i8_runs_of(s);
    return s->groups * ((r.co + LANES - 1) / LANES) * vector_bytes(&r);
}

static int8_t *pack_panel(const struct i8_shape *s, const struct i8_runs *r, const int8_t *kernel, size_t group, size_t o,
                          int8_t *to)
{
    size_t channels = vectors_at(r, o) * LANES;
    for (size_t run = 0; run < r->count; run++)
        for (size_t step = 0; step < r->steps; step++)
            for (size_t c = 0; c < channels; c++)
                for (size_t k = 0; k < 4; k++)
                    *to++ = i8_weight_at(s, r, kernel, group, run, step * 4 + k, o + c);
    return to;
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    struct i8_runs r = i8_runs_of(s);
    int8_t *to = ret;
    i8_fold_zero(s, kernel, in_zero, bias);
    for (size_t g = 0; g < s->groups; g++)
        for (size_t o = 0; o < r.co; o += vectors_at(&r, o) * LANES)
            to = pack_panel(s, &r, kernel, g, o, to);
}

/* ---- Sums of a tile: `tile` pixels × `vectors` ---- */

/* `deep` steps from byte `at` of each window on. */
INLINE void sum_steps(const uint8_t *const *pixel, size_t at, const int8_t *w, __m512i *acc, const int tile, const int vectors,
                      const int deep)
{
    __m512i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < vectors * deep; i++)
        q[i] = _mm512_load_si512(w + 64 * i);
#pragma GCC unroll 24
    for (int m = 0; m < tile; m++) {
        const uint8_t *p = pixel[m] + at;
#pragma GCC unroll 4
        for (int d = 0; d < deep; d++) {
            __m512i x = spread(p + 4 * d);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[m * vectors + v] = _mm512_dpbusd_epi32(acc[m * vectors + v], x, q[d * vectors + v]);
        }
    }
}

INLINE void sum_tile(const struct i8_block *b, size_t first, const int8_t *w, __m512i *acc, const int tile, const int vectors)
{
    const uint8_t *const *pixel = b->pixel + first;
    const int deep = WIDEST / vectors;
    for (size_t run = 0; run < b->runs.count; run++) {
        size_t at = b->offsets[run], left = b->runs.steps;
        for (; left >= (size_t)deep; left -= (size_t)deep, at += 4 * (size_t)deep, w += 64 * vectors * deep)
            sum_steps(pixel, at, w, acc, tile, vectors, deep);
        if (vectors == 1 && left == 3) { /* rows of pixels of 3 channels */
            sum_steps(pixel, at, w, acc, tile, vectors, 3);
            w += 3 * 64;
            continue;
        }
        for (; left > 0; left--, at += 4, w += 64 * vectors)
            sum_steps(pixel, at, w, acc, tile, vectors, 1);
    }
}

INLINE void run_tile(const struct i8_block *b, const struct panel *p, size_t first, size_t count, const int tile,
                     const int vectors)
{
    __m512i acc[SUMS];
    begin_tile(p, acc, tile, vectors);
    sum_tile(b, first, p->weights, acc, tile, vectors);
    finish_tile(p, acc, b->at + first, count, tile, vectors);
}

/* ---- Blocks of pixels ---- */

/* `full` pixels at a time; what is left by tiles of half as many, or of `fewest`. */
INLINE void run_panel(const struct i8_block *b, const struct panel *p, const int full, const int fewest, const int vectors)
{
    for (size_t i = 0; i < b->count;) {
        size_t left = b->count - i;
        if (left > (size_t)full / 2) {
            run_tile(b, p, i, left < (size_t)full ? left : (size_t)full, full, vectors);
            i += (size_t)full;
        } else if (left > (size_t)fewest) {
            run_tile(b, p, i, left, full / 2, vectors);
            break;
        } else {
            run_tile(b, p, i, left, fewest, vectors);
            break;
        }
    }
}

static __attribute__((noinline)) void run_panel1(const struct i8_block *b, const struct panel *p)
{
    run_panel(b, p, 24, 4, 1);
}

static __attribute__((noinline)) void run_panel2(const struct i8_block *b, const struct panel *p)
{
    run_panel(b, p, 12, 2, 2);
}

static __attribute__((noinline)) void run_panel3(const struct i8_block *b, const struct panel *p)
{
    run_panel(b, p, 8, 1, 3);
}

static __attribute__((noinline)) void run_panel4(const struct i8_block *b, const struct panel *p)
{
    run_panel(b, p, 6, 1, 4);
}

static void run_block(struct i8_block *b)
{
    static void (*const run[WIDEST])(const struct i8_block *, const struct panel *) = {run_panel1, run_panel2, run_panel3,
                                                                                       run_panel4};
    const struct i8_job *j = b->job;
    const int8_t *w = j->weights;
    struct panel p = panel_of(j);
    for (size_t g = 0; g < j->shape.groups; g++) {
        for (size_t o = 0; o < b->runs.co; o += p.vectors * LANES) {
            w = set_panel(&p, j, &b->runs, g, o, w);
            run[p.vectors - 1](b, &p);
        }
        i8_next_group(b);
    }
}

static void conv(const struct i8_job *j, void *scratch)
{
    if (i8_takes_strips(j))
        i8_run_strips(j, scratch);
    else
        i8_gemm(j, scratch, run_block);
}

static bool takes(const struct i8_shape *s)
{
    return !s->depthwise;
}

const struct i8_kernel i8_gemm_vnni = {.name = "product of 8-bit fours",
                                       .takes = takes,
                                       .weights_bytes = weights_bytes,
                                       .scratch_bytes = i8_gemm_scratch,
                                       .pack = pack,
                                       .conv = conv};
