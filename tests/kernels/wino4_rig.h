/* wino4_rig.h: what the tests of the Winograd kernels stand on: tensors with gaps, a convolution and its exact results, errors. */
#ifndef TESTS_WINO4_RIG_H
#define TESTS_WINO4_RIG_H

#include "base/random.h"
#include "harness.h"
#include "model/kernels/wino4.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tensors ---- */

struct tensor {
    float *data;
    struct conv_strides strides;
    size_t images, h, w, c, size;
};

static void *allocate_aligned(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n ? n : 64) != 0)
        abort();
    return p;
}

/* With random gaps when `r` is not NULL. Filled with the pattern. */
static struct tensor tensor_make(struct random *r, size_t images, size_t h, size_t w, size_t c)
{
    struct tensor t = {.images = images, .h = h, .w = w, .c = c};
    t.strides.pixel = c + (r && random_below(r, 2) ? random_below(r, 9) : 0);
    t.strides.row = w * t.strides.pixel + (r ? random_below(r, 9) : 0);
    t.strides.image = h * t.strides.row + (r ? random_below(r, 9) : 0);
    t.size = images * h * w == 0 ? 0 : (images - 1) * t.strides.image + (h - 1) * t.strides.row + (w - 1) * t.strides.pixel + c;
    t.data = r ? allocate(t.size * sizeof(float)) : allocate_aligned(t.size * sizeof(float));
    memset(t.data, CANARY, t.size * sizeof(float));
    return t;
}

static float *at(const struct tensor *t, size_t n, size_t y, size_t x)
{
    return t->data + n * t->strides.image + y * t->strides.row + x * t->strides.pixel;
}

static float random_value(struct random *r)
{
    return (float)(random_unit(r) + random_unit(r) + random_unit(r) - 1.5);
}

static struct tensor tensor_random(struct random *r, bool gaps, size_t images, size_t h, size_t w, size_t c)
{
    struct tensor t = tensor_make(gaps ? r : NULL, images, h, w, c);
    for (size_t n = 0; n < images; n++)
        for (size_t y = 0; y < h; y++)
            for (size_t x = 0; x < w; x++)
                for (size_t k = 0; k < c; k++)
                    at(&t, n, y, x)[k] = random_value(r);
    return t;
}

static void tensor_copy(struct tensor *to, const struct tensor *from)
{
    for (size_t n = 0; n < from->images; n++)
        for (size_t y = 0; y < from->h; y++)
            for (size_t x = 0; x < from->w; x++)
                memcpy(at(to, n, y, x), at(from, n, y, x), from->c * sizeof(float));
}

/* Whether everything between the elements still holds the pattern. */
static bool gaps_kept(const struct tensor *t)
{
    uint8_t *copy = allocate(t->size * sizeof(float));
    memcpy(copy, t->data, t->size * sizeof(float));
    for (size_t n = 0; n < t->images; n++)
        for (size_t y = 0; y < t->h; y++)
            for (size_t x = 0; x < t->w; x++)
                memset(copy + (size_t)((const uint8_t *)at(t, n, y, x) - (const uint8_t *)t->data), CANARY,
                       t->c * sizeof(float));
    bool kept = true;
    for (size_t i = 0; i < t->size * sizeof(float); i++)
        kept &= copy[i] == CANARY;
    free(copy);
    return kept;
}

static float *random_floats(struct random *r, size_t n)
{
    float *p = allocate(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        p[i] = random_value(r);
    return p;
}

/* ---- Exact results ---- */

/* One convolution layer: x (ih × iw × ci), padded by `pad`, with w to z (h × w × co). */
struct problem {
    size_t images, h, w, ci, co, pad, ih, iw;
    struct tensor x, dz;
    float *kernels;
    double *z, *dx, *dw; /* exact */
};

static void exact_all(struct problem *p)
{
    p->z = calloc(p->images * p->h * p->w * p->co, sizeof(double));
    p->dx = calloc(p->images * p->ih * p->iw * p->ci, sizeof(double));
    p->dw = calloc(9 * p->ci * p->co, sizeof(double));
    if (!p->z || !p->dx || !p->dw)
        abort();
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = 0; y < p->h; y++)
            for (size_t x = 0; x < p->w; x++)
                for (size_t tap = 0; tap < 9; tap++) {
                    size_t row = y + tap / 3 - p->pad, column = x + tap % 3 - p->pad;
                    if (row >= p->ih || column >= p->iw)
                        continue;
                    const float *in = at(&p->x, n, row, column), *g = at(&p->dz, n, y, x);
                    double *z = p->z + ((n * p->h + y) * p->w + x) * p->co;
                    double *dx = p->dx + ((n * p->ih + row) * p->iw + column) * p->ci;
                    for (size_t i = 0; i < p->ci; i++) {
                        const float *w = p->kernels + (tap * p->ci + i) * p->co;
                        double *dw = p->dw + (tap * p->ci + i) * p->co, value = (double)in[i], sum = 0;
                        for (size_t o = 0; o < p->co; o++) {
                            z[o] += value * (double)w[o];
                            sum += (double)g[o] * (double)w[o];
                            dw[o] += value * (double)g[o];
                        }
                        dx[i] += sum;
                    }
                }
}

