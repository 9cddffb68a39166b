/* f32_direct_x86.c: convolution as a product of matrices without copying the input apart: any size, stride, padding and
 * channels; 1 × 1 convolutions run over all pixels at once. Compiled for AVX2 with FMA and for AVX-512: the same bits.
 *
 * A run of up to RUN output pixels of one row is multiplied with 16 or 32 output channels at a time: tile rows are pixels, the sum
 * goes over (kernel row) × (kernel column, input channel), and the latter lie next to each other in the input. Rows that touch
 * the padding are copied first. Weights: [co / 16][kernel row, column, ci][16].
 *
 * The data gradient of stride s is s² such convolutions with stride 1 over the gradient, each of which makes every s-th pixel
 * of every s-th row (`struct part`): taps that fall between pixels are never multiplied. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/direct.h"
#include "model/kernels/epilogue_x86.h"
#include "model/kernels/product_x86.h"
#include "model/kernels/rows.h"

#include <stdint.h>
#include <string.h>

#define RUN     96 /* pixels */
#define MAX_TAPS 16 /* size of the kernel */
#define VALUES  (PRODUCT_PANELS * RUN * GEMM_PANEL) /* floats of a run of panels that are computed together */
#define BLOCK   48 /* input channels of a 1 × 1 convolution whose weight gradient is computed together */

static bool takes(const struct conv_shape *s)
{
    return conv_is_plain(s) && !s->depthwise && s->size <= MAX_TAPS && s->stride <= s->size + 1;
}

static size_t panels(size_t channels)
{
    return (channels + GEMM_PANEL - 1) / GEMM_PANEL;
}

static size_t weights_bytes(const struct conv_shape *s)
{
    size_t forward = s->ci * panels(s->co), back = s->co * panels(s->ci);
    return s->size * s->size * (forward > back ? forward : back) * GEMM_PANEL * sizeof(float);
}

static size_t gradient_bytes(const struct conv_shape *s)
{
    return s->size * s->size * s->ci * panels(s->co) * GEMM_PANEL * sizeof(float);
}

/* Floats of copied rows of a run. */
static size_t rows_floats(const struct conv_shape *s)
{
    size_t most = s->ci > s->co ? s->ci : s->co;
    return s->size * ((RUN - 1) * s->stride + s->size) * most;
}

static size_t scratch_bytes(const struct conv_shape *s)
{
    size_t own = (2 * VALUES + 2 * rows_floats(s)) * sizeof(float);
    size_t pooled = VEC_NAME(conv_pooled_takes)(s) ? VEC_NAME(conv_pooled_scratch)() : 0;
    return own > pooled ? own : pooled;
}

/* ---- Weights ---- */

static size_t weights_at(const struct conv_shape *s, size_t channel)
{
    return channel * s->size * s->size * s->ci;
}

static void pack_panel(const float *hwio, size_t k, size_t co, size_t first, float *ret)
{
    size_t width = co - first < GEMM_PANEL ? co - first : GEMM_PANEL;
    for (size_t i = 0; i < k; i++, ret += GEMM_PANEL) {
        memcpy(ret, hwio + i * co + first, width * sizeof(float));
        memset(ret + width, 0, (GEMM_PANEL - width) * sizeof(float));
    }
}

static void weights(const struct conv_shape *s, const float *hwio, float *ret)
{
    size_t k = s->size * s->size * s->ci;
    for (size_t p = 0; p < panels(s->co); p++)
        pack_panel(hwio, k, s->co, p * GEMM_PANEL, ret + p * k * GEMM_PANEL);
}

/* Taps of the kernel along one axis that reach pixels r, r + stride, …; the first of them, and where the window begins. */
struct taps {
    size_t first, count;
    ptrdiff_t before;
};

static struct taps taps_of(const struct conv_shape *s, size_t r, size_t before)
{
    struct taps t = {.first = (r + before) % s->stride};
    t.count = t.first < s->size ? (s->size - t.first + s->stride - 1) / s->stride : 0;
    t.before = (ptrdiff_t)t.count - 1 - (ptrdiff_t)((r + before - t.first) / s->stride);
    return t;
}

