/* conv_apart.c: convolutions with groups or dilation, as several ordinary ones whose channels or pixels lie apart, by the kernels for those.
 *
 * Groups: one convolution per group, of some channels of every pixel. Groups of few channels are taken together up to a panel, with zeros in
 * the weights between them: kernels would fill the panel with zeros anyway.
 *
 * Dilation d, stride 1: outputs whose row and column have the same remainders by d read every d-th pixel of every d-th row, so that d² smaller
 * images are convolved with the same weights. */
#include "base/cpu.h"
#include "model/kernels/direct.h"

#include <string.h>

#ifdef __x86_64__

#define PANEL 16 /* channels that kernels compute together */

struct parts {
    struct conv_shape shape; /* of one part */
    size_t groups, joined;   /* parts side by side in the channels, and how many groups each has */
    size_t dilation;
};

static struct parts parts_of(const struct conv_shape *s)
{
    struct parts p = {.shape = *s, .groups = conv_groups(s), .joined = 1, .dilation = conv_dilation(s)};
    size_t ci = s->ci / p.groups, co = s->co / p.groups, larger = ci > co ? ci : co;
    for (size_t k = 2; k * larger <= PANEL && k <= p.groups; k++)
        if (p.groups % k == 0)
            p.joined = k;
    p.groups /= p.joined;
    p.shape.ci = ci * p.joined;
    p.shape.co = co * p.joined;
    p.shape.groups = p.shape.dilation = 0;
    return p;
}

static bool takes(const struct conv_kernel *k, const struct conv_shape *s)
{
    if (conv_is_plain(s) || !s->ci || s->ci % conv_groups(s) || s->co % conv_groups(s) || (conv_dilation(s) > 1 && s->stride > 1))
        return false;
    struct parts p = parts_of(s);
    return k->takes(&p.shape);
}

/* ---- Weights: those of each part, one after the other; where there are groups, then room for one part's in HWIO ---- */

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t hwio_floats(const struct parts *p)
{
    return p->shape.size * p->shape.size * p->shape.ci * p->shape.co;
}

static size_t part_floats(const struct conv_kernel *k, const struct parts *p)
{
    return round_up(k->weights_bytes(&p->shape)) / sizeof(float);
}

static bool has_groups(const struct conv_shape *s)
{
    return conv_groups(s) > 1;
}

static size_t weights_bytes(const struct conv_kernel *k, const struct conv_shape *s)
{
    struct parts p = parts_of(s);
    return (p.groups * part_floats(k, &p) + (has_groups(s) ? hwio_floats(&p) : 0)) * sizeof(float);
}

/* Where the weights of a tap and an input channel of group `group` lie in the whole HWIO: those of the group's outputs. */
static size_t row_at(const struct parts *p, const struct conv_shape *s, size_t group, size_t tap, size_t channel)
{
    return (tap * (p->shape.ci / p->joined) + channel) * s->co + group * (p->shape.co / p->joined);
}

/* The weights of a part from the whole HWIO. */
static void gather(const struct parts *p, const struct conv_shape *s, const float *hwio, size_t part, float *own)
{
    size_t ci = p->shape.ci / p->joined, co = p->shape.co / p->joined;
    memset(own, 0, hwio_floats(p) * sizeof(float));
    for (size_t t = 0; t < s->size * s->size; t++)
        for (size_t k = 0; k < p->joined; k++)
            for (size_t c = 0; c < ci; c++, own += p->shape.co)
                memcpy(own + k * co, hwio + row_at(p, s, part * p->joined + k, t, c), co * sizeof(float));
}

/* And back. */
static void scatter(const struct parts *p, const struct conv_shape *s, const float *own, size_t part, float *ret_hwio)
{
    size_t ci = p->shape.ci / p->joined, co = p->shape.co / p->joined;
    for (size_t t = 0; t < s->size * s->size; t++)
        for (size_t k = 0; k < p->joined; k++)
            for (size_t c = 0; c < ci; c++, own += p->shape.co)
                memcpy(ret_hwio + row_at(p, s, part * p->joined + k, t, c), own + k * co, co * sizeof(float));
}

