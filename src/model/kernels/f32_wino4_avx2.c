/* f32_wino4_avx2.c: forward pass and data gradient of wino4 with AVX2 and FMA.
 *
 * A block of tiles is transformed to v[36][tile][ci]; then, for 16 output channels at a time, 36 products of matrices give
 * m[36][tile][16], from which the output transform and the epilogue make pixels. Everything between stays in the second-level
 * cache. Loops are instantiated for the usual numbers of channels: pitches become constants. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/number_avx2.h"
#include "model/kernels/wino4_avx2.h"
#include "model/kernels/wino4_few_avx2.h"

#include <math.h>
#include <string.h>

#define FEW_TILES 6 /* multiplied together */

/* ---- Products: m[rows][16] = v[rows][ci] · u[ci][16] ---- */

/* One step of the sum over input channels. The first one multiplies: sums that start from one zeroed register are slower. */
WINO4_INLINE void product_step(const float *v, size_t stride, const float *u, unsigned rows, bool first, __m256 low[6],
                               __m256 high[6])
{
    const __m256 u0 = _mm256_loadu_ps(u), u1 = _mm256_loadu_ps(u + 8);
    WINO4_UNROLL
    for (unsigned i = 0; i < rows; i++) {
        __m256 x = _mm256_broadcast_ss(v + i * stride);
        low[i] = first ? _mm256_mul_ps(x, u0) : _mm256_fmadd_ps(x, u0, low[i]);
        high[i] = first ? _mm256_mul_ps(x, u1) : _mm256_fmadd_ps(x, u1, high[i]);
    }
}

WINO4_INLINE void product_rows(const float *v, size_t stride, const float *u, size_t ci, float *m, unsigned rows)
{
    __m256 low[6], high[6];
    product_step(v, stride, u, rows, true, low, high);
    if (ci == 16) {
#pragma GCC unroll 15
        for (size_t k = 1; k < 16; k++)
            product_step(v + k, stride, u + 16 * k, rows, false, low, high);
    } else {
#pragma GCC unroll 3
        for (size_t k = 1; k < ci; k++)
            product_step(v + k, stride, u + 16 * k, rows, false, low, high);
    }
    WINO4_UNROLL
    for (unsigned i = 0; i < rows; i++) {
        _mm256_storeu_ps(m + 16 * i, low[i]);
        _mm256_storeu_ps(m + 16 * i + 8, high[i]);
    }
}

WINO4_INLINE void product(const float *v, size_t stride, const float *u, size_t ci, float *m, size_t tiles)
{
    while (tiles > 0) {
        unsigned rows = next_rows(tiles);
        switch (rows) {
        case 6:
            product_rows(v, stride, u, ci, m, 6);
            break;
        case 5:
            product_rows(v, stride, u, ci, m, 5);
            break;
        case 4:
            product_rows(v, stride, u, ci, m, 4);
            break;
        case 3:
            product_rows(v, stride, u, ci, m, 3);
            break;
        case 2:
            product_rows(v, stride, u, ci, m, 2);
            break;
        default:
            product_rows(v, stride, u, ci, m, 1);
        }
        tiles -= rows;
        v += rows * stride;
        m += rows * 16;
    }
}

/* ---- Output ---- */

WINO4_INLINE void output_1d(const __m256 m[6], __m256 y[4])
{
    const __m256 a = _mm256_set1_ps(WINO4_A), b = _mm256_set1_ps(WINO4_B);
    const __m256 aa = _mm256_set1_ps(WINO4_AA), bb = _mm256_set1_ps(WINO4_BB);
    __m256 s1 = _mm256_add_ps(m[1], m[2]), d1 = _mm256_sub_ps(m[1], m[2]);
    __m256 s2 = _mm256_add_ps(m[3], m[4]), d2 = _mm256_sub_ps(m[3], m[4]);
    y[0] = _mm256_fmadd_ps(aa, s2, _mm256_fmadd_ps(bb, s1, m[0]));
    y[1] = _mm256_fmadd_ps(a, d2, _mm256_mul_ps(b, d1));
    y[2] = _mm256_add_ps(s1, s2);
    y[3] = _mm256_fmadd_ps(b, d2, _mm256_fmadd_ps(a, d1, m[5]));
}

/* Eight channels of the panel in work. */
struct half {
    size_t channel, count;
    bool some;     /* false: no such channels */
    __m256 shift, bias;
    __m256 sum, sum2;
};

