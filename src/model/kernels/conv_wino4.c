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

static void conv(const struct conv_job *j, void *scratch)
{
    kernels().conv(j, scratch);
}

/* A convolution of the gradient with the kernels turned around: both channels swap, and so does the padding. */
static void data(const struct conv_job *j, void *scratch)
{
    struct conv_job turned = *j;
    turned.shape.ci = j->shape.co;
    turned.shape.co = j->shape.ci;
    turned.in.top = 2 - j->in.top;
    turned.in.left = 2 - j->in.left;
    kernels().conv(&turned, scratch);
}

static void weight_gradient(const struct conv_weight_job *j, void *scratch)
{
    struct wino4_weight_gradient g = {.images = j->images,
                                      .h = j->h,
                                      .w = j->w,
                                      .ci = j->shape.ci,
                                      .co = j->shape.co,
                                      .in = j->in,
                                      .gradient = j->gradient,
                                      .transformed = j->sum,
                                      .accumulate = true};
    kernels().weight_gradient(&g, scratch);
}

static void finish(const struct conv_shape *s, const float *sum, float *ret_hwio)
{
    kernels().weight_gradient_finish(sum, s->ci, s->co, ret_hwio);
}

const struct conv_kernel conv_wino4 = {.name = "winograd 4×4",
                                       .takes = takes,
                                       .weights_bytes = weights_bytes,
                                       .gradient_bytes = gradient_bytes,
                                       .scratch_bytes = scratch_bytes,
                                       .weights = weights,
                                       .weights_back = weights_back,
                                       .conv = conv,
                                       .data = data,
                                       .weight_gradient = weight_gradient,
                                       .weight_gradient_finish = finish};
