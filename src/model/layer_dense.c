/* layer_dense.c: fully connected layer: out (N,O) = x (N,C) · kernel (C,O) + bias (O). An image is taken pixel by pixel, as
 * Keras does; `flatten` makes a vector of it. */
#include "model/layer_dense.h"
#include "model/layer_params.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    {"units", PST_PARAM_UINT, offsetof(struct dense_config, units), NULL, 1, 1 << 24, NULL, "Values of the result."},
    PARAM_ACTIVATION(struct dense_config),
    PARAM_BIAS(struct dense_config),
    PARAM_NAME(struct dense_config),
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    const struct dense_config *c = config;
    (void)inputs, (void)reterr;
    *ret = *in;
    ret->c = (uint32_t)c->units;
    return PST_OK;
}

static size_t parameters(const void *config, const struct shape *in, struct layer_param ret[LAYER_MAX_PARAMS])
{
    const struct dense_config *c = config;
    uint32_t units = (uint32_t)c->units;
    ret[0] = (struct layer_param){
        .name = "kernel", .rank = 2, .shape = {in->c, units}, .init = INIT_GLOROT_UNIFORM, .fan_in = in->c, .fan_out = units};
    ret[1] = (struct layer_param){.name = "bias", .rank = 1, .shape = {units}, .init = INIT_ZEROS};
    return c->bias ? 2 : 1;
}

static uint64_t flops(const void *config, const struct shape *in, const struct shape *out)
{
    (void)config;
    return 2 * (uint64_t)in->c * shape_values(out);
}

static void forward(const struct layer_call *call)
{
    const struct dense_config *c = call->config;
    size_t channels = call->in_shape->c, units = c->units, rows = call->n * shape_values(call->in_shape) / channels;
    const real *x = call->in[0], *bias = call->param[1];
    real *restrict out = call->out;
    for (size_t r = 0; r < rows; r++, x += channels, out += units) {
        const real *kernel = call->param[0];
        for (size_t o = 0; o < units; o++)
            out[o] = c->bias ? bias[o] : 0;
        for (size_t i = 0; i < channels; i++, kernel += units)
            for (size_t o = 0; o < units; o++)
                out[o] += x[i] * kernel[o];
    }
}

static void backward(const struct layer_call *call)
{
    const struct dense_config *c = call->config;
    size_t channels = call->in_shape->c, units = c->units, rows = call->n * shape_values(call->in_shape) / channels;
    const real *x = call->in[0], *dout = call->dout;
    real *dx = call->din[0], *dbias = call->dparam[1];
    memset(call->dparam[0], 0, sizeof(real) * channels * units);
    if (c->bias)
        memset(dbias, 0, sizeof(real) * units);
    for (size_t r = 0; r < rows; r++, x += channels, dout += units) {
        const real *kernel = call->param[0];
        real *dkernel = call->dparam[0];
        for (size_t o = 0; c->bias && o < units; o++)
            dbias[o] += dout[o];
        for (size_t i = 0; i < channels; i++, kernel += units, dkernel += units) {
            real sum = 0;
            for (size_t o = 0; o < units; o++) {
                dkernel[o] += x[i] * dout[o];
                sum += kernel[o] * dout[o];
            }
            if (dx)
                dx[r * channels + i] = sum;
        }
    }
}

static int activation(const void *config)
{
    return ((const struct dense_config *)config)->activation;
}

const struct layer_class REAL(layer_dense) = {
    .name = "dense",
    .doc = "Fully connected layer with `units` results.",
    .example = "flatten | dense 64 relu | dense 10",
    .params = params,
    .positional = 2,
    .config_size = sizeof(struct dense_config),
    .activation = activation,
    .shape = shape,
    .parameters = parameters,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