/* Where a tile begins in each tensor; h × w of its pixels exist. */
struct place {
    size_t out, argmax, add, mask, z;
    size_t h, w;
};

WINO4_INLINE __m256 total(const __m256 v[4])
{
    return _mm256_add_ps(_mm256_add_ps(v[0], v[1]), _mm256_add_ps(v[2], v[3]));
}

/* Pixels of one row of a tile from `at` on; absent ones read as zero. */
WINO4_INLINE void load_row(const void *data, enum number number, const struct conv_strides *s, size_t at, const struct half *k, size_t w,
                           bool whole, __m256 ret[4])
{
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++)
        ret[j] = j < w ? number_load8(data, number, at + k->channel + j * s->pixel, whole, k->count) : _mm256_setzero_ps();
}

WINO4_INLINE void gradient_row(const struct conv_job *c, enum number number, const struct place *p, size_t row, struct half *k, size_t w,
                               bool whole, __m256 y[4])
{
    __m256 extra[4], first[4];
    if (c->add.data) {
        load_row(c->add.data, number, &c->add.strides, p->add + row * c->add.strides.row, k, w, whole, extra);
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = _mm256_add_ps(y[j], extra[j]);
    }
    if (c->mask.data) {
        const __m256 low = _mm256_set1_ps(c->low), high = _mm256_set1_ps(c->high);
        load_row(c->mask.data, NUMBER_F32, &c->mask.strides, p->mask + row * c->mask.strides.row, k, w, whole, extra);
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = _mm256_and_ps(y[j], _mm256_cmp_ps(extra[j], low, _CMP_GT_OQ));
        if (c->high < INFINITY)
            WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = _mm256_and_ps(y[j], _mm256_cmp_ps(extra[j], high, _CMP_LT_OQ));
    }
    if (c->sum) {
        load_row(c->z.data, number, &c->z.strides, p->z + row * c->z.strides.row, k, w, whole, extra);
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++) {
            first[j] = j < w ? y[j] : _mm256_setzero_ps();
            extra[j] = _mm256_mul_ps(first[j], _mm256_sub_ps(extra[j], k->shift));
        }
        k->sum = _mm256_add_ps(k->sum, total(first));
        k->sum2 = _mm256_add_ps(k->sum2, total(extra));
    }
}

WINO4_INLINE void raw_row(struct half *k, size_t w, const __m256 y[4])
{
    __m256 first[4], second[4];
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++) {
        first[j] = j < w ? _mm256_sub_ps(y[j], k->shift) : _mm256_setzero_ps();
        second[j] = _mm256_mul_ps(first[j], first[j]);
    }
    k->sum = _mm256_add_ps(k->sum, total(first));
    k->sum2 = _mm256_add_ps(k->sum2, total(second));
}

/* Stores one row of a tile. */
WINO4_INLINE void emit_row(const struct conv_job *c, enum conv_epilogue kind, enum number number, const struct place *p, size_t row, struct half *k,
                           size_t w, bool whole, __m256 y[4])
{
    const size_t out = p->out + row * c->out_strides.row + k->channel;
    if (kind == CONV_RAW && c->sum)
        raw_row(k, w, y);
    if (kind == CONV_GRADIENT)
        gradient_row(c, number, p, row, k, w, whole, y);
    if (kind == CONV_CLAMP) {
        const __m256 low = _mm256_set1_ps(c->low), high = _mm256_set1_ps(c->high);
        __m256 extra[4];
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = _mm256_add_ps(y[j], k->bias);
        if (c->add.data) {
            load_row(c->add.data, number, &c->add.strides, p->add + row * c->add.strides.row, k, w, whole, extra);
            WINO4_UNROLL
            for (size_t j = 0; j < 4; j++)
                y[j] = _mm256_add_ps(y[j], extra[j]);
        }
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = _mm256_min_ps(_mm256_max_ps(y[j], low), high);
    }
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++)
        if (j < w)
            number_store8(c->out, number, out + j * c->out_strides.pixel, y[j], whole, k->count);
}

