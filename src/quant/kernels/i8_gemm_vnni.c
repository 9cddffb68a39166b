/* i8_gemm_vnni.c: convolutions of any shape, and dense layers, by vpdpbusd: four products of a byte and a weight in 32 bits,
 * exact for every weight.
 *
 * Windows are lists of runs (i8_gemm.h). A panel is 16 to 64 output channels: 1 to 4 vectors. A tile is some pixels of a panel,
 * 24 vectors of sums; what is left of a block takes a smaller tile. Packed weights: [group][panel][run][step of 4
 * inputs][vector][64 bytes]. */
#include "quant/kernels/i8_avx512.h"
#include "quant/kernels/i8_gemm.h"

#define LANES  16
#define WIDEST 4
#define SHORT  96 /* steps, whose weights for 64 channels stay in a first-level cache; panels of more have 32 channels */
#define SUMS   24
#define INLINE static inline __attribute__((always_inline))

/* ---- Packing ---- */

/* Vectors of the panel that begins at channel `o` of a group. */
static size_t vectors_at(const struct i8_runs *r, size_t o)
{
    size_t left = (r->co - o + LANES - 1) / LANES, most = r->count * r->steps <= SHORT ? WIDEST : WIDEST / 2;
    return left < most ? left : most;
}

static size_t vector_bytes(const struct i8_runs *r)
{
    return r->count * r->steps * 64;
}

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

INLINE __m512i spread(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
}

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
        for (; left > 0; left--, at += 4, w += 64 * vectors)
            sum_steps(pixel, at, w, acc, tile, vectors, 1);
    }
}

/* ---- Results of a tile ---- */

/* A panel of output channels. */
struct panel {
    const int32_t *bias;
    const float *factors;
    const int8_t *weights;
    uint8_t *out; /* of the job's first pixel; NULL: floats */
    float *out_real;
    size_t co, channels; /* channels of a pixel; of the panel */
    struct i8_range512 range;
    __m512 least, most;
};

/* The bytes of pixels in order; `whole`: all are stored, with all of their channels. */
INLINE void store_bytes(const struct panel *p, __m512i q, uint8_t *to, size_t pixels, const int vectors, bool whole)
{
    const int bytes = vectors * LANES;
    if (whole && (vectors == 4 || (vectors < 3 && p->co == (size_t)bytes))) {
        _mm512_storeu_si512(to, q);
    } else if (whole && vectors == 2) {
        _mm256_storeu_si256((void *)to, _mm512_castsi512_si256(q));
        _mm256_storeu_si256((void *)(to + p->co), _mm512_extracti64x4_epi64(q, 1));
    } else if (whole && vectors == 1) {
        _mm_storeu_si128((void *)to, _mm512_castsi512_si128(q));
        _mm_storeu_si128((void *)(to + p->co), _mm512_extracti32x4_epi32(q, 1));
        _mm_storeu_si128((void *)(to + 2 * p->co), _mm512_extracti32x4_epi32(q, 2));
        _mm_storeu_si128((void *)(to + 3 * p->co), _mm512_extracti32x4_epi32(q, 3));
    } else {
        __mmask64 mask = ~(__mmask64)0 >> (64 - p->channels);
        for (size_t i = 0; i < pixels; i++) /* the bytes of pixel i, where they are in the vector */
            _mm512_mask_storeu_epi8(to + i * p->co - i * (size_t)bytes, mask << (i * (size_t)bytes), q);
    }
}

INLINE void finish_bytes(const struct panel *p, const __m512i *acc, size_t at, size_t count, const int tile, const int vectors,
                         bool whole)
{
    const int together = vectors == 3 ? 1 : WIDEST / vectors; /* pixels of 64 bytes */
    const struct i8_range512 range = p->range;
#pragma GCC unroll 24
    for (int m = 0; m < tile; m += together) {
        __m512i s[WIDEST];
#pragma GCC unroll 4
        for (int i = 0; i < WIDEST; i++)
            s[i] = i < together * vectors ? i8_scale512(acc[m * vectors + i], _mm512_loadu_ps(p->factors + i % vectors * LANES))
                                          : _mm512_setzero_si512();
        __m512i q = i8_in_order(i8_bytes512(&range, s[0], s[1], s[2], s[3]));
        size_t left = whole ? (size_t)together : (size_t)m < count ? count - (size_t)m : 0;
        store_bytes(p, q, p->out + (at + (size_t)m) * p->co, left < (size_t)together ? left : (size_t)together, vectors, whole);
    }
}

static void finish_reals(const struct panel *p, const __m512i *acc, size_t at, size_t count, size_t vectors)
{
    for (size_t m = 0; m < count; m++)
        for (size_t v = 0; v < vectors; v++) {
            size_t left = p->channels - v * LANES;
            __mmask16 mask = (__mmask16)(left < LANES ? (1u << left) - 1 : 0xffff);
            __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[m * vectors + v]), _mm512_loadu_ps(p->factors + v * LANES));
            x = _mm512_min_ps(_mm512_max_ps(x, p->least), p->most);
            _mm512_mask_storeu_ps(p->out_real + (at + m) * p->co + v * LANES, mask, x);
        }
}

INLINE void run_tile(const struct i8_block *b, const struct panel *p, size_t first, size_t count, const int tile,
                     const int vectors)
{
    __m512i acc[SUMS];
#pragma GCC unroll 24
    for (int i = 0; i < tile * vectors; i++)
        acc[i] = _mm512_loadu_si512(p->bias + i % vectors * LANES);
    sum_tile(b, first, p->weights, acc, tile, vectors);
    if (!p->out) {
        __m512i copy[SUMS]; /* `acc` stays in registers */
#pragma GCC unroll 24
        for (int i = 0; i < tile * vectors; i++)
            copy[i] = acc[i];
        finish_reals(p, copy, b->at + first, count, (size_t)vectors);
    } else if (count == (size_t)tile && p->channels == (size_t)vectors * LANES) {
        finish_bytes(p, acc, b->at + first, count, tile, vectors, true);
    } else {
        finish_bytes(p, acc, b->at + first, count, tile, vectors, false);
    }
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
    struct panel p = {.co = j->shape.co,
                      .range = i8_range512_of(j->zero, j->low, j->high),
                      .least = _mm512_set1_ps(j->least),
                      .most = _mm512_set1_ps(j->most)};
    for (size_t g = 0; g < j->shape.groups; g++) {
        for (size_t o = 0, vectors; o < b->runs.co; o += vectors * LANES, w += vectors * vector_bytes(&b->runs)) {
            size_t at = g * b->runs.co + o, left = b->runs.co - o;
            vectors = vectors_at(&b->runs, o);
            p.channels = left < vectors * LANES ? left : vectors * LANES;
            p.weights = w;
            p.bias = j->bias + at;
            p.factors = j->factors + at;
            p.out = j->out ? j->out + at : NULL;
            p.out_real = j->out ? NULL : j->out_real + at;
            run[vectors - 1](b, &p);
        }
        i8_next_group(b);
    }
}

static void conv(const struct i8_job *j, void *scratch)
{
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
