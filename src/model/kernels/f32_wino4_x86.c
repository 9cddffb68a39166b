/* f32_wino4_x86.c: forward pass and data gradient of wino4, compiled for AVX2 with FMA and for AVX-512: the same bits.
 *
 * A block of tiles is transformed to v[36][tile][ci]; then, for 16 output channels at a time, 36 products of matrices give
 * m[36][tile][16], from which the output transform and the epilogue make pixels. Everything between stays in the second-level
 * cache. Loops are instantiated for the usual numbers of channels: pitches become constants. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/epilogue_x86.h"
#include "model/kernels/wino4_x86.h"
#include "model/kernels/wino4_few_x86.h"

#include <math.h>
#include <string.h>

#define FEW_TILES 6 /* multiplied together */

/* ---- Output ---- */

WINO4_INLINE void output_1d(const vec m[6], vec y[4])
{
    const vec a = vec_set(WINO4_A), b = vec_set(WINO4_B);
    const vec aa = vec_set(WINO4_AA), bb = vec_set(WINO4_BB);
    vec s1 = vec_add(m[1], m[2]), d1 = vec_sub(m[1], m[2]);
    vec s2 = vec_add(m[3], m[4]), d2 = vec_sub(m[3], m[4]);
    y[0] = vec_fma(aa, s2, vec_fma(bb, s1, m[0]));
    y[1] = vec_fma(a, d2, vec_mul(b, d1));
    y[2] = vec_add(s1, s2);
    y[3] = vec_fma(b, d2, vec_fma(a, d1, m[5]));
}

/* A vector of channels of the panel in work. */
struct part {
    size_t channel, count;
    bool some;     /* false: no such channels */
    vec shift, bias;
    vec sum, sum2;
};

/* Where a tile begins in each tensor; h × w of its pixels exist. */
struct place {
    size_t out, argmax, add, mask, z;
    size_t h, w;
};

WINO4_INLINE vec total(const vec v[4])
{
    return vec_add(vec_add(v[0], v[1]), vec_add(v[2], v[3]));
}

/* Pixels of one row of a tile from `at` on; absent ones read as zero. */
WINO4_INLINE void load_row(const void *data, enum number number, const struct conv_strides *s, size_t at, const struct part *k, size_t w,
                           bool whole, vec ret[4])
{
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++)
        ret[j] = j < w ? vec_load_number(data, number, at + k->channel + j * s->pixel, whole, k->count) : vec_zero();
}

WINO4_INLINE void gradient_row(const struct conv_job *c, enum number number, const struct place *p, size_t row, struct part *k, size_t w,
                               bool whole, vec y[4])
{
    vec extra[4], first[4];
    if (c->add.data) {
        load_row(c->add.data, number, &c->add.strides, p->add + row * c->add.strides.row, k, w, whole, extra);
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = vec_add(y[j], extra[j]);
    }
    if (c->mask.data) {
        const vec low = vec_set(c->low), high = vec_set(c->high);
        load_row(c->mask.data, NUMBER_F32, &c->mask.strides, p->mask + row * c->mask.strides.row, k, w, whole, extra);
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = vec_keep(y[j], vec_more(extra[j], low));
        if (c->high < INFINITY)
            WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = vec_keep(y[j], vec_more(high, extra[j]));
    }
    if (c->sum) {
        load_row(c->z.data, number, &c->z.strides, p->z + row * c->z.strides.row, k, w, whole, extra);
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++) {
            first[j] = j < w ? y[j] : vec_zero();
            extra[j] = vec_mul(first[j], vec_sub(extra[j], k->shift));
        }
        k->sum = vec_add(k->sum, total(first));
        k->sum2 = vec_add(k->sum2, total(extra));
    }
}

WINO4_INLINE void raw_row(struct part *k, size_t w, const vec y[4])
{
    vec first[4], second[4];
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++) {
        first[j] = j < w ? vec_sub(y[j], k->shift) : vec_zero();
        second[j] = vec_mul(first[j], first[j]);
    }
    k->sum = vec_add(k->sum, total(first));
    k->sum2 = vec_add(k->sum2, total(second));
}

/* Stores one row of a tile. */
WINO4_INLINE void emit_row(const struct conv_job *c, enum conv_epilogue kind, enum number number, const struct place *p, size_t row, struct part *k,
                           size_t w, bool whole, vec y[4])
{
    const size_t out = p->out + row * c->out_strides.row + k->channel;
    if (kind == CONV_RAW && c->sum)
        raw_row(k, w, y);
    if (kind == CONV_GRADIENT)
        gradient_row(c, number, p, row, k, w, whole, y);
    if (kind == CONV_CLAMP) {
        const vec low = vec_set(c->low), high = vec_set(c->high);
        vec extra[4];
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = vec_add(y[j], k->bias);
        if (c->add.data) {
            load_row(c->add.data, number, &c->add.strides, p->add + row * c->add.strides.row, k, w, whole, extra);
            WINO4_UNROLL
            for (size_t j = 0; j < 4; j++)
                y[j] = vec_add(y[j], extra[j]);
        }
        WINO4_UNROLL
        for (size_t j = 0; j < 4; j++)
            y[j] = vec_min(vec_max(y[j], low), high);
    }
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++)
        if (j < w)
            epilogue_store(c->out, number, out + j * c->out_strides.pixel, y[j], c->streams, whole, k->count);
}