/* The maximum of y[0][0], y[0][1], y[1][0], y[1][1] and where it lies. */
WINO4_INLINE void emit_pooled(const struct conv_job *c, enum number number, const struct place *p, size_t row, size_t column,
                              const struct half *k, bool whole, const __m256 top[2], const __m256 bottom[2])
{
    const __m256 low = _mm256_set1_ps(c->low), high = _mm256_set1_ps(c->high);
    const __m256i one = _mm256_set1_epi32(1), two = _mm256_set1_epi32(2), none = _mm256_set1_epi32(255);
    const struct conv_strides *s = &c->out_strides, *b = &c->argmax_strides;
    __m256 upper = _mm256_max_ps(top[0], top[1]), lower = _mm256_max_ps(bottom[0], bottom[1]);
    __m256 best = _mm256_add_ps(_mm256_max_ps(upper, lower), k->bias);
    number_store8(c->out, number, p->out + row * s->row + column * s->pixel + k->channel, _mm256_min_ps(_mm256_max_ps(best, low), high),
                  whole, k->count);
    if (!c->argmax)
        return;
    __m256i right = _mm256_castps_si256(_mm256_cmp_ps(top[1], top[0], _CMP_GT_OQ));
    __m256i right_below = _mm256_castps_si256(_mm256_cmp_ps(bottom[1], bottom[0], _CMP_GT_OQ));
    __m256i below = _mm256_castps_si256(_mm256_cmp_ps(lower, upper, _CMP_GT_OQ));
    __m256i at =
        _mm256_or_si256(_mm256_and_si256(_mm256_blendv_epi8(right, right_below, below), one), _mm256_and_si256(below, two));
    __m256 alive = _mm256_and_ps(_mm256_cmp_ps(best, low, _CMP_GT_OQ), _mm256_cmp_ps(best, high, _CMP_LT_OQ));
    at = _mm256_blendv_epi8(none, at, _mm256_castps_si256(alive));
    __m128i bytes = _mm_packs_epi32(_mm256_castsi256_si128(at), _mm256_extracti128_si256(at, 1));
    bytes = _mm_packus_epi16(bytes, bytes);
    uint8_t *to = c->argmax + p->argmax + row * b->row + column * b->pixel + k->channel;
    if (whole) {
        _mm_storel_epi64((__m128i *)to, bytes);
    } else {
        uint64_t v = (uint64_t)_mm_cvtsi128_si64(bytes);
        memcpy(to, &v, c->shape.co - k->channel < 8 ? c->shape.co - k->channel : 8);
    }
}

/* One tile, eight channels. `h` and `w` are constants where the whole tile exists. */
WINO4_INLINE void output_half(const struct conv_job *c, enum conv_epilogue kind, enum number number, const struct place *p, size_t h,
                              size_t w, struct half *k, bool whole, const float *m)
{
    __m256 t[4][6], y[4][4];
    WINO4_UNROLL
    for (size_t j = 0; j < 6; j++) {
        __m256 of[6], to[4];
        WINO4_UNROLL
        for (size_t i = 0; i < 6; i++)
            of[i] = _mm256_loadu_ps(m + (6 * i + j) * WINO4_PANEL_PITCH);
        output_1d(of, to);
        WINO4_UNROLL
        for (size_t i = 0; i < 4; i++)
            t[i][j] = to[i];
    }
    WINO4_UNROLL
    for (size_t i = 0; i < 4; i++) {
        output_1d(t[i], y[i]);
        if (kind != CONV_POOL) {
            if (i < h)
                emit_row(c, kind, number, p, i, k, w, whole, y[i]);
        } else if (i % 2 == 1 && i < h) {
            if (w >= 2)
                emit_pooled(c, number, p, i / 2, 0, k, whole, y[i - 1], y[i]);
            if (w >= 4)
                emit_pooled(c, number, p, i / 2, 1, k, whole, y[i - 1] + 2, y[i] + 2);
        }
    }
}

WINO4_INLINE struct place place_at(const struct conv_job *c, enum conv_epilogue kind, const struct wino4_run *r, size_t x)
{
    const size_t shrink = kind == CONV_POOL ? 2 : 1;
    struct place p = {.out = wino4_offset(&c->out_strides, r->image, r->y / shrink, x / shrink)};
    p.h = c->h - r->y < 4 ? c->h - r->y : 4;
    p.w = c->w - x < 4 ? c->w - x : 4;
    if (kind == CONV_POOL)
        p.argmax = wino4_offset(&c->argmax_strides, r->image, r->y / 2, x / 2);
    if (kind == CONV_CLAMP && c->add.data)
        p.add = wino4_offset(&c->add.strides, r->image, r->y, x);
    if (kind == CONV_GRADIENT) {
        p.add = wino4_offset(&c->add.strides, r->image, r->y, x);
        p.mask = wino4_offset(&c->mask.strides, r->image, r->y, x);
        p.z = wino4_offset(&c->z.strides, r->image, r->y, x);
    }
    return p;
}