static struct problem problem_make(struct random *r, bool gaps, size_t images, size_t h, size_t w, size_t ci, size_t co,
                                   size_t pad)
{
    struct problem p = {.images = images, .h = h, .w = w, .ci = ci, .co = co, .pad = pad};
    p.ih = h + 2 - 2 * pad;
    p.iw = w + 2 - 2 * pad;
    p.x = tensor_random(r, gaps, images, p.ih, p.iw, ci);
    p.dz = tensor_random(r, gaps, images, h, w, co);
    p.kernels = random_floats(r, 9 * ci * co);
    exact_all(&p);
    return p;
}

static void problem_free(struct problem *p)
{
    free(p->x.data);
    free(p->dz.data);
    free(p->kernels);
    free(p->z);
    free(p->dx);
    free(p->dw);
}

static struct conv_job forward_of(const struct problem *p, const float *weights)
{
    return (struct conv_job){.images = p->images,
                             .h = p->h,
                             .w = p->w,
                             .shape = {.size = 3, .stride = 1, .ci = p->ci, .co = p->co},
                             .in = {p->x.data, p->x.strides, p->ih, p->iw, p->pad, p->pad},
                             .weights = weights,
                             .low = -INFINITY,
                             .high = INFINITY};
}

static struct conv_job back_of(const struct problem *p, const float *weights)
{
    return (struct conv_job){.images = p->images,
                             .h = p->ih,
                             .w = p->iw,
                             .shape = {.size = 3, .stride = 1, .ci = p->co, .co = p->ci},
                             .in = {p->dz.data, p->dz.strides, p->h, p->w, 2 - p->pad, 2 - p->pad},
                             .weights = weights,
                             .epilogue = CONV_GRADIENT,
                             .low = -INFINITY,
                             .high = INFINITY};
}

static struct wino4_weight_gradient gradient_of(const struct problem *p, float *transformed)
{
    return (struct wino4_weight_gradient){.images = p->images,
                                          .h = p->h,
                                          .w = p->w,
                                          .ci = p->ci,
                                          .co = p->co,
                                          .in = {p->x.data, p->x.strides, p->ih, p->iw, p->pad, p->pad},
                                          .gradient = {p->dz.data, p->dz.strides},
                                          .transformed = transformed};
}

/* ---- Comparison ---- */

struct error {
    double square, reference;
};

static void error_add(struct error *e, double got, double want)
{
    e->square += (got - want) * (got - want);
    e->reference += want * want;
}

static double error_rms(const struct error *e)
{
    return e->square == 0 ? 0 : sqrt(e->square / e->reference);
}

static double error_of(const struct tensor *t, const double *want)
{
    struct error e = {0, 0};
    for (size_t n = 0; n < t->images; n++)
        for (size_t y = 0; y < t->h; y++)
            for (size_t x = 0; x < t->w; x++)
                for (size_t c = 0; c < t->c; c++)
                    error_add(&e, (double)at(t, n, y, x)[c], *want++);
    return error_rms(&e);
}

static double worst_forward, worst_gradient; /* over all tests */

static void check_error(double error, double tolerance, double *worst, const char *level, const char *what,
                        const struct problem *p)
{
    *worst = fmax(*worst, error);
    CHECK_MSG(error <= tolerance, "%s, %s: error %.2e: %zu × %zu × %zu × %zu to %zu, pad %zu", level, what, error, p->images,
              p->h, p->w, p->ci, p->co, p->pad);
}

/* Scratch and weights of one level, with canaries after both. */
struct bench_memory {
    float *weights, *back, *transformed;
    uint8_t *scratch;
    size_t weights_size, back_size, scratch_size;
};

static struct bench_memory memory_make(const struct wino4_kernels *k, const struct problem *p)
{
    struct bench_memory m = {.weights_size = wino4_weights_bytes(p->ci, p->co),
                             .back_size = wino4_weights_bytes(p->co, p->ci),
                             .scratch_size = wino4_scratch_bytes(p->ci, p->co)};
    m.weights = allocate_aligned(m.weights_size + 64);
    m.back = allocate_aligned(m.back_size + 64);
    m.transformed = allocate_aligned(m.weights_size + 64);
    m.scratch = allocate_aligned(m.scratch_size + 64);
    memset((uint8_t *)m.weights + m.weights_size, CANARY, 64);
    memset((uint8_t *)m.back + m.back_size, CANARY, 64);
    memset((uint8_t *)m.transformed + m.weights_size, CANARY, 64);
    memset(m.scratch, 0xff, m.scratch_size); /* NaN: nothing may be read before it is written */
    memset(m.scratch + m.scratch_size, CANARY, 64);
    k->weights(p->kernels, p->ci, p->co, m.weights);
    k->weights_back(p->kernels, p->ci, p->co, m.back);
    return m;
}

static bool memory_free(struct bench_memory *m)
{
    bool kept = true;
    for (size_t i = 0; i < 64; i++)
        kept &= ((uint8_t *)m->weights)[m->weights_size + i] == CANARY && ((uint8_t *)m->back)[m->back_size + i] == CANARY &&
                ((uint8_t *)m->transformed)[m->weights_size + i] == CANARY && m->scratch[m->scratch_size + i] == CANARY;
    free(m->weights);
    free(m->back);
    free(m->transformed);
    free(m->scratch);
    return kept;
}

static void check_sum(const char *level, const char *what, double got, double want, double size)
{
    CHECK_MSG(fabs(got - want) <= 2e-6 * size + 1e-12, "%s, %s: sum %.9g, expected %.9g of terms of %.3g in all", level, what,
              got, want, size);
}

#endif
