/* i8_gemm_avx2.c: convolutions of any shape, and dense layers, as a product of windows and weights.
 *
 * A window is a list of runs of bytes: one per kernel row, since its pixels lie side by side, or one per tap with dilation or groups.
 * Runs are padded to multiples of 4 with weights of 0. Tiles are 6 pixels × 16 output channels.
 *   gemm7: vpmaddubsw, exact because a pair of products of weights up to 64 fits 16 bits (255 · 64 · 2 < 32768).
 *   gemm8: even and odd bytes as 16-bit integers, vpmaddwd: exact for every weight.
 * Packed weights: [group][panel of 16][run][step of 4 inputs][64 bytes]. */
#include "quant/kernels/i8_avx2.h"
#include "quant/kernels/i8_rows.h"

#define TILE         6
#define PANEL        16
#define BLOCK        96             /* pixels whose windows stay in the cache while the panels go by; a multiple of TILE */
#define EXACT_WEIGHT 64

/* ---- Packing ---- */

struct runs {
    size_t count, bytes, steps; /* steps of 4 inputs per run */
    size_t ci, co, panels;      /* of one group */
};

static struct runs runs_of(const struct i8_shape *s)
{
    bool rows = s->dilation == 1 && s->groups == 1;
    struct runs r = {.count = rows ? s->size : s->size * s->size, .ci = s->ci / s->groups, .co = s->co / s->groups};
    r.bytes = rows ? s->size * s->ci : r.ci;
    r.steps = (r.bytes + 3) / 4;
    r.panels = (r.co + PANEL - 1) / PANEL;
    return r;
}

static size_t weights_bytes(const struct i8_shape *s)
{
    struct runs r = runs_of(s);
    return s->groups * r.panels * r.count * r.steps * 64;
}

/* The weight of byte `k` of run `run` for output channel `o` of a group. */
static int8_t weight_at(const struct i8_shape *s, const struct runs *r, const int8_t *kernel, size_t group, size_t run, size_t k, size_t o)
{
    return k < r->bytes && o < r->co ? kernel[(run * r->bytes + k) * s->co + group * r->co + o] : 0;
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias, bool pairs)
{
    struct runs r = runs_of(s);
    int8_t *to = ret;
    i8_fold_zero(s, kernel, in_zero, bias);
    for (size_t g = 0; g < s->groups; g++)
        for (size_t panel = 0; panel < r.panels; panel++)
            for (size_t run = 0; run < r.count; run++)
                for (size_t step = 0; step < r.steps; step++, to += 64)
                    for (size_t o = 0; o < PANEL; o++)
                        for (size_t k = 0; k < 4; k++)
                            to[pairs ? k % 2 * 32 + o * 2 + k / 2 : o * 4 + k] =
                                weight_at(s, &r, kernel, g, run, step * 4 + k, panel * PANEL + o);
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

static inline __attribute__((always_inline)) void tile7(const uint8_t *const *pixel, const struct runs *r, const size_t *offsets,
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

static inline __attribute__((always_inline)) void tile8(const uint8_t *const *pixel, const struct runs *r, const size_t *offsets,
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

struct block {
    const struct i8_job *job;
    struct runs runs;
    const size_t *offsets;
    const uint8_t *pixel[BLOCK + TILE];
    size_t at, count; /* output pixels */
};

static inline __attribute__((always_inline)) void run_block(struct block *b, bool eight)
{
    const struct i8_job *j = b->job;
    const struct runs *r = &b->runs;
    const struct i8_ending e = i8_ending_of(j);
    size_t panel_bytes = r->count * r->steps * 64;
    for (size_t m = 0; m < TILE; m++)
        b->pixel[b->count + m] = b->pixel[b->count - 1]; /* computed and not stored */
    for (size_t g = 0; g < j->shape.groups; g++) {
        for (size_t panel = 0; panel < r->panels; panel++) {
            const int8_t *w = (const int8_t *)j->weights + (g * r->panels + panel) * panel_bytes;
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
        for (size_t m = 0; j->shape.groups > 1 && m < b->count + TILE; m++)
            b->pixel[m] += r->ci;
    }
    b->at += b->count;
    b->count = 0;
}

static void run_block7(struct block *b)
{
    run_block(b, false);
}

static void run_block8(struct block *b)
{
    run_block(b, true);
}

/* All pixels of the job's rows of an image whose pixels begin at `from`, `width` in a row. */
static void run_rows(struct block *b, const uint8_t *from, size_t width, size_t rows, size_t w, void (*run)(struct block *))
{
    const struct i8_shape *s = &b->job->shape;
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < w; x++) {
            b->pixel[b->count++] = from + (y * s->stride * width + x * s->stride) * s->ci;
            if (b->count == BLOCK)
                run(b);
        }
    if (b->count)
        run(b);
}

static size_t offsets_bytes(const struct i8_shape *s)
{
    return (runs_of(s).count * sizeof(size_t) + 63) / 64 * 64;
}

static size_t scratch_bytes(const struct i8_job *j)
{
    return offsets_bytes(&j->shape) + (i8_is_padded(j) ? i8_padded_bytes(j) : 0);
}

static void conv(const struct i8_job *j, void *scratch, void (*run)(struct block *))
{
    const struct i8_shape *s = &j->shape;
    struct block b = {.job = j, .runs = runs_of(s), .offsets = scratch};
    bool padded = i8_is_padded(j);
    size_t *offsets = scratch, width = padded ? i8_rows_read(s, j->w) : j->in_w, rows = j->row_end - j->row;
    uint8_t *strip = (uint8_t *)scratch + offsets_bytes(s);
    for (size_t i = 0; i < b.runs.count; i++)
        offsets[i] = b.runs.count == s->size ? i * width * s->ci : (i / s->size * width + i % s->size) * s->dilation * s->ci;
    if (s->size == 1 && s->stride == 1 && !padded && rows == j->h) { /* all pixels are one row */
        run_rows(&b, j->in, 0, 1, j->images * j->h * j->w, run);
        return;
    }
    for (size_t n = 0; n < j->images && rows; n++) {
        const uint8_t *image = j->in + n * j->in_h * j->in_w * s->ci;
        b.at = (n * j->h + j->row) * j->w;
        if (padded)
            i8_pad(j, image, strip);
        run_rows(&b, padded ? strip : image + j->row * s->stride * width * s->ci, width, rows, j->w, run);
    }
}

static void conv7(const struct i8_job *j, void *scratch)
{
    conv(j, scratch, run_block7);
}

static void conv8(const struct i8_job *j, void *scratch)
{
    conv(j, scratch, run_block8);
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
                                        .scratch_bytes = scratch_bytes,
                                        .pack = pack7,
                                        .conv = conv7};
const struct i8_kernel i8_gemm8_avx2 = {.name = "product of 16-bit pairs",
                                        .takes = takes8,
                                        .weights_bytes = weights_bytes,
                                        .scratch_bytes = scratch_bytes,
                                        .pack = pack8,
                                        .conv = conv8};