/* Taps of one class, turned around, with rows of co and columns of ci: [ci / 16][row, column, co][16]. */
static void pack_class(const struct conv_shape *s, const float *hwio, const struct taps *rows, const struct taps *columns, float *ret)
{
    for (size_t first = 0; first < s->ci; first += GEMM_PANEL) {
        size_t width = s->ci - first < GEMM_PANEL ? s->ci - first : GEMM_PANEL;
        for (size_t i = rows->count; i-- > 0;)
            for (size_t k = columns->count; k-- > 0;) {
                const float *tap = hwio + ((rows->first + i * s->stride) * s->size + columns->first + k * s->stride) * s->ci * s->co;
                for (size_t o = 0; o < s->co; o++, ret += GEMM_PANEL)
                    for (size_t c = 0; c < GEMM_PANEL; c++)
                        ret[c] = c < width ? tap[(first + c) * s->co + o] : 0;
            }
    }
}

/* Classes are stored by the first tap of their rows and columns, whatever the padding. */
static void weights_back(const struct conv_shape *s, const float *hwio, float *ret)
{
    for (size_t y = 0; y < s->stride; y++)
        for (size_t x = 0; x < s->stride; x++) {
            struct taps rows = taps_of(s, y, 0), columns = taps_of(s, x, 0);
            pack_class(s, hwio, &rows, &columns, ret);
            ret += rows.count * columns.count * s->co * panels(s->ci) * GEMM_PANEL;
        }
}

/* ---- Rows ---- */

struct part {
    size_t rows, columns; /* of the kernel */
    size_t stride;
    ptrdiff_t top, left;
    size_t ci, co;
    const float *weights;
    size_t y0, x0, step;  /* output pixels (y0 + step · m, x0 + step · n), m < h, n < w */
    size_t h, w;
    struct ahead *ahead;
};

/* Rows of the input below a run, as if padded: pixel n of the run reads rows[i] + n · pitch. */
struct rows {
    const float *row[MAX_TAPS];
    size_t pitch;
};

static void find_rows(const struct conv_source *in, const struct part *p, size_t image, size_t m, size_t n, size_t count, float *copies,
                      struct rows *ret)
{
    ptrdiff_t y = (ptrdiff_t)(m * p->stride) - p->top, x = (ptrdiff_t)(n * p->stride) - p->left;
    size_t width = (count - 1) * p->stride + p->columns;
    bool inside = in->strides.pixel == p->ci && x >= 0 && (size_t)x + width <= in->w;
    ret->pitch = p->stride * p->ci;
    for (size_t i = 0; i < p->rows; i++, y++) {
        ret->row[i] = copies;
        if (inside && y >= 0 && (size_t)y < in->h) {
            ret->row[i] = in->data + image * in->strides.image + (size_t)y * in->strides.row + (size_t)x * p->ci;
            continue;
        }
        rows_copy(in, image, y, x, width, p->ci, copies);
        copies += width * p->ci;
    }
}

/* ---- Forward and data gradient ---- */

/* The product that makes pixels of a run from n on; two panels lie as packed. */
GEMM_INLINE struct product product_of(const struct rows *r, const struct part *p, size_t n, const float *panel)
{
    return (struct product){.source = r->row, .segments = p->rows, .at = n * r->pitch, .length = p->columns * p->ci, .step = r->pitch, .next = 1,
                            .panel = panel, .panel_pitch = GEMM_PANEL, .panel_gap = p->rows * p->columns * p->ci * GEMM_PANEL};
}

/* Panels of `out` lie RUN rows apart. */
GEMM_INLINE void multiply_panels(const struct rows *r, const struct part *p, size_t count, size_t panels_now, const float *panel, float *out)
{
    for (size_t n = 0, rows; n < count; n += rows) {
        const struct product product = product_of(r, p, n, panel);
        rows = product_rows(count - n);
        PRODUCT_TILE(rows, panels_now, false, &product, out + n * GEMM_PANEL, GEMM_PANEL, RUN * GEMM_PANEL);
        ahead_fetch(p->ahead);
    }
}

static void multiply(const struct rows *r, const struct part *p, size_t count, size_t panels_now, const float *panel, float *out)
{
    if (panels_now == 1)
        multiply_panels(r, p, count, 1, panel, out);
    else
        multiply_panels(r, p, count, PRODUCT_PANELS, panel, out);
}