static void pack(const struct conv_kernel *k, const struct conv_shape *s, const float *hwio, bool back, float *ret)
{
    struct parts p = parts_of(s);
    size_t each = part_floats(k, &p);
    float *own = ret + p.groups * each;
    for (size_t i = 0; i < p.groups; i++, ret += each) {
        if (has_groups(s))
            gather(&p, s, hwio, i, own);
        (back ? k->weights_back : k->weights)(&p.shape, has_groups(s) ? own : hwio, ret);
    }
}

/* ---- Parts of a job ---- */

/* Every `step`-th output along one axis from `first` on: how many, and the input that their windows see. */
struct phase {
    size_t outputs;
    size_t first_input, inputs, before;
};

static size_t count_of(size_t count, size_t first, size_t step)
{
    return count > first ? (count - first + step - 1) / step : 0;
}

static struct phase phase_of(size_t first, size_t step, size_t outputs, size_t inputs, size_t before)
{
    struct phase p = {.outputs = count_of(outputs, first, step), .before = first < before ? (before - first + step - 1) / step : 0};
    p.first_input = first + p.before * step - before;
    p.inputs = count_of(inputs, p.first_input, step);
    return p;
}

static void step_strides(struct conv_strides *s, size_t step)
{
    s->row *= step;
    s->pixel *= step;
}

static const void *skip(const void *data, enum number number, const struct conv_strides *s, size_t y, size_t x)
{
    return data ? number_from(data, number, y * s->row + x * s->pixel) : NULL;
}

/* Where the image is smaller than the step, there may be no pixel: then no row is. */
static void step_source(struct conv_source *in, size_t y, size_t x, size_t h, size_t w, size_t step)
{
    bool any = h && w;
    in->data += any ? y * in->strides.row + x * in->strides.pixel : 0;
    in->h = any ? h : 0;
    in->w = any ? w : 1;
    step_strides(&in->strides, step);
}

/* Pixels from (y, x) on of what has the output's shape. */
static void step_outputs(struct conv_job *j, size_t y, size_t x, size_t h, size_t w, size_t step)
{
    j->out = (char *)j->out + (y * j->out_strides.row + x * j->out_strides.pixel) * number_bytes(j->number);
    j->add.data = skip(j->add.data, j->number, &j->add.strides, y, x);
    j->z.data = skip(j->z.data, j->number, &j->z.strides, y, x);
    j->mask.data = skip(j->mask.data, NUMBER_F32, &j->mask.strides, y, x);
    j->h = h;
    j->w = w;
    step_strides(&j->out_strides, step);
    step_strides(&j->add.strides, step);
    step_strides(&j->z.strides, step);
    step_strides(&j->mask.strides, step);
}

/* Phase (y, x) of a job. Returns false where no output belongs to it. `back`: its input is the gradient of outputs, its output that of inputs. */
static bool take_phase(struct conv_job *j, size_t step, size_t y, size_t x, bool back)
{
    size_t h = back ? j->in.h : j->h, w = back ? j->in.w : j->w;
    struct phase rows = phase_of(y, step, h, back ? j->h : j->in.h, j->in.top);
    struct phase columns = phase_of(x, step, w, back ? j->w : j->in.w, j->in.left);
    j->in.top = rows.before;
    j->in.left = columns.before;
    if (back) {
        step_source(&j->in, y, x, rows.outputs, columns.outputs, step);
        step_outputs(j, rows.first_input, columns.first_input, rows.inputs, columns.inputs, step);
    } else {
        step_source(&j->in, rows.first_input, columns.first_input, rows.inputs, columns.inputs, step);
        step_outputs(j, y, x, rows.outputs, columns.outputs, step);
    }
    return j->h > 0 && j->w > 0;
}

/* The channels of the output from `first` on. */
static void take_channels(struct conv_job *j, size_t first)
{
    j->out = number_at(j->out, j->number, first);
    j->add.data = j->add.data ? number_from(j->add.data, j->number, first) : NULL;
    j->z.data = j->z.data ? number_from(j->z.data, j->number, first) : NULL;
    j->mask.data = j->mask.data ? j->mask.data + first : NULL;
    j->shift = j->shift ? j->shift + first : NULL;
    j->bias = j->bias ? j->bias + first : NULL;
    j->argmax = j->argmax ? j->argmax + first : NULL;
    j->sum = j->sum ? j->sum + first : NULL;
    j->sum2 = j->sum2 ? j->sum2 + first : NULL;
}

