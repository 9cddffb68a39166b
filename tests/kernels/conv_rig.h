/* conv_rig.h: random convolutions for the tests of their kernels: tensors with gaps, one task for every pass, and what a kernel answers. */
#ifndef KERNELS_CONV_RIG_H
#define KERNELS_CONV_RIG_H

#include "base/random.h"
#include "levels.h"
#include "model/kernels/conv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Tensors ---- */

struct tensor {
    float *data;
    struct conv_strides strides;
    size_t count;
};

static void *allocate_aligned(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!p)
        abort();
    return p;
}

/* With gaps of up to `gap` values after pixels, rows and images; ends with its last value. */
static struct tensor tensor_make(struct random *r, size_t images, size_t h, size_t w, size_t channels, size_t gap)
{
    struct tensor t;
    t.strides.pixel = channels + random_below(r, gap + 1);
    t.strides.row = w * t.strides.pixel + random_below(r, gap + 1);
    t.strides.image = h * t.strides.row + random_below(r, gap + 1);
    t.count = (images - 1) * t.strides.image + (h - 1) * t.strides.row + (w - 1) * t.strides.pixel + channels;
    t.data = allocate(t.count * sizeof(float));
    for (size_t i = 0; i < t.count; i++)
        t.data[i] = (float)random_between(r, -1, 1);
    return t;
}

static float *random_floats(struct random *r, size_t count)
{
    float *p = allocate(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        p[i] = (float)random_between(r, -1, 1);
    return p;
}

/* Root mean square of the difference over that of the values; few values that nearly cancel count as 0.03 each. */
static double distance(const float *a, const float *b, size_t count)
{
    double difference = 0, size = 1e-3 * (double)count;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)a[i] * a[i];
    }
    return sqrt(difference / size);
}

static double distance_sums(const double *a, const double *b, size_t count)
{
    double difference = 0, size = 1e-20;
    for (size_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += a[i] * a[i];
    }
    return sqrt(difference / size);
}

/* ---- One convolution ---- */

/* Pixels that a window spans. */
static size_t reach_of(const struct conv_shape *s)
{
    return (s->size - 1) * conv_dilation(s) + 1;
}

static size_t weights_of(const struct conv_shape *s)
{
    return s->size * s->size * s->ci / conv_groups(s) * (s->depthwise ? 1 : s->co);
}

/* For messages. */
static const char *name_of(const struct conv_shape *s)
{
    static char name[160];
    snprintf(name, sizeof(name), "%zu × %zu%s stride %zu, %zu groups, dilation %zu, %zu to %zu channels", s->size, s->size, s->depthwise ? " depthwise" : "",
             s->stride, conv_groups(s), conv_dilation(s), s->ci, s->co);
    return name;
}

struct task {
    struct conv_shape shape;
    size_t images, in_h, in_w, out_h, out_w, top, left;
    enum conv_epilogue epilogue;
    float low, high;
    bool sums, with_bias, with_shift, with_add, with_mask, streams;
    size_t skew; /* of the result from a line of memory, in values */
    struct tensor in, dz, add, mask, z, to, pooled;
    float *weights, *bias, *shift;
};

struct answer {
    float *out;
    uint8_t *argmax;
    double *sums; /* 2 per channel */
    size_t count, argmax_count;
};