/* Tiles `at`…`end` of 16 channels. `whole`: all 16 exist. */
WINO4_INLINE void output_tiles(const struct conv_job *conv, enum conv_epilogue kind, enum number number, bool whole,
                               const struct wino4_grid *g, size_t at, size_t end, struct half half[2], const float *m)
{
    const struct conv_job copy = *conv, *c = &copy; /* stores might change `*conv`, for all that the compiler knows */
    while (at < end) {
        struct wino4_run r = wino4_run_at(g, at, end);
        for (size_t t = 0; t < r.count; t++, at++, m += WINO4_PANEL) {
            const struct place p = place_at(c, kind, &r, r.x + 4 * t);
            for (unsigned k = 0; k < 2; k++) {
                if (!whole && !half[k].some)
                    continue;
                if (p.h == 4 && p.w == 4)
                    output_half(c, kind, number, &p, 4, 4, &half[k], whole, m + 8 * k);
                else
                    output_half(c, kind, number, &p, p.h, p.w, &half[k], whole, m + 8 * k);
            }
        }
    }
}

#define OUTPUT(name, kind)                                                                                                     \
    static void name(const struct conv_job *c, bool whole, const struct wino4_grid *g, size_t at, size_t end,                  \
                     struct half half[2], const float *m)                                                                      \
    {                                                                                                                          \
        if (!whole)                                                                                                            \
            output_tiles(c, kind, c->number, false, g, at, end, half, m);                                                      \
        else if (c->number == NUMBER_F32)                                                                                      \
            output_tiles(c, kind, NUMBER_F32, true, g, at, end, half, m);                                                      \
        else if (c->number == NUMBER_F16)                                                                                      \
            output_tiles(c, kind, NUMBER_F16, true, g, at, end, half, m);                                                      \
        else                                                                                                                   \
            output_tiles(c, kind, NUMBER_BF16, true, g, at, end, half, m);                                                     \
    }
OUTPUT(output_raw, CONV_RAW)
OUTPUT(output_clamp, CONV_CLAMP)
OUTPUT(output_pool, CONV_POOL)
OUTPUT(output_gradient, CONV_GRADIENT)

static void add_sums(const __m256 v, double *to, size_t n)
{
    float of[8];
    _mm256_storeu_ps(of, v);
    for (size_t i = 0; i < n; i++)
        to[i] += (double)of[i];
}

/* Outputs of a block for the 16 channels from `channel` on. */
static void output_block(const struct conv_job *c, const struct wino4_grid *g, size_t at, size_t end, size_t channel,
                         const float *m)
{
    const bool whole = c->shape.co - channel >= WINO4_PANEL;
    struct half half[2];
    for (size_t k = 0; k < 2; k++) {
        size_t first = channel + 8 * k, count = c->shape.co > first ? c->shape.co - first : 0;
        __m256i lanes = first_lanes(count);
        half[k] = (struct half){.channel = first, .count = count, .some = count > 0};
        half[k].sum = half[k].sum2 = half[k].shift = half[k].bias = _mm256_setzero_ps();
        if (c->shift && count > 0)
            half[k].shift = _mm256_maskload_ps(c->shift + first, lanes);
        if (c->bias && count > 0)
            half[k].bias = _mm256_maskload_ps(c->bias + first, lanes);
    }
    if (c->epilogue == CONV_RAW)
        output_raw(c, whole, g, at, end, half, m);
    else if (c->epilogue == CONV_CLAMP)
        output_clamp(c, whole, g, at, end, half, m);
    else if (c->epilogue == CONV_POOL)
        output_pool(c, whole, g, at, end, half, m);
    else
        output_gradient(c, whole, g, at, end, half, m);
    if (c->sum && (c->epilogue == CONV_RAW || c->epilogue == CONV_GRADIENT))
        for (size_t k = 0; k < 2 && half[k].some; k++) {
            size_t first = half[k].channel, n = c->shape.co - first < 8 ? c->shape.co - first : 8;
            add_sums(half[k].sum, c->sum + first, n);
            add_sums(half[k].sum2, c->sum2 + first, n);
        }
}

/* ---- The whole ---- */

