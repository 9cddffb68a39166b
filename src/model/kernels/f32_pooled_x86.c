/* f32_pooled_x86.c: gradients of a convolution whose result was pooled 2 × 2: 3 × 3 with few input channels, or 1 × 1. Compiled for AVX2 and
 * for AVX-512: the same bits.
 *
 * One of four results of a window has a gradient. Weight gradient: for every tap the four inputs that the window's results had read
 * are broadcast as 128 bits; the argmax of each output channel picks its own (vpermilps), and one multiply-add takes the place of
 * four. Sums are laid out as f32_direct_x86.c does: [co / 16][row, column, ci][16]. Data gradient of 1 × 1: each pixel adds up the
 * weights of those output channels whose maximum it was. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/direct.h"
#include "model/kernels/epilogue_x86.h"
#include "model/kernels/rows.h"

#include <stdint.h>

#define RUN         48 /* windows */
#define MOST_INPUTS 4  /* channels */
#define ANCHORS     (2 * RUN + 1)
#define WIDEST_POINT 128 /* input channels of a 1 × 1 convolution */
#define POINT_QUADS  1024 /* of a run of windows: they stay in the first-level cache */
#define OUTPUTS      64   /* output channels of a data gradient: one bit each */
#define PANELS       2    /* of input channels whose data gradient is computed together */
#define BEYOND      16 /* values that may be read after the last of a row, or more */

bool VEC_NAME(conv_pooled_takes)(const struct conv_shape *s)
{
    bool few = s->size == 3 && s->ci <= MOST_INPUTS, point = s->size == 1 && s->ci <= WIDEST_POINT;
    return s->stride == 1 && !s->depthwise && (few || point);
}

bool VEC_NAME(conv_pooled_takes_data)(const struct conv_shape *s)
{
    return s->size == 1 && s->stride == 1 && !s->depthwise && s->ci <= WIDEST_POINT && s->co <= OUTPUTS;
}

struct scratch {
    float gradient[RUN * GEMM_PANEL];
    int32_t argmax[RUN * GEMM_PANEL];
    union {
        struct {
            float quads[3][4 * (ANCHORS * MOST_INPUTS + 12)]; /* those of row r lie in quads[r mod 3] */
            float rows[2][(ANCHORS + 1) * MOST_INPUTS + BEYOND];
        };
        float point_quads[4 * (POINT_QUADS + 8)];             /* 1 × 1: [window][input channel] */
        float values[PANELS][2][2 * RUN * GEMM_PANEL];        /* data gradient: [panel][row][pixel][16] */
    };
};

size_t VEC_NAME(conv_pooled_scratch)(void)
{
    return sizeof(struct scratch);
}

/* Row `i` of the windows from column x on, as if padded: where it lies, if what is read beyond its end is still the image's; otherwise
 * a copy. */
static const float *find_row(const struct conv_pooled_job *j, size_t image, size_t i, size_t x, size_t count, float *copy)
{
    const struct conv_source *in = &j->in;
    size_t ci = j->shape.ci, width = 2 * count + 2;
    ptrdiff_t y = (ptrdiff_t)i - (ptrdiff_t)in->top, left = (ptrdiff_t)(2 * x) - (ptrdiff_t)in->left;
    if (in->strides.pixel == ci && in->strides.row >= in->w * ci && left >= 0 && (size_t)left + width <= in->w && y >= 0 && (size_t)y + 1 < in->h &&
        in->w * ci >= BEYOND)
        return in->data + image * in->strides.image + (size_t)y * in->strides.row + (size_t)left * ci;
    rows_copy(in, image, y, left, width, ci, copy);
    return copy;
}

/* The values of four vectors, four by four. */
GEMM_INLINE void store_quads(__m256 a, __m256 b, __m256 c, __m256 d, float *to)
{
    __m256 low_above = _mm256_unpacklo_ps(a, b), high_above = _mm256_unpackhi_ps(a, b);
    __m256 low_below = _mm256_unpacklo_ps(c, d), high_below = _mm256_unpackhi_ps(c, d);
    __m256 q0 = _mm256_shuffle_ps(low_above, low_below, 0x44), q1 = _mm256_shuffle_ps(low_above, low_below, 0xee); /* 0 and 4, 1 and 5 */
    __m256 q2 = _mm256_shuffle_ps(high_above, high_below, 0x44), q3 = _mm256_shuffle_ps(high_above, high_below, 0xee);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(q0, q1, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(q2, q3, 0x20));
    _mm256_storeu_ps(to + 16, _mm256_permute2f128_ps(q0, q1, 0x31));
    _mm256_storeu_ps(to + 24, _mm256_permute2f128_ps(q2, q3, 0x31));
}

