/* layer_dwconv.c: depthwise convolution: one kernel per channel.
 *
 *     out[n,y,x,c] = bias[c] + Σ in[n, y·stride + i − before, x·stride + j − before, c] · kernel[i,j,c]
 *
 * x (N,H,W,C), kernel (K,K,C), out (N,H',W',C). */
#include "model/layer_conv.h"
#include "model/layer_params.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    PARAM_SIZE(struct conv_config),
    PARAM_ACTIVATION(struct conv_config),
    PARAM_STRIDE(struct conv_config),
    PARAM_PAD(struct conv_config),
    PARAM_DILATION(struct conv_config),
    PARAM_BIAS(struct conv_config),
    PARAM_NAME(struct conv_config),
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    struct window rows, columns;
    (void)inputs;
    if (in->rank != 3)
        return pst_fail(reterr, PST_ETYPE, "dwconv takes an image, found a vector of %u; flatten comes after the last dwconv",
                        in->c);
    pst_status st = conv_windows(config, in, &rows, &columns, reterr);
    if (st == PST_OK)
        *ret = (struct shape){.rank = 3, .h = rows.out, .w = columns.out, .c = in->c};
    return st;
}

static size_t parameters(const void *config, const struct shape *in, struct layer_param ret[LAYER_MAX_PARAMS])
{
    const struct conv_config *c = config;
    uint32_t k = (uint32_t)c->size;
    ret[0] = (struct layer_param){.name = "kernel", .rank = 3, .shape = {k, k, in->c}, .init = INIT_GLOROT_UNIFORM,
                                  .fan_in = (uint64_t)k * k, .fan_out = (uint64_t)k * k};
    ret[1] = (struct layer_param){.name = "bias", .rank = 1, .shape = {in->c}, .init = INIT_ZEROS};
    return c->bias ? 2 : 1;
}

static uint64_t flops(const void *config, const struct shape *in, const struct shape *out)
{
    const struct conv_config *c = config;
    (void)in;
    return 2 * (uint64_t)shape_values(out) * c->size * c->size;
}

static void forward(const struct layer_call *call)
{
    const struct conv_config *c = call->config;
    const real *kernel = call->param[0], *bias = call->param[1];
    size_t channels = call->in_shape->c, in_values = shape_values(call->in_shape);
    real *restrict out = call->out;
    struct window rows, columns;
    uint32_t row, column;
    conv_windows(c, call->in_shape, &rows, &columns, NULL);
    for (size_t n = 0; n < call->n; n++)
        for (uint32_t y = 0; y < rows.out; y++)
            for (uint32_t x = 0; x < columns.out; x++, out += channels) {
                for (size_t k = 0; k < channels; k++)
                    out[k] = c->bias ? bias[k] : 0;
                for (uint32_t i = 0; i < rows.size; i++)
                    for (uint32_t j = 0; j < columns.size; j++) {
                        if (!window_at(&rows, y, i, &row) || !window_at(&columns, x, j, &column))
                            continue;
                        const real *in = (const real *)call->in[0] + n * in_values + ((size_t)row * columns.in + column) * channels;
                        const real *tap = kernel + ((size_t)i * columns.size + j) * channels;
                        for (size_t k = 0; k < channels; k++)
                            out[k] += in[k] * tap[k];
                    }
            }
}

static void backward(const struct layer_call *call)
{
    const struct conv_config *c = call->config;
    const real *dout = call->dout;
    size_t channels = call->in_shape->c, in_values = shape_values(call->in_shape);
    real *dbias = call->dparam[1], *dx = call->din[0];
    struct window rows, columns;
    uint32_t row, column;
    conv_windows(c, call->in_shape, &rows, &columns, NULL);
    memset(call->dparam[0], 0, sizeof(real) * rows.size * columns.size * channels);
    if (c->bias)
        memset(dbias, 0, sizeof(real) * channels);
    if (dx)
        memset(dx, 0, sizeof(real) * in_values * call->n);
    for (size_t n = 0; n < call->n; n++)
        for (uint32_t y = 0; y < rows.out; y++)
            for (uint32_t x = 0; x < columns.out; x++, dout += channels) {
                for (size_t k = 0; c->bias && k < channels; k++)
                    dbias[k] += dout[k];
                for (uint32_t i = 0; i < rows.size; i++)
                    for (uint32_t j = 0; j < columns.size; j++) {
                        if (!window_at(&rows, y, i, &row) || !window_at(&columns, x, j, &column))
                            continue;
                        size_t at = n * in_values + ((size_t)row * columns.in + column) * channels;
                        size_t tap = ((size_t)i * columns.size + j) * channels;
                        const real *in = (const real *)call->in[0] + at, *kernel = (const real *)call->param[0] + tap;
                        real *dkernel = (real *)call->dparam[0] + tap;
                        for (size_t k = 0; k < channels; k++)
                            dkernel[k] += in[k] * dout[k];
                        for (size_t k = 0; dx && k < channels; k++)
                            dx[at + k] += kernel[k] * dout[k];
                    }
            }
}

static int activation(const void *config)
{
    return ((const struct conv_config *)config)->activation;
}

const struct layer_class REAL(layer_dwconv) = {
    .name = "dwconv",
    .doc = "Depthwise convolution: one kernel of `size` × `size` per channel.",
    .example = "dwconv 3 relu | conv 64 1 relu | globalavgpool | dense 10",
    .params = params,
    .positional = 2,
    .config_size = sizeof(struct conv_config),
    .activation = activation,
    .shape = shape,
    .parameters = parameters,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
