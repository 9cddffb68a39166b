/* layer_conv.c: two-dimensional convolution: stride, padding, dilation, groups.
 *
 *     out[n,y,x,o] = bias[o] + Σ in[n, y·stride + i − before, x·stride + j − before, c] · kernel[i,j,c,o]
 *
 * x (N,H,W,C), kernel (K,K,C/groups,O), out (N,H',W',O). */
#include "model/layer_conv.h"
#include "model/layer_params.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    PARAM_FILTERS(struct conv_config),
    PARAM_SIZE(struct conv_config),
    PARAM_ACTIVATION(struct conv_config),
    PARAM_STRIDE(struct conv_config),
    PARAM_PAD(struct conv_config),
    PARAM_DILATION(struct conv_config),
    {"groups", PST_PARAM_UINT, offsetof(struct conv_config, groups), "1", 1, 65536, NULL,
     "Number of independent groups of channels."},
    PARAM_BIAS(struct conv_config),
    PARAM_NAME(struct conv_config),
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    const struct conv_config *c = config;
    struct window rows, columns;
    (void)inputs;
    if (in->rank != 3)
        return pst_fail(reterr, PST_ETYPE, "conv takes an image, found a vector of %u; flatten comes after the last conv", in->c);
    if (in->c % c->groups || c->filters % c->groups)
        return pst_fail(reterr, PST_EINVAL, "groups=%u must divide the %u channels of the input and the %u filters",
                        (unsigned)c->groups, in->c, (unsigned)c->filters);
    pst_status st = conv_windows(c, in, &rows, &columns, reterr);
    if (st == PST_OK)
        *ret = (struct shape){.rank = 3, .h = rows.out, .w = columns.out, .c = (uint32_t)c->filters};
    return st;
}

static size_t parameters(const void *config, const struct shape *in, struct layer_param ret[LAYER_MAX_PARAMS])
{
    const struct conv_config *c = config;
    uint32_t k = (uint32_t)c->size, filters = (uint32_t)c->filters, channels = in->c / (uint32_t)c->groups;
    ret[0] = (struct layer_param){.name = "kernel", .rank = 4, .shape = {k, k, channels, filters}, .init = INIT_GLOROT_UNIFORM,
                                  .fan_in = (uint64_t)k * k * channels, .fan_out = (uint64_t)k * k * filters};
    ret[1] = (struct layer_param){.name = "bias", .rank = 1, .shape = {filters}, .init = INIT_ZEROS};
    return c->bias ? 2 : 1;
}

static uint64_t flops(const void *config, const struct shape *in, const struct shape *out)
{
    const struct conv_config *c = config;
    return 2 * (uint64_t)shape_values(out) * c->size * c->size * (in->c / c->groups);
}

/* The taps of one output pixel: fn for each that lies inside the image. */
struct pixel {
    const struct conv_config *config;
    uint32_t channels, filters; /* of one group */
    const real *x, *kernel;
    real *dx, *dkernel;
};

static void pixel_forward(const struct pixel *p, size_t group, size_t x_at, size_t tap, real *restrict out)
{
    size_t filters = p->config->filters;
    const real *x = p->x + x_at + group * p->channels;
    const real *kernel = p->kernel + tap * p->channels * filters + group * p->filters;
    for (uint32_t c = 0; c < p->channels; c++, kernel += filters)
        for (uint32_t o = 0; o < p->filters; o++)
            out[o] += x[c] * kernel[o];
}

static void pixel_backward(const struct pixel *p, size_t group, size_t x_at, size_t tap, const real *restrict dout)
{
    size_t filters = p->config->filters;
    size_t k_at = tap * p->channels * filters + group * p->filters;
    const real *x = p->x + x_at + group * p->channels;
    for (uint32_t c = 0; c < p->channels; c++) {
        const real *restrict kernel = p->kernel + k_at + c * filters;
        real *restrict dkernel = p->dkernel + k_at + c * filters, sum = 0;
        for (uint32_t o = 0; o < p->filters; o++) {
            dkernel[o] += x[c] * dout[o];
            sum += kernel[o] * dout[o];
        }
        if (p->dx)
            p->dx[x_at + group * p->channels + c] += sum;
    }
}