/* For every value of row y: itself, its right neighbour, and the two below them. */
static void make_quads(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, struct scratch *s)
{
    size_t ci = j->shape.ci;
    const float *above = find_row(j, image, y, x, count, s->rows[0]), *below = find_row(j, image, y + 1, x, count, s->rows[1]);
    float *to = s->quads[y % 3];
    for (size_t k = 0; k < (2 * count + 1) * ci; k += 8, to += 32)
        store_quads(_mm256_loadu_ps(above + k), _mm256_loadu_ps(above + k + ci), _mm256_loadu_ps(below + k), _mm256_loadu_ps(below + k + ci), to);
}

/* A vector of channels of the gradient and its argmax (`whole`), or fewer; the gradient is 0 where nothing passes. Returns its sum. */
GEMM_INLINE vec load_channels(const float *g, size_t g_pixel, const uint8_t *argmax, size_t a_pixel, size_t count, size_t channels, bool whole,
                              float *ret_gradient, int32_t *ret_argmax)
{
    const vec_lanes lanes = vec_first(channels);
    vec sum = vec_zero();
    for (size_t p = 0; p < count; p++, ret_gradient += GEMM_PANEL, ret_argmax += GEMM_PANEL) {
        uint8_t few[VEC] = {0};
        const uint8_t *bytes = argmax + p * a_pixel;
        if (!whole)
            bytes = memcpy(few, bytes, channels < VEC ? channels : VEC);
        vec v = vec_load_lanes(g + p * g_pixel, whole, lanes);
#if VEC == 16
        __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)bytes));
        v = vec_keep(v, _mm512_cmpneq_epi32_mask(at, _mm512_set1_epi32(255)));
        _mm512_storeu_si512((void *)ret_argmax, at);
#else
        __m256i at = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)bytes));
        v = _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(at, _mm256_set1_epi32(255))), v);
        _mm256_store_si256((__m256i *)(void *)ret_argmax, at);
#endif
        sum = vec_add(sum, v);
        vec_store(ret_gradient, v);
    }
    return sum;
}

/* The 16 channels from `panel` on. */
static void load_windows(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, size_t panel, struct scratch *s)
{
    const struct conv_strides *gs = &j->gradient.strides, *as = &j->argmax_strides;
    for (size_t k = 0; k < GEMM_PANEL; k += VEC) {
        size_t first = panel + k, channels = first < j->shape.co ? j->shape.co - first : 0;
        const vec_lanes lanes = vec_first(channels);
        const float *g = j->gradient.data + image * gs->image + y * gs->row + x * gs->pixel + first;
        const uint8_t *argmax = j->argmax + image * as->image + y * as->row + x * as->pixel + first;
        vec sum = channels >= VEC ? load_channels(g, gs->pixel, argmax, as->pixel, count, VEC, true, s->gradient + k, s->argmax + k)
                                  : load_channels(g, gs->pixel, argmax, as->pixel, count, channels, false, s->gradient + k, s->argmax + k);
        if (j->bias_sum && channels)
            vec_store_lanes(j->bias_sum + first, vec_add(vec_load_lanes(j->bias_sum + first, false, lanes), sum), false, lanes);
    }
}

#define PARTS     (GEMM_PANEL / VEC)
#define MOST_ROWS (VEC == 16 ? 9 : 6) /* whose sums are in registers together */

/* The value of a quad that each lane picks. */
GEMM_INLINE vec pick_values(const float *quad, const int32_t *at)
{
#if VEC == 16
    return _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(quad)), _mm512_loadu_si512((const void *)at));
#else
    return _mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)(const void *)quad), _mm256_load_si256((const __m256i *)(const void *)at));
#endif
}

/* out[r] += Σ over windows of the value that each channel's argmax picks from quad r; windows are `next` floats apart. */
GEMM_INLINE void pick_tile(size_t rows, const float *q, size_t next, const struct scratch *s, size_t count, float *out)
{
    vec acc[MOST_ROWS][PARTS];
#pragma GCC unroll 9
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < PARTS; k++)
            acc[i][k] = vec_load(out + i * GEMM_PANEL + k * VEC);
    for (size_t p = 0; p < count; p++, q += next) {
        const float *g = s->gradient + p * GEMM_PANEL;
        const int32_t *at = s->argmax + p * GEMM_PANEL;
#pragma GCC unroll 9
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < PARTS; k++)
                acc[i][k] = vec_fma(pick_values(q + 4 * i, at + k * VEC), vec_load(g + k * VEC), acc[i][k]);
    }
#pragma GCC unroll 9
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < PARTS; k++)
            vec_store(out + i * GEMM_PANEL + k * VEC, acc[i][k]);
}

/* How many of `left` rows to sum up next. */
static size_t pick_rows(size_t left)
{
    return VEC == 8 ? gemm_rows(left) : left >= 14 || left == 9 ? 9 : left > 9 ? (left + 1) / 2 : left;
}