/* The maximum of y[0][0], y[0][1], y[1][0], y[1][1] and where it lies. */
WINO4_INLINE void emit_pooled(const struct conv_job *c, enum number number, const struct place *p, size_t row, size_t column,
                              const struct part *k, bool whole, const vec top[2], const vec bottom[2])
{
    const vec low = vec_set(c->low), high = vec_set(c->high);
    const struct conv_strides *s = &c->out_strides, *b = &c->argmax_strides;
    vec upper = vec_max(top[0], top[1]), lower = vec_max(bottom[0], bottom[1]);
    vec best = vec_add(vec_max(upper, lower), k->bias);
    epilogue_store(c->out, number, p->out + row * s->row + column * s->pixel + k->channel, vec_min(vec_max(best, low), high), c->streams, whole, k->count);
    if (!c->argmax)
        return;
    vec_test below = vec_more(lower, upper);
    vec_test right = test_choose(below, vec_more(bottom[1], bottom[0]), vec_more(top[1], top[0]));
    vec_test passes = test_both(vec_more(best, low), vec_more(high, best));
    vec_store_place(c->argmax + p->argmax + row * b->row + column * b->pixel + k->channel, right, below, passes, whole, k->count);
}

/* One tile, a vector of channels. `h` and `w` are constants where the whole tile exists. */
WINO4_INLINE void output_part(const struct conv_job *c, enum conv_epilogue kind, enum number number, const struct place *p, size_t h,
                              size_t w, struct part *k, bool whole, const float *m)
{
    vec t[4][6], y[4][4];
    WINO4_UNROLL
    for (size_t j = 0; j < 6; j++) {
        vec of[6], to[4];
        WINO4_UNROLL
        for (size_t i = 0; i < 6; i++)
            of[i] = vec_load(m + (6 * i + j) * WINO4_PANEL_PITCH);
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
                               const struct wino4_grid *g, size_t at, size_t end, struct part part[PARTS], const float *m)
{
    struct conv_job copy = *conv; /* stores might change `*conv`, for all that the compiler knows */
    const struct conv_job *c = &copy;
    copy.streams = epilogue_streams(conv); /* in the copy, it says what the kernel does */
    while (at < end) {
        struct wino4_run r = wino4_run_at(g, at, end);
        for (size_t t = 0; t < r.count; t++, at++, m += WINO4_PANEL) {
            const struct place p = place_at(c, kind, &r, r.x + 4 * t);
            for (unsigned k = 0; k < PARTS; k++) {
                if (!whole && !part[k].some)
                    continue;
                if (p.h == 4 && p.w == 4)
                    output_part(c, kind, number, &p, 4, 4, &part[k], whole, m + VEC * k);
                else
                    output_part(c, kind, number, &p, p.h, p.w, &part[k], whole, m + VEC * k);
            }
        }
    }
}

#define OUTPUT(name, kind)                                                                                                     \
    static void name(const struct conv_job *c, bool whole, const struct wino4_grid *g, size_t at, size_t end,                  \
                     struct part part[PARTS], const float *m)                                                                      \
    {                                                                                                                          \
        if (!whole)                                                                                                            \
            output_tiles(c, kind, c->number, false, g, at, end, part, m);                                                      \
        else if (c->number == NUMBER_F32)                                                                                      \
            output_tiles(c, kind, NUMBER_F32, true, g, at, end, part, m);                                                      \
        else if (c->number == NUMBER_F16)                                                                                      \
            output_tiles(c, kind, NUMBER_F16, true, g, at, end, part, m);                                                      \
        else                                                                                                                   \
            output_tiles(c, kind, NUMBER_BF16, true, g, at, end, part, m);                                                     \
    }
OUTPUT(output_raw, CONV_RAW)
OUTPUT(output_clamp, CONV_CLAMP)
OUTPUT(output_pool, CONV_POOL)
OUTPUT(output_gradient, CONV_GRADIENT)

static void add_sums(const vec v, double *to, size_t n)
{
    float of[VEC];
    vec_store(of, v);
    for (size_t i = 0; i < n; i++)
        to[i] += (double)of[i];
}

/* Outputs of a block for the 16 channels from `channel` on. */
static void output_block(const struct conv_job *c, const struct wino4_grid *g, size_t at, size_t end, size_t channel,
                         const float *m)
{
    const bool whole = c->shape.co - channel >= WINO4_PANEL;
    struct part part[PARTS];
    for (size_t k = 0; k < PARTS; k++) {
        size_t first = channel + VEC * k, count = c->shape.co > first ? c->shape.co - first : 0;
        vec_lanes lanes = vec_first(count);
        part[k] = (struct part){.channel = first, .count = count, .some = count > 0};
        part[k].sum = part[k].sum2 = part[k].shift = part[k].bias = vec_zero();
        if (c->shift && count > 0)
            part[k].shift = vec_load_lanes(c->shift + first, false, lanes);
        if (c->bias && count > 0)
            part[k].bias = vec_load_lanes(c->bias + first, false, lanes);
    }
    if (c->epilogue == CONV_RAW)
        output_raw(c, whole, g, at, end, part, m);
    else if (c->epilogue == CONV_CLAMP)
        output_clamp(c, whole, g, at, end, part, m);
    else if (c->epilogue == CONV_POOL)
        output_pool(c, whole, g, at, end, part, m);
    else
        output_gradient(c, whole, g, at, end, part, m);
    if (c->sum && (c->epilogue == CONV_RAW || c->epilogue == CONV_GRADIENT))
        for (size_t k = 0; k < PARTS && part[k].some; k++) {
            size_t first = part[k].channel, n = c->shape.co - first < VEC ? c->shape.co - first : VEC;
            add_sums(part[k].sum, c->sum + first, n);
            add_sums(part[k].sum2, c->sum2 + first, n);
        }
}

/* ---- The whole ---- */

WINO4_INLINE void conv_with(const struct conv_job *c, void *scratch, size_t ci, bool fast)
{
    const size_t tiles = wino4_conv_tiles(ci), pitch = wino4_pitch(tiles, wino4_round(ci, VEC));
    const struct wino4_grid g = wino4_grid_of(c->images, c->h, c->w);
    float *columns = scratch, *v = columns + WINO4_COLUMNS, *m = v + WINO4_FREQS * pitch;
    const size_t turns = (c->shape.co + PANELS * WINO4_PANEL - 1) / (PANELS * WINO4_PANEL);
    struct ahead ahead = ahead_make(&c->ahead, (g.total + tiles - 1) / tiles * WINO4_FREQS * turns);
    for (size_t at = 0; at < g.total; at += tiles) {
        size_t end = g.total - at < tiles ? g.total : at + tiles;
        const float *u = c->weights;
        input_block(&c->in, &g, at, end, ci, fast, columns, v, pitch);
        for (size_t channel = 0; channel < c->shape.co;) {
            const size_t panels = PANELS == 2 && c->shape.co - channel > WINO4_PANEL ? 2 : 1;
            for (size_t f = 0; f < WINO4_FREQS; f++) {
                struct frequency p = {.step = wino4_round(ci, VEC), .next = 1, .n = ci, .panels = 1, .count = end - at};
                ahead_fetch(&ahead);
                if (panels == 2) {
                    p.panels = 2;
                    p.b_apart = WINO4_FREQS * ci * WINO4_PANEL;
                    p.out_apart = WINO4_FREQS * WINO4_PANEL_PITCH;
                    frequency_multiply(&p, v + f * pitch, u + f * ci * WINO4_PANEL, m + f * WINO4_PANEL_PITCH);
                } else {
                    frequency_multiply(&p, v + f * pitch, u + f * ci * WINO4_PANEL, m + f * WINO4_PANEL_PITCH);
                }
            }
            for (size_t k = 0; k < panels; k++, channel += WINO4_PANEL, u += WINO4_FREQS * ci * WINO4_PANEL)
                output_block(c, &g, at, end, channel, m + k * WINO4_FREQS * WINO4_PANEL_PITCH);
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

/* All frequencies of `tiles` tiles with up to 4 input channels. */
WINO4_INLINE void few_products(const float *v, size_t ci, const float *u, float *m, size_t tiles)
{
    const struct frequency p = {.step = 4, .next = 1, .n = ci, .panels = 1, .count = tiles};
    for (size_t f = 0; f < WINO4_FREQS; f++)
        if (tiles == FEW_TILES)
            frequency_rows(&p, v + f * WINO4_FEW_PITCH, u + f * ci * WINO4_PANEL, m + f * WINO4_PANEL_PITCH, FEW_TILES);
        else
            frequency_multiply(&p, v + f * WINO4_FEW_PITCH, u + f * ci * WINO4_PANEL, m + f * WINO4_PANEL_PITCH);
}

/* Up to 4 input channels: a row of tiles at a time; products of few tiles stay in the first-level cache. */
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
                    few_products(v + 4 * t, ci, u, m, now);
                    u += WINO4_FREQS * ci * WINO4_PANEL;
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
    epilogue_end(c);
}

void VEC_NAME(wino4_kernels_init)(struct wino4_kernels *k)
{
    k->conv = conv;
    VEC_NAME(wino4_kernels_init_gradient)(k);
}
