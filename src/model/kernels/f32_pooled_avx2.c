/* f32_pooled_avx2.c: weight gradient of a 3 × 3 convolution with few input channels whose result was pooled 2 × 2.
 *
 * One of four results of a window has a gradient. For every tap the four inputs that the window's results had read are
 * broadcast as 128 bits; the argmax of each output channel picks its own (vpermilps), and one multiply-add takes the place of
 * four. Sums are laid out as f32_direct_avx2.c does: [co / 16][row, column, ci][16]. */
#include "model/kernels/direct.h"
#include "model/kernels/epilogue_avx2.h"
#include "model/kernels/rows.h"

#include <stdint.h>

#define RUN         48 /* windows */
#define MOST_INPUTS 4  /* channels */
#define ANCHORS     (2 * RUN + 1)

bool conv_pooled_takes_avx2(const struct conv_shape *s)
{
    return s->size == 3 && s->stride == 1 && !s->depthwise && s->ci <= MOST_INPUTS;
}

struct scratch {
    float gradient[RUN * GEMM_PANEL];
    int32_t argmax[RUN * GEMM_PANEL];
    float quads[3][4 * (ANCHORS * MOST_INPUTS + 4)]; /* those of row r lie in quads[r mod 3] */
    float rows[2][(ANCHORS + 1) * MOST_INPUTS + 8];
};

size_t conv_pooled_scratch_avx2(void)
{
    return sizeof(struct scratch);
}

/* For every value of row y: itself, its right neighbour, and the two below them. */
static void make_quads(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, struct scratch *s)
{
    size_t ci = j->shape.ci, width = 2 * count + 2;
    float *to = s->quads[y % 3];
    for (size_t i = 0; i < 2; i++)
        rows_copy(&j->in, image, (ptrdiff_t)(y + i) - (ptrdiff_t)j->in.top, (ptrdiff_t)(2 * x) - (ptrdiff_t)j->in.left, width, ci, s->rows[i]);
    for (size_t k = 0; k < (2 * count + 1) * ci; k += 4, to += 16) {
        __m128 a = _mm_loadu_ps(s->rows[0] + k), b = _mm_loadu_ps(s->rows[0] + k + ci);
        __m128 c = _mm_loadu_ps(s->rows[1] + k), d = _mm_loadu_ps(s->rows[1] + k + ci);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_store_ps(to, a);
        _mm_store_ps(to + 4, b);
        _mm_store_ps(to + 8, c);
        _mm_store_ps(to + 12, d);
    }
}

/* Eight channels of the gradient and its argmax; the gradient is 0 where nothing passes. */
static void load_windows(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, size_t first, size_t half,
                         struct scratch *s)
{
    size_t channels = first < j->shape.co ? j->shape.co - first : 0;
    const struct conv_strides *gs = &j->gradient.strides, *as = &j->argmax_strides;
    const __m256i lanes = gemm_lanes(channels), blocked = _mm256_set1_epi32(255);
    const float *g = j->gradient.data + image * gs->image + y * gs->row + x * gs->pixel + first;
    const uint8_t *argmax = j->argmax + image * as->image + y * as->row + x * as->pixel + first;
    __m256 sum = _mm256_setzero_ps();
    for (size_t p = 0; p < count; p++) {
        uint8_t few[8] = {0};
        const uint8_t *bytes = argmax + p * as->pixel;
        if (channels < 8)
            bytes = memcpy(few, bytes, channels);
        __m256i at = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)bytes));
        __m256 v = _mm256_maskload_ps(g + p * gs->pixel, lanes);
        v = _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(at, blocked)), v);
        sum = _mm256_add_ps(sum, v);
        _mm256_store_ps(s->gradient + p * GEMM_PANEL + 8 * half, v);
        _mm256_store_si256((__m256i *)(void *)(s->argmax + p * GEMM_PANEL + 8 * half), at);
    }
    if (j->bias_sum && channels)
        _mm256_maskstore_ps(j->bias_sum + first, lanes, _mm256_add_ps(_mm256_maskload_ps(j->bias_sum + first, lanes), sum));
}

#define PICK(i)                                                                                                                 \
    if (rows > i) {                                                                                                             \
        __m256 quad = _mm256_broadcast_ps((const __m128 *)(const void *)(q + 4 * i));                                           \
        acc[2 * i] = _mm256_fmadd_ps(_mm256_permutevar_ps(quad, at0), g0, acc[2 * i]);                                          \
        acc[2 * i + 1] = _mm256_fmadd_ps(_mm256_permutevar_ps(quad, at1), g1, acc[2 * i + 1]);                                  \
    }

/* out[r] += Σ over windows of the value that each channel's argmax picks from quad r; windows are `next` floats apart. */
GEMM_INLINE void pick_tile(size_t rows, const float *q, size_t next, const struct scratch *s, size_t count, float *out)
{
    const size_t pitch = GEMM_PANEL;
    __m256 acc[12];
    GEMM_EACH_ROW(GEMM_ZERO)
    GEMM_EACH_ROW(GEMM_LOAD)
    for (size_t p = 0; p < count; p++, q += next) {
        __m256 g0 = _mm256_load_ps(s->gradient + p * GEMM_PANEL), g1 = _mm256_load_ps(s->gradient + p * GEMM_PANEL + 8);
        __m256i at0 = _mm256_load_si256((const __m256i *)(const void *)(s->argmax + p * GEMM_PANEL));
        __m256i at1 = _mm256_load_si256((const __m256i *)(const void *)(s->argmax + p * GEMM_PANEL + 8));
        GEMM_EACH_ROW(PICK)
    }
    GEMM_EACH_ROW(GEMM_STORE)
}

static void pick(const float *q, size_t rows, size_t next, const struct scratch *s, size_t count, float *out)
{
    switch (rows) {
    case 6:
        pick_tile(6, q, next, s, count, out);
        break;
    case 5:
        pick_tile(5, q, next, s, count, out);
        break;
    case 4:
        pick_tile(4, q, next, s, count, out);
        break;
    default:
        for (size_t r = 0; r < rows; r++)
            pick_tile(1, q + 4 * r, next, s, count, out + r * GEMM_PANEL);
    }
}

/* `count` windows from x of pooled row y. */
static void gradient_run(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, struct scratch *s)
{
    size_t ci = j->shape.ci, length = 3 * ci;
    for (size_t i = y == 0 ? 0 : 1; i < 3; i++) /* the last row of the windows above is the first of these */
        make_quads(j, image, 2 * y + i, x, count, s);
    for (size_t first = 0; first < j->shape.co; first += GEMM_PANEL) {
        float *sum = j->sum + first * 3 * length;
        load_windows(j, image, y, x, count, first, 0, s);
        load_windows(j, image, y, x, count, first + 8, 1, s);
        for (size_t i = 0; i < 3; i++, sum += length * GEMM_PANEL)
            for (size_t k = 0; k < length;) {
                size_t rows = gemm_rows(length - k);
                pick(s->quads[(2 * y + i) % 3] + 4 * k, rows, 8 * ci, s, count, sum + k * GEMM_PANEL);
                k += rows;
            }
    }
}

void conv_pooled_gradient_avx2(const struct conv_pooled_job *j, void *scratch)
{
    size_t h = j->h / 2, w = j->w / 2;
    for (size_t image = 0; image < j->images; image++)
        for (size_t x = 0; x < w; x += RUN)
            for (size_t y = 0; y < h; y++)
                gradient_run(j, image, y, x, w - x < RUN ? w - x : RUN, scratch);
}