/* `value` has the row, and VALUES floats after it the row below, where pooled. */
static void finish_run(const struct conv_job *j, struct epilogue_run r, const float *value)
{
    for (size_t c = 0, channels = r.channels; c < channels; c += VEC, r.first += VEC) {
        const float *from = value + c / GEMM_PANEL * RUN * GEMM_PANEL + c % GEMM_PANEL;
        r.channels = channels - c;
        if (j->epilogue == CONV_POOL)
            epilogue_pool_run(j, &r, from, from + VALUES, GEMM_PANEL);
        else
            epilogue_run(j, &r, from, GEMM_PANEL);
    }
}

/* The epilogue of a run, one or two vectors of channels, straight from the registers of the products. Two sums of each channel take turns. */
struct finish {
    struct epilogue_terms terms[PRODUCT_VECTORS];
    vec sum[PRODUCT_VECTORS][2], sum2[PRODUCT_VECTORS][2];
};

GEMM_INLINE void finish_vector(size_t rows, enum conv_epilogue kind, enum number number, size_t vector, size_t n, const vec *acc, struct finish *f)
{
    vec sum[2] = {f->sum[vector][0], f->sum[vector][1]}, sum2[2] = {f->sum2[vector][0], f->sum2[vector][1]};
    PRODUCT_UNROLL
    for (size_t i = 0; i < rows; i++)
        epilogue_one(&f->terms[vector], kind, number, true, n + i, acc[PRODUCT_VECTORS * i + vector], &sum[i % 2], &sum2[i % 2]);
    if (kind == CONV_CLAMP)
        return;
    f->sum[vector][0] = sum[0], f->sum[vector][1] = sum[1];
    f->sum2[vector][0] = sum2[0], f->sum2[vector][1] = sum2[1];
}

GEMM_INLINE void finished_tile(size_t rows, size_t panels, enum conv_epilogue kind, enum number number, const struct product *product, size_t n,
                               struct finish *f)
{
    vec acc[PRODUCT_VECTORS * PRODUCT_ROWS];
    product_zero(rows, acc);
    product_sum(rows, panels, product, acc);
    finish_vector(rows, kind, number, 0, n, acc, f);
    if (product_vectors(panels) > 1)
        finish_vector(rows, kind, number, 1, n, acc, f);
}

GEMM_INLINE void multiply_finished(const struct conv_job *j, size_t panels, enum conv_epilogue kind, enum number number, const struct rows *r,
                                   const struct part *p, const struct epilogue_run *e, const float *panel)
{
    const size_t vectors = product_vectors(panels);
    struct finish f;
    for (size_t v = 0; v < vectors; v++) {
        struct epilogue_run at = *e;
        at.channels = VEC;
        at.first += v * VEC;
        f.terms[v] = epilogue_terms_make(j, kind, number, true, &at);
        f.sum[v][0] = f.sum[v][1] = f.sum2[v][0] = f.sum2[v][1] = vec_zero();
    }
    for (size_t n = 0, rows; n < e->count; n += rows) {
        const struct product product = product_of(r, p, n, panel);
        rows = product_rows(e->count - n);
        PRODUCT_SWITCH(finished_tile, rows, panels, kind, number, &product, n, &f);
        ahead_fetch(p->ahead);
    }
    for (size_t v = 0; v < vectors && f.terms[0].sums; v++) {
        epilogue_add_sums(vec_add(f.sum[v][0], f.sum[v][1]), VEC, j->sum + e->first + v * VEC);
        epilogue_add_sums(vec_add(f.sum2[v][0], f.sum2[v][1]), VEC, j->sum2 + e->first + v * VEC);
    }
}

/* Panels of the run that were computed so, of up to `panels`: usual epilogues and numbers of whole panels. */
GEMM_INLINE size_t finished_panels(const struct conv_job *j, size_t panels, const struct rows *r, const struct part *p, const struct epilogue_run *e,
                                   const float *panel)
{
    if (j->epilogue == CONV_CLAMP && j->number == NUMBER_F32)
        multiply_finished(j, panels, CONV_CLAMP, NUMBER_F32, r, p, e, panel);
    else if (j->epilogue == CONV_RAW && j->number == NUMBER_F32)
        multiply_finished(j, panels, CONV_RAW, NUMBER_F32, r, p, e, panel);
    else if (j->epilogue == CONV_RAW && j->number == NUMBER_F16)
        multiply_finished(j, panels, CONV_RAW, NUMBER_F16, r, p, e, panel);
    else if (j->epilogue == CONV_GRADIENT && j->number == NUMBER_F32)
        multiply_finished(j, panels, CONV_GRADIENT, NUMBER_F32, r, p, e, panel);
    else if (j->epilogue == CONV_GRADIENT && j->number == NUMBER_F16)
        multiply_finished(j, panels, CONV_GRADIENT, NUMBER_F16, r, p, e, panel);
    else
        return 0;
    return panels;
}