static void run(const struct conv_kernel *k, const struct conv_job *job, bool back, void *scratch)
{
    struct parts p = parts_of(&job->shape);
    size_t from = back ? p.shape.co : p.shape.ci, to = back ? p.shape.ci : p.shape.co;
    struct conv_ahead ahead = job->ahead; /* fetched by the first part */
    for (size_t i = 0; i < p.groups; i++) {
        struct conv_job group = *job;
        group.shape = p.shape;
        group.weights += i * part_floats(k, &p);
        group.in.data += i * from;
        group.streams &= p.groups == 1;
        take_channels(&group, i * to);
        for (size_t phase = 0; phase < p.dilation * p.dilation; phase++) {
            struct conv_job one = group;
            if (p.dilation > 1 && !take_phase(&one, p.dilation, phase / p.dilation, phase % p.dilation, back))
                continue;
            one.ahead = ahead;
            ahead = (struct conv_ahead){{0}, {0}};
            (back ? k->data : k->conv)(&one, scratch);
        }
    }
}

/* ---- Weight gradient: for each part the kernel's sum, and, where there are groups, room for the part's gradient ---- */

static size_t sum_floats(const struct conv_kernel *k, const struct parts *p)
{
    return (round_up(k->gradient_bytes(&p->shape)) + round_up(hwio_floats(p) * sizeof(float))) / sizeof(float);
}

static size_t gradient_bytes(const struct conv_kernel *k, const struct conv_shape *s)
{
    struct parts p = parts_of(s);
    return has_groups(s) ? p.groups * sum_floats(k, &p) * sizeof(float) : k->gradient_bytes(&p.shape);
}

static void weight_gradient(const struct conv_kernel *k, const struct conv_weight_job *job, void *scratch)
{
    struct parts p = parts_of(&job->shape);
    struct conv_ahead ahead = job->ahead;
    for (size_t i = 0; i < p.groups; i++)
        for (size_t phase = 0; phase < p.dilation * p.dilation; phase++) {
            struct conv_weight_job one = *job;
            struct phase rows = phase_of(phase / p.dilation, p.dilation, job->h, job->in.h, job->in.top);
            struct phase columns = phase_of(phase % p.dilation, p.dilation, job->w, job->in.w, job->in.left);
            if (!rows.outputs || !columns.outputs || !rows.inputs || !columns.inputs)
                continue;
            one.shape = p.shape;
            one.sum += has_groups(&job->shape) ? i * sum_floats(k, &p) : 0;
            one.in.data += i * p.shape.ci;
            one.in.top = rows.before;
            one.in.left = columns.before;
            one.gradient.data += i * p.shape.co;
            if (p.dilation > 1) {
                step_source(&one.in, rows.first_input, columns.first_input, rows.inputs, columns.inputs, p.dilation);
                one.gradient.data += phase / p.dilation * one.gradient.strides.row + phase % p.dilation * one.gradient.strides.pixel;
                step_strides(&one.gradient.strides, p.dilation);
                one.h = rows.outputs;
                one.w = columns.outputs;
            }
            one.ahead = ahead;
            ahead = (struct conv_ahead){{0}, {0}};
            k->weight_gradient(&one, scratch);
        }
}

static size_t gradient_panels(const struct conv_kernel *k, const struct conv_shape *s)
{
    struct parts p = parts_of(s);
    return has_groups(s) ? p.groups : k->gradient_panels(&p.shape);
}

static void finish(const struct conv_kernel *k, const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwio)
{
    struct parts p = parts_of(s);
    if (!has_groups(s)) {
        k->weight_gradient_finish(&p.shape, sum, first, count, ret_hwio);
        return;
    }
    for (size_t i = first; i < first + count; i++) {
        float *own = sum + i * sum_floats(k, &p), *gradient = own + round_up(k->gradient_bytes(&p.shape)) / sizeof(float);
        k->weight_gradient_finish(&p.shape, own, 0, k->gradient_panels(&p.shape), gradient);
        scatter(&p, s, gradient, i, ret_hwio);
    }
}

