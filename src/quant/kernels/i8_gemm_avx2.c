/* i8_gemm_avx2.c: convolutions of any shape, and dense layers, as a product of windows and weights.
 *
 * Windows are lists of runs (i8_gemm.h). Tiles are 6 pixels × 16 output channels.
 *   gemm7: vpmaddubsw, exact because a pair of products of weights up to 64 fits 16 bits (255 · 64 · 2 < 32768).
 *   gemm8: even and odd bytes as 16-bit integers, vpmaddwd: exact for every weight.
 * Packed weights: [group][panel of 16][run][step of 4 inputs][64 bytes]. */
#include "quant/kernels/i8_avx2.h"
#include "quant/kernels/i8_gemm.h"

#define TILE         6
#define PANEL        16
#define EXACT_WEIGHT 64

/* ---- Packing ---- */

static size_t panels(const struct i8_runs *r)
{
    return (r->co + PANEL - 1) / PANEL;
}

static size_t weights_bytes(const struct i8_shape *s)
{
    struct i8_runs r = i8_runs_of(s);
    return s->groups * panels(&r) * r.count * r.steps * 64;
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias, bool pairs)
{
    struct i8_runs r = i8_runs_of(s);
    int8_t *to = ret;
    i8_fold_zero(s, kernel, in_zero, bias);
    for (size_t g = 0; g < s->groups; g++)
        for (size_t panel = 0; panel < panels(&r); panel++)
            for (size_t run = 0; run < r.count; run++)
                for (size_t step = 0; step < r.steps; step++, to += 64)
                    for (size_t o = 0; o < PANEL; o++)
                        for (size_t k = 0; k < 4; k++)
                            to[pairs ? k % 2 * 32 + o * 2 + k / 2 : o * 4 + k] =
                                i8_weight_at(s, &r, kernel, g, run, step * 4 + k, panel * PANEL + o);
}

static void pack7(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    pack(s, kernel, in_zero, ret, bias, false);
}

static void pack8(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    pack(s, kernel, in_zero, ret, bias, true);
}

/* ---- Tiles ---- */

static inline __m256i spread(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof(four));
    return _mm256_set1_epi32(four);
}

static inline __attribute__((always_inline)) void tile7(const uint8_t *const *pixel, const struct i8_runs *r, const size_t *offsets,
                                                         const int8_t *w, __m256i acc[2 * TILE])
{
    const __m256i ones = _mm256_set1_epi16(1);
    for (size_t run = 0; run < r->count; run++) {
        size_t at = offsets[run];
        for (size_t step = 0; step < r->steps; step++, at += 4, w += 64) {
            __m256i w0 = _mm256_load_si256((const void *)w), w1 = _mm256_load_si256((const void *)(w + 32));
#pragma GCC unroll 6
            for (int m = 0; m < TILE; m++) {
                __m256i x = spread(pixel[m] + at);
                acc[2 * m] = _mm256_add_epi32(acc[2 * m], _mm256_madd_epi16(_mm256_maddubs_epi16(x, w0), ones));
                acc[2 * m + 1] = _mm256_add_epi32(acc[2 * m + 1], _mm256_madd_epi16(_mm256_maddubs_epi16(x, w1), ones));
            }
        }
    }
}