static size_t try_finished(const struct conv_job *j, const struct rows *r, const struct part *p, const struct epilogue_run *e, const float *panel)
{
    if (PRODUCT_PANELS > 1 && e->channels >= PRODUCT_PANELS * GEMM_PANEL)
        return finished_panels(j, PRODUCT_PANELS, r, p, e, panel);
    return e->channels < GEMM_PANEL ? 0 : finished_panels(j, 1, r, p, e, panel);
}

/* `count` pixels from n of row m (and of the row after it, where pooled). */
static void convolve_run(const struct conv_job *j, const struct part *p, size_t image, size_t m, size_t n, size_t count, float *scratch)
{
    float *values = scratch, *copies = scratch + 2 * VALUES;
    size_t k = p->rows * p->columns * p->ci, times = j->epilogue == CONV_POOL ? 2 : 1;
    struct epilogue_run r = {.image = image, .y = p->y0 + m * p->step, .x = p->x0 + n * p->step, .step = p->step, .count = count};
    struct rows rows[2];
    for (size_t t = 0; t < times; t++)
        find_rows(&j->in, p, image, m + t, n, count, copies + t * rows_floats(&j->shape), &rows[t]);
    for (size_t first = 0, now; first < p->co; first += now * GEMM_PANEL) {
        r.first = first;
        now = p->co - first > GEMM_PANEL ? PRODUCT_PANELS : 1;
        r.channels = p->co - first < now * GEMM_PANEL ? p->co - first : now * GEMM_PANEL;
        size_t finished = try_finished(j, &rows[0], p, &r, p->weights + first * k);
        if (finished) {
            now = finished;
            continue;
        }
        for (size_t t = 0; t < times; t++)
            multiply(&rows[t], p, count, now, p->weights + first * k, values + t * VALUES);
        finish_run(j, r, values);
    }
}

static void run_part(const struct conv_job *j, const struct part *p, float *scratch)
{
    bool pool = j->epilogue == CONV_POOL;
    size_t h = pool ? p->h / 2 * 2 : p->h, w = pool ? p->w / 2 * 2 : p->w;
    for (size_t image = 0; image < j->images; image++)
        for (size_t m = 0; m < h; m += pool ? 2 : 1)
            for (size_t n = 0; n < w; n += RUN)
                convolve_run(j, p, image, m, n, w - n < RUN ? w - n : RUN, scratch);
}

static bool is_gapless(const struct conv_strides *s, size_t h, size_t w)
{
    return s->row == w * s->pixel && s->image == h * s->row;
}

static bool extra_is_gapless(const void *data, const struct conv_strides *s, size_t h, size_t w)
{
    return !data || is_gapless(s, h, w);
}

/* All pixels as one row, where nothing tells them apart. */
static struct conv_job join_pixels(const struct conv_job *j)
{
    struct conv_job r = *j;
    const struct conv_source *in = &j->in;
    if (j->shape.size == 1 && j->shape.stride == 1 && j->epilogue != CONV_POOL && in->top == 0 && in->left == 0 && in->h == j->h &&
        in->w == j->w && is_gapless(&in->strides, j->h, j->w) && is_gapless(&j->out_strides, j->h, j->w) &&
        extra_is_gapless(j->add.data, &j->add.strides, j->h, j->w) && extra_is_gapless(j->mask.data, &j->mask.strides, j->h, j->w) &&
        extra_is_gapless(j->z.data, &j->z.strides, j->h, j->w)) {
        r.w = r.in.w = j->images * j->h * j->w;
        r.images = r.h = r.in.h = 1;
    }
    return r;
}

static void conv(const struct conv_job *job, void *scratch)
{
    struct conv_job j = join_pixels(job);
    struct ahead ahead = ahead_make(&job->ahead, j.images * j.h * j.w / PRODUCT_ROWS * panels(j.shape.co));
    struct part p = {.rows = j.shape.size, .columns = j.shape.size, .stride = j.shape.stride, .top = (ptrdiff_t)j.in.top,
                     .left = (ptrdiff_t)j.in.left, .ci = j.shape.ci, .co = j.shape.co, .weights = j.weights, .step = 1, .h = j.h, .w = j.w,
                     .ahead = &ahead};
    run_part(&j, &p, scratch);
    epilogue_end(&j);
}