static void pick(const float *q, size_t rows, size_t next, const struct scratch *s, size_t count, float *out)
{
#define ROWS(n)                                                                                                                 \
    case n:                                                                                                                     \
        pick_tile(n, q, next, s, count, out);                                                                                   \
        break;
    switch (rows) {
#if VEC == 16
        ROWS(9)
        ROWS(8)
        ROWS(7)
#endif
        ROWS(6)
        ROWS(5)
        ROWS(4)
    default:
        for (size_t r = 0; r < rows; r++)
            pick_tile(1, q + 4 * r, next, s, count, out + r * GEMM_PANEL);
    }
#undef ROWS
}

/* `count` windows from x of pooled row y. */
static void gradient_run(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, struct ahead *ahead, struct scratch *s)
{
    size_t ci = j->shape.ci, length = 3 * ci;
    for (size_t i = y == 0 ? 0 : 1; i < 3; i++) /* the last row of the windows above is the first of these */
        make_quads(j, image, 2 * y + i, x, count, s);
    for (size_t first = 0; first < j->shape.co; first += GEMM_PANEL) {
        float *sum = j->sum + first * 3 * length;
        load_windows(j, image, y, x, count, first, s);
        for (size_t i = 0; i < 3; i++, sum += length * GEMM_PANEL)
            for (size_t k = 0; k < length;) {
                size_t rows = pick_rows(length - k);
                ahead_fetch(ahead);
                pick(s->quads[(2 * y + i) % 3] + 4 * k, rows, 8 * ci, s, count, sum + k * GEMM_PANEL);
                k += rows;
            }
    }
}

/* ---- 1 × 1 ---- */

static size_t point_run(size_t ci)
{
    size_t run = POINT_QUADS / ci;
    return run < RUN ? run : RUN;
}

GEMM_INLINE __m256 load_eight(const float *p, bool whole, __m256i lanes)
{
    return whole ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes);
}

/* For every window and input channel: the four pixels of the window. */
static void make_point_quads(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, struct scratch *s)
{
    const struct conv_strides *at = &j->in.strides;
    const size_t ci = j->shape.ci;
    const float *above = j->in.data + image * at->image + 2 * y * at->row + 2 * x * at->pixel, *below = above + at->row;
    for (size_t n = 0; n < count; n++, above += 2 * at->pixel, below += 2 * at->pixel)
        for (size_t k = 0; k < ci; k += 8) {
            const bool whole = ci - k >= 8;
            const __m256i lanes = gemm_lanes(ci - k);
            store_quads(load_eight(above + k, whole, lanes), load_eight(above + at->pixel + k, whole, lanes), load_eight(below + k, whole, lanes),
                        load_eight(below + at->pixel + k, whole, lanes), s->point_quads + 4 * (n * ci + k));
        }
}

static void point_gradient_run(const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, struct ahead *ahead, struct scratch *s)
{
    size_t ci = j->shape.ci;
    make_point_quads(j, image, y, x, count, s);
    for (size_t first = 0; first < j->shape.co; first += GEMM_PANEL) {
        float *sum = j->sum + first * ci;
        load_windows(j, image, y, x, count, first, s);
        for (size_t k = 0; k < ci;) {
            size_t rows = pick_rows(ci - k);
            ahead_fetch(ahead);
            pick(s->point_quads + 4 * k, rows, 4 * ci, s, count, sum + k * GEMM_PANEL);
            k += rows;
        }
    }
}

/* Which output channels have their maximum in which pixel of a window. */
GEMM_INLINE void find_channels(const uint8_t *argmax, size_t co, uint64_t ret[4])
{
    uint8_t padded[OUTPUTS];
    if (co < OUTPUTS) {
        memset(padded, 255, sizeof(padded));
        argmax = memcpy(padded, argmax, co);
    }
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)argmax), high = _mm256_loadu_si256((const __m256i *)(const void *)(argmax + 32));
    for (int i = 0; i < 4; i++) {
        __m256i tap = _mm256_set1_epi8((char)i);
        ret[i] = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, tap)) | (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, tap)) << 32;
    }
}

/* to = Σ over the channels in `set` of gradient · weights, for one or two panels `apart` floats apart. Two channels at a time: a
 * missing second one has the gradient g[OUTPUTS] = 0. */