/* `plain`: without padding, and an even number of rows and columns. */
static struct task task_make(struct random *r, const struct conv_shape *shape, size_t most, size_t gap, bool plain)
{
    struct task t = {.shape = *shape, .images = 1 + random_below(r, 3)};
    size_t after_y, after_x, reach = reach_of(shape);
    do {
        t.in_h = 1 + random_below(r, most);
        t.in_w = 1 + random_below(r, most);
        t.top = random_below(r, reach + 3); /* padding may be wider than the kernel */
        t.left = random_below(r, reach + 3);
        after_y = random_below(r, reach);
        after_x = random_below(r, reach);
        if (plain) {
            t.top = t.left = after_y = after_x = 0;
            t.in_h = (t.in_h + 1) / 2 * 2;
            t.in_w = (t.in_w + 1) / 2 * 2;
        }
    } while (t.in_h + t.top + after_y < reach || t.in_w + t.left + after_x < reach);
    t.out_h = (t.in_h + t.top + after_y - reach) / shape->stride + 1;
    t.out_w = (t.in_w + t.left + after_x - reach) / shape->stride + 1;
    t.low = random_below(r, 2) ? 0 : -INFINITY;
    t.high = random_below(r, 2) ? 0.5f : INFINITY;
    t.sums = random_below(r, 2);
    t.with_bias = random_below(r, 2);
    t.with_shift = random_below(r, 2);
    t.streams = random_below(r, 2);
    t.skew = random_below(r, 2) ? 0 : random_below(r, 16);
    t.with_add = random_below(r, 2);
    t.with_mask = random_below(r, 2);
    t.in = tensor_make(r, t.images, t.in_h, t.in_w, shape->ci, gap);
    t.dz = tensor_make(r, t.images, t.out_h, t.out_w, shape->co, gap);
    t.add = tensor_make(r, t.images, t.in_h, t.in_w, shape->ci, gap);
    t.mask = tensor_make(r, t.images, t.in_h, t.in_w, shape->ci, gap);
    t.z = tensor_make(r, t.images, t.in_h, t.in_w, shape->ci, gap);
    size_t widest = shape->ci > shape->co ? shape->ci : shape->co;
    t.weights = random_floats(r, weights_of(shape));
    t.bias = random_floats(r, widest);
    t.shift = random_floats(r, widest);
    return t;
}

static void task_free(struct task *t)
{
    free(t->in.data), free(t->dz.data), free(t->add.data), free(t->mask.data), free(t->z.data);
    free(t->weights), free(t->bias), free(t->shift);
}

#define GUARD 64

/* Runs forward (or the data gradient) with `k`; the result has the strides of a tensor without gaps plus `pitch` values per pixel. */
static struct answer convolve(const struct conv_kernel *k, const struct task *t, bool back, size_t pitch)
{
    size_t channels = back ? t->shape.ci : t->shape.co, h = back ? t->in_h : t->out_h, w = back ? t->in_w : t->out_w;
    bool pool = t->epilogue == CONV_POOL;
    size_t oh = pool ? h / 2 : h, ow = pool ? w / 2 : w;
    struct answer a = {.count = t->images * oh * ow * (channels + pitch) + t->skew + 2 * GUARD};
    a.out = allocate_aligned(a.count * sizeof(float));
    a.argmax = allocate(a.count);
    a.sums = allocate(2 * channels * sizeof(double));
    memset(a.out, CANARY, a.count * sizeof(float));
    memset(a.argmax, CANARY, a.count);
    for (size_t i = 0; i < 2 * channels; i++)
        a.sums[i] = 0.25;
    float *packed = allocate_aligned(k->weights_bytes(&t->shape));
    void *scratch = allocate_aligned(k->scratch_bytes(&t->shape));
    struct conv_strides out = {.pixel = channels + pitch, .row = ow * (channels + pitch), .image = oh * ow * (channels + pitch)};
    const struct tensor *from = back ? &t->dz : &t->in;
    struct conv_job j = {.shape = t->shape, .images = t->images, .h = h, .w = w, .weights = packed, .epilogue = t->epilogue,
        .in = {from->data, from->strides, back ? t->out_h : t->in_h, back ? t->out_w : t->in_w, t->top, t->left},
        .out = a.out + GUARD + t->skew, .out_strides = out, .argmax = a.argmax + GUARD, .argmax_strides = out, .low = t->low, .high = t->high,
        .bias = t->with_bias ? t->bias : NULL, .shift = t->with_shift ? t->shift : NULL, .streams = t->streams};
    if (t->sums)
        j.sum = a.sums, j.sum2 = a.sums + channels;
    if (t->epilogue == CONV_GRADIENT) {
        if (t->with_add)
            j.add = (struct conv_numbers){t->add.data, t->add.strides};
        if (t->with_mask)
            j.mask = (struct conv_extra){t->mask.data, t->mask.strides};
        j.z = (struct conv_numbers){t->z.data, t->z.strides};
    }
    if (t->epilogue == CONV_CLAMP && t->with_add)
        j.add = (struct conv_numbers){t->dz.data, t->dz.strides};
    if (t->epilogue == CONV_POOL && t->with_mask)
        j.argmax = NULL;
    (back ? k->weights_back : k->weights)(&t->shape, t->weights, packed);
    (back ? k->data : k->conv)(&j, scratch);
    free(packed), free(scratch);
    return a;
}

static void answer_free(struct answer *a)
{
    free(a->out), free(a->argmax), free(a->sums);
}

#endif