static void data(const struct conv_job *job, void *scratch)
{
    struct conv_job j = join_pixels(job);
    const struct conv_shape *s = &j.shape;
    const float *weights_at[MAX_TAPS + 1][MAX_TAPS + 1], *at = j.weights;
    struct ahead ahead = ahead_make(&job->ahead, j.images * j.h * j.w / PRODUCT_ROWS * panels(s->ci));
    for (size_t y = 0; y < s->stride; y++)
        for (size_t x = 0; x < s->stride; x++) {
            weights_at[y][x] = at;
            at += taps_of(s, y, 0).count * taps_of(s, x, 0).count * s->co * panels(s->ci) * GEMM_PANEL;
        }
    for (size_t y = 0; y < s->stride && y < j.h; y++)
        for (size_t x = 0; x < s->stride && x < j.w; x++) {
            struct taps rows = taps_of(s, y, j.in.top), columns = taps_of(s, x, j.in.left);
            bool none = rows.count == 0 || columns.count == 0;
            struct part p = {.rows = none ? 0 : rows.count, .columns = none ? 0 : columns.count, .stride = 1, .top = rows.before, .left = columns.before, .ci = s->co,
                             .co = s->ci, .weights = weights_at[rows.first][columns.first], .y0 = y, .x0 = x, .step = s->stride,
                             .h = (j.h - y + s->stride - 1) / s->stride, .w = (j.w - x + s->stride - 1) / s->stride, .ahead = &ahead};
            run_part(&j, &p, scratch);
        }
    epilogue_end(&j);
}

/* ---- Weight gradient ---- */

/* 16 channels of a run of the gradient, zeros where there are fewer. */
static void load_panel(const float *g, size_t pixel, size_t count, size_t channels, float *to)
{
    for (size_t c = 0; c < GEMM_PANEL; c += VEC) {
        const vec_lanes lanes = vec_first(channels > c ? channels - c : 0);
        for (size_t n = 0; n < count; n++)
            vec_store(to + n * GEMM_PANEL + c, channels > c ? vec_load_lanes(g + n * pixel + c, false, lanes) : vec_zero());
    }
}

/* Products of `length` values per pixel, `pitch` apart, with panels of the gradient, added to `sum`: tile rows are values of a pixel, the
 * sum goes over `count` pixels. Two panels: RUN rows apart in `panel`, `gap` floats in `sum`. */
static void gradient_tiles(const float *values, size_t length, size_t pitch, size_t count, const float *panel, size_t panels, struct ahead *ahead,
                           float *sum, size_t gap)
{
    for (size_t k = 0, tile; k < length; k += tile) {
        const struct product p = {.source = &values, .segments = 1, .at = k, .length = count, .step = 1, .next = pitch, .panel = panel,
                                  .panel_pitch = GEMM_PANEL, .panel_gap = RUN * GEMM_PANEL};
        tile = product_rows(length - k);
        if (panels == 1)
            PRODUCT_TILE(tile, 1, true, &p, sum + k * GEMM_PANEL, GEMM_PANEL, 0);
        else
            PRODUCT_TILE(tile, PRODUCT_PANELS, true, &p, sum + k * GEMM_PANEL, GEMM_PANEL, gap);
        ahead_fetch(ahead);
    }
}

/* Channels of a run in blocks of up to BLOCK, [block][pixel][channel]: those of 1 × 1 convolutions with many channels lie so far apart that
 * the pixels of a run would take each other's places in the cache. */
static void copy_blocks(const float *from, size_t pitch, size_t channels, size_t count, float *to)
{
    for (size_t c = 0; c < channels; c += BLOCK) {
        size_t width = channels - c < BLOCK ? channels - c : BLOCK;
        for (size_t n = 0; n < count; n++, to += width)
            memcpy(to, from + n * pitch + c, width * sizeof(float));
    }
}