static inline __attribute__((always_inline)) void tile8(const uint8_t *const *pixel, const struct i8_runs *r, const size_t *offsets,
                                                         const int8_t *w, __m256i acc[2 * TILE])
{
    const __m256i even = _mm256_set1_epi32(0x00ff00ff);
    for (size_t run = 0; run < r->count; run++) {
        size_t at = offsets[run];
        for (size_t step = 0; step < r->steps; step++, at += 4, w += 64) {
            __m256i w0 = _mm256_cvtepi8_epi16(_mm_load_si128((const void *)w)), w1 = _mm256_cvtepi8_epi16(_mm_load_si128((const void *)(w + 16)));
#pragma GCC unroll 6
            for (int m = 0; m < TILE; m++) {
                __m256i x = _mm256_and_si256(spread(pixel[m] + at), even);
                acc[2 * m] = _mm256_add_epi32(acc[2 * m], _mm256_madd_epi16(x, w0));
                acc[2 * m + 1] = _mm256_add_epi32(acc[2 * m + 1], _mm256_madd_epi16(x, w1));
            }
            w0 = _mm256_cvtepi8_epi16(_mm_load_si128((const void *)(w + 32)));
            w1 = _mm256_cvtepi8_epi16(_mm_load_si128((const void *)(w + 48)));
#pragma GCC unroll 6
            for (int m = 0; m < TILE; m++) {
                __m256i x = _mm256_srli_epi16(spread(pixel[m] + at), 8);
                acc[2 * m] = _mm256_add_epi32(acc[2 * m], _mm256_madd_epi16(x, w0));
                acc[2 * m + 1] = _mm256_add_epi32(acc[2 * m + 1], _mm256_madd_epi16(x, w1));
            }
        }
    }
}

/* ---- Blocks of pixels ---- */

static inline __attribute__((always_inline)) void run_block(struct i8_block *b, bool eight)
{
    const struct i8_job *j = b->job;
    const struct i8_runs *r = &b->runs;
    const struct i8_ending e = i8_ending_of(j);
    size_t panel_bytes = r->count * r->steps * 64;
    for (size_t g = 0; g < j->shape.groups; g++) {
        for (size_t panel = 0; panel < panels(r); panel++) {
            const int8_t *w = (const int8_t *)j->weights + (g * panels(r) + panel) * panel_bytes;
            size_t o = g * r->co + panel * PANEL, left = r->co - panel * PANEL, columns = left < PANEL ? left : PANEL;
            for (size_t p = 0; p < b->count; p += TILE) {
                __m256i acc[2 * TILE];
                for (int i = 0; i < 2 * TILE; i++)
                    acc[i] = i8_bias(&e, o + (size_t)(i % 2) * 8);
                if (eight)
                    tile8(b->pixel + p, r, b->offsets, w, acc);
                else
                    tile7(b->pixel + p, r, b->offsets, w, acc);
                if (p + TILE <= b->count && columns == PANEL) {
#pragma GCC unroll 6
                    for (size_t m = 0; m < TILE; m++)
                        i8_store(&e, acc[2 * m], acc[2 * m + 1], b->at + p + m, o, PANEL);
                    continue;
                }
                for (size_t m = 0; m < TILE && p + m < b->count; m++)
                    i8_store(&e, acc[2 * m], acc[2 * m + 1], b->at + p + m, o, columns);
            }
        }
        i8_next_group(b);
    }
}

static void run_block7(struct i8_block *b)
{
    run_block(b, false);
}

static void run_block8(struct i8_block *b)
{
    run_block(b, true);
}

static void conv7(const struct i8_job *j, void *scratch)
{
    i8_gemm(j, scratch, run_block7);
}

static void conv8(const struct i8_job *j, void *scratch)
{
    i8_gemm(j, scratch, run_block8);
}

static bool takes8(const struct i8_shape *s)
{
    return !s->depthwise;
}

static bool takes7(const struct i8_shape *s)
{
    return takes8(s) && s->most <= EXACT_WEIGHT;
}

const struct i8_kernel i8_gemm7_avx2 = {.name = "product of 8-bit pairs",
                                        .takes = takes7,
                                        .weights_bytes = weights_bytes,
                                        .scratch_bytes = i8_gemm_scratch,
                                        .pack = pack7,
                                        .conv = conv7};
const struct i8_kernel i8_gemm8_avx2 = {.name = "product of 16-bit pairs",
                                        .takes = takes8,
                                        .weights_bytes = weights_bytes,
                                        .scratch_bytes = i8_gemm_scratch,
                                        .pack = pack8,
                                        .conv = conv8};
