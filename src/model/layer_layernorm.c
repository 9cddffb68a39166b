/* layer_layernorm.c: layer normalisation over the channels of each pixel, or of a vector, with a gain and an offset per channel. */
#include "model/layer_norm.h"
#include "model/layer_params.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

enum { GAMMA, BETA };

static const pst_param params[] = {
    PARAM_EPS(struct norm_config),
    PARAM_NAME(struct norm_config),
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config, (void)inputs, (void)reterr;
    *ret = *in;
    return PST_OK;
}

static size_t parameters(const void *config, const struct shape *in, struct layer_param ret[LAYER_MAX_PARAMS])
{
    (void)config;
    ret[GAMMA] = (struct layer_param){.name = "gamma", .rank = 1, .shape = {in->c}, .init = INIT_ONES};
    ret[BETA] = (struct layer_param){.name = "beta", .rank = 1, .shape = {in->c}, .init = INIT_ZEROS};
    return 2;
}

static size_t saved_bytes(const void *config, const struct shape *in, size_t n, size_t real_size)
{
    (void)config;
    return 2 * n * in->h * in->w * real_size; /* mean and 1 / deviation of every pixel */
}

static void forward(const struct layer_call *call)
{
    const struct norm_config *c = call->config;
    size_t channels = call->out_shape.c, rows = call->n * shape_values(&call->out_shape) / channels;
    const real *x = call->in[0], *gamma = call->param[GAMMA], *beta = call->param[BETA];
    real *y = call->out, *saved = call->saved;
    for (size_t r = 0; r < rows; r++, x += channels, y += channels, saved += 2) {
        double sum = 0, squares = 0;
        for (size_t k = 0; k < channels; k++)
            sum += x[k];
        double mean = sum / (double)channels;
        for (size_t k = 0; k < channels; k++)
            squares += (x[k] - mean) * (x[k] - mean);
        saved[0] = (real)mean;
        saved[1] = (real)(1 / sqrt(squares / (double)channels + c->eps));
        for (size_t k = 0; k < channels; k++)
            y[k] = (x[k] - saved[0]) * saved[1] * gamma[k] + beta[k];
    }
}

static void backward(const struct layer_call *call)
{
    size_t channels = call->out_shape.c, rows = call->n * shape_values(&call->out_shape) / channels;
    const real *x = call->in[0], *dy = call->dout, *gamma = call->param[GAMMA], *saved = call->saved;
    real *dx = call->din[0], *dgamma = call->dparam[GAMMA], *dbeta = call->dparam[BETA];
    memset(dgamma, 0, sizeof(real) * channels);
    memset(dbeta, 0, sizeof(real) * channels);
    for (size_t r = 0; r < rows; r++, x += channels, dy += channels, saved += 2) {
        double sum = 0, product = 0;
        for (size_t k = 0; k < channels; k++) {
            real h = (x[k] - saved[0]) * saved[1];
            dgamma[k] += dy[k] * h;
            dbeta[k] += dy[k];
            sum += dy[k] * gamma[k];
            product += (double)(dy[k] * gamma[k]) * h;
        }
        real by_mean = (real)(sum / (double)channels), by_product = (real)(product / (double)channels);
        for (size_t k = 0; dx && k < channels; k++)
            dx[r * channels + k] = saved[1] * (dy[k] * gamma[k] - by_mean - (x[k] - saved[0]) * saved[1] * by_product);
    }
}

const struct layer_class REAL(layer_layernorm) = {
    .name = "layernorm",
    .doc = "Normalises the channels of every pixel, or the values of a vector.",
    .example = "dense 64 | layernorm | gelu | dense 10",
    .params = params,
    .config_size = sizeof(struct norm_config),
    .shape = shape,
    .parameters = parameters,
    .saved_bytes = saved_bytes,
    .forward = forward,
    .backward = backward,
};
