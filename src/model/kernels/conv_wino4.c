/* conv_wino4.c: the Winograd kernels as a candidate for 3 × 3 convolutions with stride 1. */
#include "base/cpu.h"
#include "model/kernels/direct.h"
#include "model/kernels/wino4.h"

#define WINO4_FREQUENCIES 36
#define FEWEST_CHANNELS 8 /* with fewer the transforms cost more than they save */

static bool takes(const struct conv_shape *s)
{
    return conv_is_plain(s) && s->size == 3 && s->stride == 1 && !s->depthwise && s->ci >= FEWEST_CHANNELS && s->co >= FEWEST_CHANNELS;
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

static size_t gradient_panels(const struct conv_shape *s)
{
    return (s->co + 15) / 16;
}

static size_t scratch_bytes(const struct conv_shape *s)
{
    return larger(wino4_scratch_bytes(s->ci, s->co), wino4_scratch_bytes(s->co, s->ci));
}

static size_t weights_at(const struct conv_shape *s, size_t channel)
{
    return channel * WINO4_FREQUENCIES * s->ci;
}

static struct conv_job turned(const struct conv_job *j)
{
    /* A convolution of the gradient with the kernels turned around: both channels swap, and so does the padding. */
    struct conv_job back = *j;
    back.shape.ci = j->shape.co;
    back.shape.co = j->shape.ci;
    back.in.top = 2 - j->in.top;
    back.in.left = 2 - j->in.left;
    return back;
}

static struct wino4_weight_gradient gradient_of(const struct conv_weight_job *j)
{
    return (struct wino4_weight_gradient){.images = j->images,
                                          .h = j->h,
                                          .w = j->w,
                                          .ci = j->shape.ci,
                                          .co = j->shape.co,
                                          .in = j->in,
                                          .gradient = j->gradient,
                                          .transformed = j->sum,
                                          .accumulate = true,
                                          .ahead = j->ahead};
}

/* The candidate of one level. */
#define LEVEL(level, features, title)                                                                                          \
    static struct wino4_kernels kernels_##level(void)                                                                          \
    {                                                                                                                          \
        struct wino4_kernels k;                                                                                                \
        wino4_kernels_init(&k, features);                                                                                      \
        return k;                                                                                                              \
    }                                                                                                                          \
    static void weights_##level(const struct conv_shape *s, const float *hwio, float *ret)                                     \
    {                                                                                                                          \
        kernels_##level().weights(hwio, s->ci, s->co, ret);                                                                    \
    }                                                                                                                          \
    static void weights_back_##level(const struct conv_shape *s, const float *hwio, float *ret)                                \
    {                                                                                                                          \
        kernels_##level().weights_back(hwio, s->ci, s->co, ret);                                                               \
    }                                                                                                                          \
    static void conv_##level(const struct conv_job *j, void *scratch)                                                          \
    {                                                                                                                          \
        kernels_##level().conv(j, scratch);                                                                                    \
    }                                                                                                                          \
    static void data_##level(const struct conv_job *j, void *scratch)                                                          \
    {                                                                                                                          \
        struct conv_job back = turned(j);                                                                                      \
        kernels_##level().conv(&back, scratch);                                                                                \
    }                                                                                                                          \
    static void gradient_##level(const struct conv_weight_job *j, void *scratch)                                               \
    {                                                                                                                          \
        struct wino4_weight_gradient g = gradient_of(j);                                                                       \
        kernels_##level().weight_gradient(&g, scratch);                                                                        \
    }                                                                                                                          \
    static void finish_##level(const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwio)            \
    {                                                                                                                          \
        kernels_##level().weight_gradient_finish(sum, s->ci, s->co, first, count, ret_hwio);                                   \
    }                                                                                                                          \
    const struct conv_kernel conv_wino4_##level = {.name = title,                                                              \
                                                   .numbers = (features) != 0,                                                 \
                                                   .takes = takes,                                                             \
                                                   .weights_bytes = weights_bytes,                                             \
                                                   .gradient_bytes = gradient_bytes,                                           \
                                                   .scratch_bytes = scratch_bytes,                                             \
                                                   .tile = 4,                                                                  \
                                                   .panel = 16,                                                                \
                                                   .weights_at = weights_at,                                                   \
                                                   .weights = weights_##level,                                                 \
                                                   .weights_back = weights_back_##level,                                       \
                                                   .conv = conv_##level,                                                       \
                                                   .data = data_##level,                                                       \
                                                   .weight_gradient = gradient_##level,                                        \
                                                   .gradient_panels = gradient_panels,                                         \
                                                   .weight_gradient_finish = finish_##level}

LEVEL(c, 0, "winograd 4×4 (C)");
#ifdef __x86_64__
LEVEL(avx2, CPU_AVX2, "winograd 4×4");
LEVEL(avx512, CPU_AVX2 | CPU_AVX512, "winograd 4×4 (avx512)");

/* ---- Few input channels: results by Winograd, weight gradients directly ---- */

static bool takes_few(const struct conv_shape *s)
{
    return conv_is_plain(s) && s->size == 3 && s->stride == 1 && !s->depthwise && s->ci <= 4 && s->co >= FEWEST_CHANNELS;
}

#define FEW(level, title)                                                                                                      \
    static size_t gradient_bytes_few_##level(const struct conv_shape *s)                                                       \
    {                                                                                                                          \
        return conv_direct_##level.gradient_bytes(s);                                                                          \
    }                                                                                                                          \
    static size_t scratch_bytes_few_##level(const struct conv_shape *s)                                                        \
    {                                                                                                                          \
        return larger(scratch_bytes(s), conv_direct_##level.scratch_bytes(s));                                                 \
    }                                                                                                                          \
    static void gradient_few_##level(const struct conv_weight_job *j, void *scratch)                                           \
    {                                                                                                                          \
        conv_direct_##level.weight_gradient(j, scratch);                                                                       \
    }                                                                                                                          \
    static void finish_few_##level(const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwio)        \
    {                                                                                                                          \
        conv_direct_##level.weight_gradient_finish(s, sum, first, count, ret_hwio);                                            \
    }                                                                                                                          \
    const struct conv_kernel conv_wino4_few_##level = {.name = title,                                                          \
                                                       .numbers = true,                                                        \
                                                       .takes = takes_few,                                                     \
                                                       .weights_bytes = weights_bytes,                                         \
                                                       .gradient_bytes = gradient_bytes_few_##level,                           \
                                                       .scratch_bytes = scratch_bytes_few_##level,                             \
                                                       .conv_scratch_bytes = scratch_bytes,                                    \
                                                       .tile = 4,                                                              \
                                                       .panel = 16,                                                            \
                                                       .weights_at = weights_at,                                               \
                                                       .weights = weights_##level,                                             \
                                                       .weights_back = weights_back_##level,                                   \
                                                       .conv = conv_##level,                                                   \
                                                       .data = data_##level,                                                   \
                                                       .weight_gradient = gradient_few_##level,                                \
                                                       .gradient_panels = gradient_panels,                                     \
                                                       .weight_gradient_finish = finish_few_##level,                           \
                                                       .takes_pooled = conv_pooled_takes_##level,                              \
                                                       .pooled_weight_gradient = conv_pooled_gradient_##level}
FEW(avx2, "winograd 4×4, few channels");
FEW(avx512, "winograd 4×4, few channels (avx512)");
#endif