/* Tile rows are (kernel column, input channel). */
static void gradient_run(const struct conv_weight_job *j, const struct part *p, size_t image, size_t m, size_t n, size_t count, float *scratch)
{
    const struct conv_strides *g = &j->gradient.strides;
    const float *dz = j->gradient.data + image * g->image + m * g->row + n * g->pixel;
    float *copies = scratch + 2 * VALUES;
    size_t length = p->columns * p->ci;
    bool blocks = p->rows * p->columns == 1 && p->ci >= BLOCK;
    struct rows rows;
    find_rows(&j->in, p, image, m, n, count, copies, &rows);
    if (blocks)
        copy_blocks(rows.row[0], rows.pitch, length, count, copies + rows_floats(&j->shape));
    for (size_t first = 0, now; first < p->co; first += now * GEMM_PANEL) {
        float *sum = j->sum + first * p->rows * length;
        size_t gap = p->rows * length * GEMM_PANEL;
        now = p->co - first > GEMM_PANEL ? PRODUCT_PANELS : 1;
        for (size_t k = 0, at = first; k < now; k++, at += GEMM_PANEL)
            load_panel(dz + at, g->pixel, count, p->co - at < GEMM_PANEL ? p->co - at : GEMM_PANEL, scratch + k * RUN * GEMM_PANEL);
        for (size_t i = 0; i < p->rows && !blocks; i++, sum += length * GEMM_PANEL)
            gradient_tiles(rows.row[i], length, rows.pitch, count, scratch, now, p->ahead, sum, gap);
        for (size_t c = 0, width; blocks && c < length; c += width) {
            width = length - c < BLOCK ? length - c : BLOCK;
            gradient_tiles(copies + rows_floats(&j->shape) + c * count, width, width, count, scratch, now, p->ahead, sum + c * GEMM_PANEL, gap);
        }
    }
}

static void weight_gradient(const struct conv_weight_job *job, void *scratch)
{
    struct conv_weight_job j = *job;
    if (j.shape.size == 1 && j.shape.stride == 1 && j.in.top == 0 && j.in.left == 0 && j.in.h == j.h && j.in.w == j.w &&
        is_gapless(&j.in.strides, j.h, j.w) && is_gapless(&j.gradient.strides, j.h, j.w)) {
        j.w = j.in.w = j.images * j.h * j.w;
        j.images = j.h = j.in.h = 1;
    }
    size_t length = j.shape.size * j.shape.ci, runs = j.images * j.h * ((j.w + RUN - 1) / RUN);
    struct ahead ahead = ahead_make(&job->ahead, runs * panels(j.shape.co) * j.shape.size * ((length + PRODUCT_ROWS - 1) / PRODUCT_ROWS));
    struct part p = {.rows = j.shape.size, .columns = j.shape.size, .stride = j.shape.stride, .top = (ptrdiff_t)j.in.top,
                     .left = (ptrdiff_t)j.in.left, .ci = j.shape.ci, .co = j.shape.co, .ahead = &ahead};
    for (size_t image = 0; image < j.images; image++)
        for (size_t m = 0; m < j.h; m++)
            for (size_t n = 0; n < j.w; n += RUN)
                gradient_run(&j, &p, image, m, n, j.w - n < RUN ? j.w - n : RUN, scratch);
}

static size_t gradient_panels(const struct conv_shape *s)
{
    return panels(s->co);
}

static void weight_gradient_finish(const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwio)
{
    size_t k = s->size * s->size * s->ci;
    for (size_t o = first * GEMM_PANEL; o < s->co && o < (first + count) * GEMM_PANEL; o += GEMM_PANEL) {
        const float *from = sum + o * k;
        size_t width = s->co - o < GEMM_PANEL ? s->co - o : GEMM_PANEL;
        for (size_t i = 0; i < k; i++)
            memcpy(ret_hwio + i * s->co + o, from + i * GEMM_PANEL, width * sizeof(float));
    }
}

const struct conv_kernel VEC_NAME(conv_direct) = {
    .name = VEC == 16 ? "direct (avx512)" : "direct",
    .numbers = true,
    .takes = takes,
    .weights_bytes = weights_bytes,
    .gradient_bytes = gradient_bytes,
    .scratch_bytes = scratch_bytes,
    .panel = GEMM_PANEL,
    .weights_at = weights_at,
    .weights = weights,
    .weights_back = weights_back,
    .conv = conv,
    .data = data,
    .weight_gradient = weight_gradient,
    .gradient_panels = gradient_panels,
    .weight_gradient_finish = weight_gradient_finish,
    .takes_pooled = VEC_NAME(conv_pooled_takes),
    .pooled_weight_gradient = VEC_NAME(conv_pooled_gradient),
    .takes_pooled_data = VEC_NAME(conv_pooled_takes_data),
    .pooled_data = VEC_NAME(conv_pooled_data),
};