WINO4_INLINE void conv_with(const struct conv_job *c, void *scratch, size_t ci, bool fast)
{
    const size_t tiles = wino4_conv_tiles(ci), pitch = wino4_pitch(tiles, wino4_round(ci, 8));
    const struct wino4_grid g = wino4_grid_of(c->images, c->h, c->w);
    float *columns = scratch, *v = columns + WINO4_COLUMNS, *m = v + WINO4_FREQS * pitch;
    struct ahead ahead = ahead_make(&c->ahead, (g.total + tiles - 1) / tiles * WINO4_FREQS * ((c->shape.co + WINO4_PANEL - 1) / WINO4_PANEL));
    for (size_t at = 0; at < g.total; at += tiles) {
        size_t end = g.total - at < tiles ? g.total : at + tiles;
        const float *u = c->weights;
        input_block(&c->in, &g, at, end, ci, fast, columns, v, pitch);
        for (size_t channel = 0; channel < c->shape.co; channel += WINO4_PANEL) {
            for (size_t f = 0; f < WINO4_FREQS; f++, u += ci * WINO4_PANEL) {
                ahead_fetch(&ahead);
                product(v + f * pitch, wino4_round(ci, 8), u, ci, m + f * WINO4_PANEL_PITCH, end - at);
            }
            output_block(c, &g, at, end, channel, m);
        }
    }
}

static void conv_16(const struct conv_job *c, void *scratch)
{
    conv_with(c, scratch, 16, true);
}

static void conv_32(const struct conv_job *c, void *scratch)
{
    conv_with(c, scratch, 32, true);
}

static void conv_64(const struct conv_job *c, void *scratch)
{
    conv_with(c, scratch, 64, true);
}

static void conv_128(const struct conv_job *c, void *scratch)
{
    conv_with(c, scratch, 128, true);
}

static void conv_16s(const struct conv_job *c, void *scratch) /* another multiple of 16 */
{
    conv_with(c, scratch, c->shape.ci, true);
}

static void conv_any(const struct conv_job *c, void *scratch)
{
    conv_with(c, scratch, c->shape.ci, false);
}

/* Up to 4 input channels: a row of tiles at a time; products of 6 tiles stay in the first-level cache. */
WINO4_INLINE void conv_few_with(const struct conv_job *c, void *scratch, size_t ci)
{
    const struct wino4_grid g = wino4_grid_of(c->images, c->h, c->w);
    float *rows = scratch, *v = rows + WINO4_FEW_ROWS, *m = v + WINO4_FREQS * WINO4_FEW_PITCH;
    for (size_t row = 0, count; row < g.total / g.columns; row++)
        for (size_t x = 0; x < g.columns; x += count) {
            count = g.columns - x < WINO4_TILES ? g.columns - x : WINO4_TILES;
            input_few_row(&c->in, row / g.rows, row % g.rows * 4, x * 4, count, ci, rows, v);
            for (size_t t = 0; t < count; t += FEW_TILES) {
                size_t at = row * g.columns + x + t, now = count - t < FEW_TILES ? count - t : FEW_TILES;
                const float *u = c->weights;
                for (size_t channel = 0; channel < c->shape.co; channel += WINO4_PANEL) {
                    for (size_t f = 0; f < WINO4_FREQS; f++, u += ci * WINO4_PANEL)
                        product(v + f * WINO4_FEW_PITCH + 4 * t, 4, u, ci, m + f * WINO4_PANEL_PITCH, now);
                    output_block(c, &g, at, at + now, channel, m);
                }
            }
        }
}

static void conv_few(const struct conv_job *c, void *scratch)
{
    switch (c->shape.ci) {
    case 1:
        conv_few_with(c, scratch, 1);
        break;
    case 2:
        conv_few_with(c, scratch, 2);
        break;
    case 3:
        conv_few_with(c, scratch, 3);
        break;
    default:
        conv_few_with(c, scratch, 4);
    }
}

static void conv(const struct conv_job *c, void *scratch)
{
    if (c->shape.ci <= WINO4_FEW)
        conv_few(c, scratch);
    else if (c->shape.ci % 16 != 0 || c->in.strides.pixel != c->shape.ci)
        conv_any(c, scratch);
    else if (c->shape.ci == 16)
        conv_16(c, scratch);
    else if (c->shape.ci == 32)
        conv_32(c, scratch);
    else if (c->shape.ci == 64)
        conv_64(c, scratch);
    else if (c->shape.ci == 128)
        conv_128(c, scratch);
    else
        conv_16s(c, scratch);
}

void wino4_kernels_init_avx2(struct wino4_kernels *k)
{
    k->conv = conv;
    wino4_kernels_init_avx2_gradient(k);
}