GEMM_INLINE void add_channels(uint64_t set, const float *g, const float *w, size_t apart, size_t panels, float *to, size_t to_apart)
{
    vec a[PANELS * PARTS], b[PANELS * PARTS];
#pragma GCC unroll 4
    for (size_t i = 0; i < PANELS * PARTS; i++)
        a[i] = b[i] = vec_zero();
    while (set) {
        size_t o = (size_t)__builtin_ctzll(set);
        set &= set - 1;
        size_t q = set ? (size_t)__builtin_ctzll(set) : OUTPUTS;
        set &= set - 1;
        const vec x = vec_set(g[o]), y = vec_set(g[q]);
        const float *u = w + o * GEMM_PANEL, *v = w + q % OUTPUTS * GEMM_PANEL;
#pragma GCC unroll 4
        for (size_t i = 0; i < panels * PARTS; i++) {
            size_t at = i / PARTS * apart + i % PARTS * VEC;
            a[i] = vec_fma(x, vec_load(u + at), a[i]);
            b[i] = vec_fma(y, vec_load(v + at), b[i]);
        }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < panels * PARTS; i++)
        vec_store(to + i / PARTS * to_apart + i % PARTS * VEC, vec_add(a[i], b[i]));
}

/* Pixels below `count` windows from x of pooled row y, input channels of one or two panels from `first` on. */
GEMM_INLINE void data_windows(const struct conv_job *d, const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, size_t first,
                              size_t panels, struct scratch *s)
{
    const size_t co = j->shape.co, apart = co * GEMM_PANEL;
    const struct conv_strides *gs = &j->gradient.strides, *as = &j->argmax_strides;
    const float *g = j->gradient.data + image * gs->image + y * gs->row + x * gs->pixel, *w = d->weights + first * co;
    const uint8_t *argmax = j->argmax + image * as->image + y * as->row + x * as->pixel;
    float gradient[OUTPUTS + 1] = {0};
    for (size_t n = 0; n < count; n++) {
        uint64_t set[4];
        find_channels(argmax + n * as->pixel, co, set);
        memcpy(gradient, g + n * gs->pixel, co * sizeof(float));
        for (size_t tap = 0; tap < 4; tap++)
            add_channels(set[tap], gradient, w, apart, panels, s->values[0][tap / 2] + (2 * n + tap % 2) * GEMM_PANEL, sizeof(s->values[0]) / sizeof(float));
    }
}

static void data_run(const struct conv_job *d, const struct conv_pooled_job *j, size_t image, size_t y, size_t x, size_t count, struct scratch *s)
{
    size_t ci = j->shape.ci;
    for (size_t first = 0; first < ci; first += PANELS * GEMM_PANEL) {
        if (ci - first > GEMM_PANEL)
            data_windows(d, j, image, y, x, count, first, 2, s);
        else
            data_windows(d, j, image, y, x, count, first, 1, s);
        for (size_t row = 0; row < 2; row++)
            for (size_t c = 0; c < PANELS * GEMM_PANEL && first + c < ci; c += VEC) {
                struct epilogue_run r = {.image = image, .y = 2 * y + row, .x = 2 * x, .step = 1, .count = 2 * count, .first = first + c,
                                         .channels = ci - first - c};
                epilogue_run(d, &r, s->values[c / GEMM_PANEL][row] + c % GEMM_PANEL, GEMM_PANEL);
            }
    }
}

void VEC_NAME(conv_pooled_data)(const struct conv_job *d, const struct conv_pooled_job *j, void *scratch)
{
    size_t h = j->h / 2, w = j->w / 2;
    for (size_t image = 0; image < j->images; image++)
        for (size_t y = 0; y < h; y++)
            for (size_t x = 0; x < w; x += RUN)
                data_run(d, j, image, y, x, w - x < RUN ? w - x : RUN, scratch);
    epilogue_end(d);
}

/* Rows of input and argmax that the image after `image` reads. */
static struct conv_ahead next_image(const struct conv_pooled_job *j, size_t image)
{
    const struct conv_strides *in = &j->in.strides, *at = &j->argmax_strides;
    size_t rows = j->h + j->shape.size - 1 - j->in.top;
    if (image + 1 == j->images && !j->more)
        return (struct conv_ahead){{0}, {0}};
    return (struct conv_ahead){{j->in.data + (image + 1) * in->image, j->argmax + (image + 1) * at->image},
                               {(rows < j->in.h ? rows : j->in.h) * in->row * sizeof(float), j->h / 2 * at->row}};
}

void VEC_NAME(conv_pooled_gradient)(const struct conv_pooled_job *j, void *scratch)
{
    bool point = j->shape.size == 1;
    size_t h = j->h / 2, w = j->w / 2, run = point ? point_run(j->shape.ci) : RUN, length = j->shape.size * j->shape.ci;
    size_t tiles = (w + run - 1) / run * h * ((j->shape.co + GEMM_PANEL - 1) / GEMM_PANEL) * j->shape.size * ((length + MOST_ROWS - 1) / MOST_ROWS);
    for (size_t image = 0; image < j->images; image++) {
        struct conv_ahead next = next_image(j, image);
        struct ahead ahead = ahead_make(&next, tiles);
        for (size_t x = 0; x < w; x += run)
            for (size_t y = 0; y < h; y++)
                (point ? point_gradient_run : gradient_run)(j, image, y, x, w - x < run ? w - x : run, &ahead, scratch);
    }
}
