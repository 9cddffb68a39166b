/* i8_gemm_vnni.h: panels of weights, and results, of the products by vpdpbusd: four products of a byte and a weight in 32 bits,
 * exact for every weight.
 *
 * A panel is 16 to 64 output channels: 1 to 4 vectors. Packed weights: [group][panel][run][step of 4 inputs][vector][64 bytes];
 * i8_gemm.h says what runs are. A tile is some pixels of a panel. */
#ifndef QUANT_KERNELS_I8_GEMM_VNNI_H
#define QUANT_KERNELS_I8_GEMM_VNNI_H

#include "quant/kernels/i8_avx512.h"
#include "quant/kernels/i8_gemm.h"

#define LANES  16
#define WIDEST 4
#define SHORT  96 /* steps, whose weights for 64 channels stay in a first-level cache; panels of more have 32 channels */
#define SUMS   24 /* the most vectors of a tile */
#define INLINE static inline __attribute__((always_inline))

/* Vectors of the panel that begins at channel `o` of a group. */
static inline size_t vectors_at(const struct i8_runs *r, size_t o)
{
    size_t left = (r->co - o + LANES - 1) / LANES, most = r->count * r->steps <= SHORT ? WIDEST : WIDEST / 2;
    return left < most ? left : most;
}

static inline size_t vector_bytes(const struct i8_runs *r)
{
    return r->count * r->steps * 64;
}

INLINE __m512i spread(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* A panel of output channels. */
struct panel {
    const int32_t *bias;
    const float *factors;
    const int8_t *weights;
    uint8_t *out; /* of the job's first pixel; NULL: floats */
    float *out_real;
    size_t co, channels; /* channels of a pixel; of the panel */
    size_t vectors;
    struct i8_range512 range;
    __m512 least, most;
};

static inline struct panel panel_of(const struct i8_job *j)
{
    return (struct panel){.co = j->shape.co,
                          .range = i8_range512_of(j->zero, j->low, j->high),
                          .least = _mm512_set1_ps(j->least),
                          .most = _mm512_set1_ps(j->most)};
}

/* Makes `p` the panel from channel `o` of a group on, whose weights begin at `w`; returns where the next one's begin. */
static inline const int8_t *set_panel(struct panel *p, const struct i8_job *j, const struct i8_runs *r, size_t group, size_t o,
                                      const int8_t *w)
{
    size_t at = group * r->co + o, left = r->co - o;
    p->vectors = vectors_at(r, o);
    p->channels = left < p->vectors * LANES ? left : p->vectors * LANES;
    p->weights = w;
    p->bias = j->bias + at;
    p->factors = j->factors + at;
    p->out = j->out ? j->out + at : NULL;
    p->out_real = j->out ? NULL : j->out_real + at;
    return w + p->vectors * vector_bytes(r);
}

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

static __attribute__((noinline)) void finish_reals(const struct panel *p, const __m512i *acc, size_t at, size_t count,
                                                   size_t vectors)
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

INLINE void begin_tile(const struct panel *p, __m512i *acc, const int tile, const int vectors)
{
#pragma GCC unroll 24
    for (int i = 0; i < tile * vectors; i++)
        acc[i] = _mm512_loadu_si512(p->bias + i % vectors * LANES);
}

/* Stores the first `count` pixels of a tile, from output pixel `at` on. */
INLINE void finish_tile(const struct panel *p, const __m512i *acc, size_t at, size_t count, const int tile, const int vectors)
{
    if (!p->out) {
        __m512i copy[SUMS]; /* `acc` stays in registers */
#pragma GCC unroll 24
        for (int i = 0; i < tile * vectors; i++)
            copy[i] = acc[i];
        finish_reals(p, copy, at, count, (size_t)vectors);
    } else if (count == (size_t)tile && p->channels == (size_t)vectors * LANES) {
        finish_bytes(p, acc, at, count, tile, vectors, true);
    } else {
        finish_bytes(p, acc, at, count, tile, vectors, false);
    }
}

/* Whether rows of pixels side by side serve (i8_strips_vnni.c), and the job by them. */
bool i8_takes_strips(const struct i8_job *j);
void i8_run_strips(const struct i8_job *j, void *scratch);

#endif