static size_t scratch_bytes(const struct conv_kernel *k, const struct conv_shape *s)
{
    struct parts p = parts_of(s);
    return k->scratch_bytes(&p.shape);
}

/* The candidate that runs parts with another one. */
#define APART(kind, vectors, side, title)                                                                                                    \
    static bool takes_##kind##vectors(const struct conv_shape *s)                                                                       \
    {                                                                                                                                   \
        return takes(&conv_##kind##vectors, s);                                                                                         \
    }                                                                                                                                   \
    static size_t weights_bytes_##kind##vectors(const struct conv_shape *s)                                                             \
    {                                                                                                                                   \
        return weights_bytes(&conv_##kind##vectors, s);                                                                                 \
    }                                                                                                                                   \
    static size_t gradient_bytes_##kind##vectors(const struct conv_shape *s)                                                            \
    {                                                                                                                                   \
        return gradient_bytes(&conv_##kind##vectors, s);                                                                                \
    }                                                                                                                                   \
    static size_t scratch_bytes_##kind##vectors(const struct conv_shape *s)                                                             \
    {                                                                                                                                   \
        return scratch_bytes(&conv_##kind##vectors, s);                                                                                 \
    }                                                                                                                                   \
    static void weights_##kind##vectors(const struct conv_shape *s, const float *hwio, float *ret)                                      \
    {                                                                                                                                   \
        pack(&conv_##kind##vectors, s, hwio, false, ret);                                                                               \
    }                                                                                                                                   \
    static void weights_back_##kind##vectors(const struct conv_shape *s, const float *hwio, float *ret)                                 \
    {                                                                                                                                   \
        pack(&conv_##kind##vectors, s, hwio, true, ret);                                                                                \
    }                                                                                                                                   \
    static void conv_apart_##kind##vectors(const struct conv_job *j, void *scratch)                                                     \
    {                                                                                                                                   \
        run(&conv_##kind##vectors, j, false, scratch);                                                                                  \
    }                                                                                                                                   \
    static void data_##kind##vectors(const struct conv_job *j, void *scratch)                                                           \
    {                                                                                                                                   \
        run(&conv_##kind##vectors, j, true, scratch);                                                                                   \
    }                                                                                                                                   \
    static void weight_gradient_##kind##vectors(const struct conv_weight_job *j, void *scratch)                                         \
    {                                                                                                                                   \
        weight_gradient(&conv_##kind##vectors, j, scratch);                                                                             \
    }                                                                                                                                   \
    static size_t gradient_panels_##kind##vectors(const struct conv_shape *s)                                                           \
    {                                                                                                                                   \
        return gradient_panels(&conv_##kind##vectors, s);                                                                               \
    }                                                                                                                                   \
    static void finish_##kind##vectors(const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwio)             \
    {                                                                                                                                   \
        finish(&conv_##kind##vectors, s, sum, first, count, ret_hwio);                                                                  \
    }                                                                                                                                   \
    const struct conv_kernel conv_##kind##_apart##vectors = {.name = title,                                                             \
                                                             .numbers = true,                                                           \
                                                             .takes = takes_##kind##vectors,                                            \
                                                             .weights_bytes = weights_bytes_##kind##vectors,                            \
                                                             .gradient_bytes = gradient_bytes_##kind##vectors,                          \
                                                             .scratch_bytes = scratch_bytes_##kind##vectors,                            \
                                                             .tile = side,                                                              \
                                                             .weights = weights_##kind##vectors,                                        \
                                                             .weights_back = weights_back_##kind##vectors,                              \
                                                             .conv = conv_apart_##kind##vectors,                                        \
                                                             .data = data_##kind##vectors,                                              \
                                                             .weight_gradient = weight_gradient_##kind##vectors,                        \
                                                             .gradient_panels = gradient_panels_##kind##vectors,                        \
                                                             .weight_gradient_finish = finish_##kind##vectors}

APART(wino4, _avx2, 4, "winograd 4×4 in parts");
APART(direct, _avx2, 0, "direct in parts");
APART(depthwise, _avx2, 0, "depthwise in parts");
APART(wino4, _avx512, 4, "winograd 4×4 in parts (avx512)");
APART(direct, _avx512, 0, "direct in parts (avx512)");
APART(depthwise, _avx512, 0, "depthwise in parts (avx512)");

#endif