struct walk {
    struct window rows, columns;
    struct pixel pixel;
    size_t groups, in_values, out_values;
};

static void walk_init(struct walk *w, const struct layer_call *call)
{
    const struct conv_config *c = call->config;
    *w = (struct walk){.groups = c->groups, .in_values = shape_values(call->in_shape), .out_values = shape_values(&call->out_shape)};
    conv_windows(c, call->in_shape, &w->rows, &w->columns, NULL);
    w->pixel = (struct pixel){.config = c,
                              .channels = call->in_shape->c / (uint32_t)c->groups,
                              .filters = (uint32_t)(c->filters / c->groups),
                              .kernel = call->param[0],
                              .dkernel = call->dparam[0]};
}

/* Calls fn for every tap of every group of output pixel (y, x). */
static void each_tap(const struct walk *w, uint32_t y, uint32_t x, real *out,
                     void (*fn)(const struct pixel *, size_t group, size_t x_at, size_t tap, real *out))
{
    for (uint32_t i = 0; i < w->rows.size; i++) {
        uint32_t row, column;
        if (!window_at(&w->rows, y, i, &row))
            continue;
        for (uint32_t j = 0; j < w->columns.size; j++) {
            if (!window_at(&w->columns, x, j, &column))
                continue;
            size_t at = ((size_t)row * w->columns.in + column) * w->pixel.channels * w->groups;
            for (size_t g = 0; g < w->groups; g++)
                fn(&w->pixel, g, at, (size_t)i * w->columns.size + j, out + g * w->pixel.filters);
        }
    }
}

static void forward(const struct layer_call *call)
{
    const struct conv_config *c = call->config;
    const real *bias = call->param[1];
    struct walk w;
    walk_init(&w, call);
    for (size_t n = 0; n < call->n; n++) {
        real *out = (real *)call->out + n * w.out_values;
        w.pixel.x = (const real *)call->in[0] + n * w.in_values;
        for (uint32_t y = 0; y < w.rows.out; y++)
            for (uint32_t x = 0; x < w.columns.out; x++, out += c->filters) {
                for (uint64_t o = 0; o < c->filters; o++)
                    out[o] = c->bias ? bias[o] : 0;
                each_tap(&w, y, x, out, pixel_forward);
            }
    }
}

static void tap_backward(const struct pixel *p, size_t group, size_t x_at, size_t tap, real *dout)
{
    pixel_backward(p, group, x_at, tap, dout);
}

static void backward(const struct layer_call *call)
{
    const struct conv_config *c = call->config;
    real *dbias = call->dparam[1];
    struct walk w;
    walk_init(&w, call);
    memset(call->dparam[0], 0, sizeof(real) * c->size * c->size * w.pixel.channels * c->filters);
    if (c->bias)
        memset(dbias, 0, sizeof(real) * c->filters);
    if (call->din[0])
        memset(call->din[0], 0, sizeof(real) * w.in_values * call->n);
    for (size_t n = 0; n < call->n; n++) {
        real *dout = (real *)call->dout + n * w.out_values;
        w.pixel.x = (const real *)call->in[0] + n * w.in_values;
        w.pixel.dx = call->din[0] ? (real *)call->din[0] + n * w.in_values : NULL;
        for (uint32_t y = 0; y < w.rows.out; y++)
            for (uint32_t x = 0; x < w.columns.out; x++, dout += c->filters) {
                for (uint64_t o = 0; c->bias && o < c->filters; o++)
                    dbias[o] += dout[o];
                each_tap(&w, y, x, dout, tap_backward);
            }
    }
}

static int activation(const void *config)
{
    return ((const struct conv_config *)config)->activation;
}

const struct layer_class REAL(layer_conv) = {
    .name = "conv",
    .doc = "Two-dimensional convolution with `filters` kernels of `size` × `size`.",
    .example = "conv 32 3 relu | flatten | dense 10",
    .params = params,
    .positional = 3,
    .config_size = sizeof(struct conv_config),
    .activation = activation,
    .shape = shape,
    .parameters = parameters,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
