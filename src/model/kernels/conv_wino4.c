/* conv_wino4.c: the Winograd kernels as a candidate for 3 × 3 convolutions with stride 1. */
#include "base/cpu.h"
#include "model/kernels/direct.h"
#include "model/kernels/wino4.h"

#include <string.h>

#define FEWEST_CHANNELS 8 /* with fewer the transforms cost more than they save */

static bool takes(const struct conv_shape *s)
{
    return s->size == 3 && s->stride == 1 && !s->depthwise && s->ci >= FEWEST_CHANNELS && s->co >= FEWEST_CHANNELS;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t weights_bytes(const struct conv_shape *s)
{
    return larger(wino4_weights_bytes(s->ci, s->co), wino4_weights_bytes(s->co, s->ci));
}

static size_t gradient_bytes(const struct conv_shape *s)
{
    return wino4_weights_bytes(s->ci, s->co);
}

static size_t scratch_bytes(const struct conv_shape *s)
{
    return larger(wino4_scratch_bytes(s->ci, s->co), wino4_scratch_bytes(s->co, s->ci));
}

static struct wino4_kernels kernels(void)
{
    struct wino4_kernels k;
    wino4_kernels_init(&k, cpu_features());
    return k;
}

static void weights(const struct conv_shape *s, const float *hwio, float *ret)
{
    kernels().weights(hwio, s->ci, s->co, ret);
}

static void weights_back(const struct conv_shape *s, const float *hwio, float *ret)
{
    kernels().weights_back(hwio, s->ci, s->co, ret);
}

static struct wino4_strides strides(const struct conv_strides *s)
{
    return (struct wino4_strides){s->image, s->row, s->pixel};
}

static struct wino4_extra extra(const struct conv_extra *e)
{
    return (struct wino4_extra){e->data, strides(&e->strides)};
}

static void run(const struct conv_job *j, size_t ci, size_t co, size_t top, size_t left, void *scratch)
{
    struct wino4_conv c = {.images = j->images, .h = j->h, .w = j->w, .ci = ci, .co = co,
        .in = {.data = j->in.data, .strides = strides(&j->in.strides), .h = j->in.h, .w = j->in.w, .top = top, .left = left},
        .weights = j->weights, .epilogue = (enum wino4_epilogue)j->epilogue, .out = j->out, .out_strides = strides(&j->out_strides),
        .shift = j->shift, .sum = j->sum, .sum2 = j->sum2, .bias = j->bias, .low = j->low, .high = j->high, .argmax = j->argmax,
        .argmax_strides = strides(&j->argmax_strides), .add = extra(&j->add), .mask = extra(&j->mask), .z = extra(&j->z)};
    kernels().conv(&c, scratch);
}

static void conv(const struct conv_job *j, void *scratch)
{
    run(j, j->shape.ci, j->shape.co, j->in.top, j->in.left, scratch);
}

static void data(const struct conv_job *j, void *scratch)
{
    run(j, j->shape.co, j->shape.ci, 2 - j->in.top, 2 - j->in.left, scratch);
}

static void weight_gradient(const struct conv_weight_job *j, void *scratch)
{
    struct wino4_weight_gradient g = {.images = j->images, .h = j->h, .w = j->w, .ci = j->shape.ci, .co = j->shape.co,
        .in = {.data = j->in.data, .strides = strides(&j->in.strides), .h = j->in.h, .w = j->in.w, .top = j->in.top, .left = j->in.left},
        .gradient = extra(&j->gradient), .transformed = j->sum, .accumulate = true};
    kernels().weight_gradient(&g, scratch);
}

static void finish(const struct conv_shape *s, const float *sum, float *ret_hwio)
{
    kernels().weight_gradient_finish(sum, s->ci, s->co, ret_hwio);
}

const struct conv_kernel conv_wino4 = {.name = "winograd 4×4", .takes = takes, .weights_bytes = weights_bytes, .gradient_bytes = gradient_bytes,
    .scratch_bytes = scratch_bytes, .weights = weights, .weights_back = weights_back, .conv = conv, .data = data,
    .weight_gradient = weight_gradient, .weight_gradient_finish = finish};
