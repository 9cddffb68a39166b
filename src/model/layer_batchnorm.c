/* layer_batchnorm.c: batch normalisation over (batch, height, width), per channel.
 *
 * Training: mean and biased variance of the batch; moving = momentum · moving + (1 − momentum) · batch; gradients flow through
 * both. Otherwise the moving statistics. Sums are taken in double: the reference must not cancel. */
#include "model/layer_norm.h"
#include "model/layer_params.h"

#include "model/real.h"

#include <stddef.h>

enum { GAMMA, BETA, MOVING_MEAN, MOVING_VARIANCE };

static const pst_param params[] = {
    PARAM_EPS(struct norm_config),
    {"momentum", PST_PARAM_FLOAT, offsetof(struct norm_config, momentum), "0.99", 0, 1, NULL,
     "Share of the moving statistics that a step keeps."},
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
    double momentum = ((const struct norm_config *)config)->momentum;
    ret[GAMMA] = (struct layer_param){.name = "gamma", .rank = 1, .shape = {in->c}, .init = INIT_ONES};
    ret[BETA] = (struct layer_param){.name = "beta", .rank = 1, .shape = {in->c}, .init = INIT_ZEROS};
    ret[MOVING_MEAN] =
        (struct layer_param){.name = "moving_mean", .rank = 1, .shape = {in->c}, .init = INIT_ZEROS, .fixed = true, .momentum = momentum};
    ret[MOVING_VARIANCE] =
        (struct layer_param){.name = "moving_variance", .rank = 1, .shape = {in->c}, .init = INIT_ONES, .fixed = true, .momentum = momentum};
    return 4;
}

static size_t saved_bytes(const void *config, const struct shape *in, size_t n, size_t real_size)
{
    (void)config, (void)n;
    return 2 * in->c * real_size; /* mean and 1 / deviation */
}

static void batch_statistics(const struct layer_call *call, size_t channel, double *ret_mean, double *ret_variance)
{
    size_t channels = call->out_shape.c, rows = call->n * shape_values(&call->out_shape) / channels;
    const real *x = (const real *)call->in[0] + channel;
    double sum = 0, squares = 0, all = (double)rows;
    for (size_t r = 0; r < rows; r++)
        sum += x[r * channels];
    if (call->share)
        call->share(call->step, &sum, 1, &all);
    *ret_mean = sum / all;
    for (size_t r = 0; r < rows; r++)
        squares += (x[r * channels] - *ret_mean) * (x[r * channels] - *ret_mean);
    all = (double)rows;
    if (call->share)
        call->share(call->step, &squares, 1, &all);
    *ret_variance = squares / all;
}

static void forward(const struct layer_call *call)
{
    const struct norm_config *c = call->config;
    size_t channels = call->out_shape.c, rows = call->n * shape_values(&call->out_shape) / channels;
    const real *gamma = call->param[GAMMA], *beta = call->param[BETA];
    real *moving_mean = call->param[MOVING_MEAN], *moving_variance = call->param[MOVING_VARIANCE];
    real *saved_mean = call->saved, *saved_scale = saved_mean + channels;
    for (size_t k = 0; k < channels; k++) {
        double mean = moving_mean[k], variance = moving_variance[k];
        if (call->training) {
            batch_statistics(call, k, &mean, &variance);
        }
        if (call->training && call->statistic[MOVING_MEAN]) {
            call->statistic[MOVING_MEAN][k] = mean;
            call->statistic[MOVING_VARIANCE][k] = variance;
        } else if (call->training) {
            moving_mean[k] = (real)(c->momentum * moving_mean[k] + (1 - c->momentum) * mean);
            moving_variance[k] = (real)(c->momentum * moving_variance[k] + (1 - c->momentum) * variance);
        }
        saved_mean[k] = (real)mean;
        saved_scale[k] = (real)(1 / sqrt(variance + c->eps));
        const real *x = (const real *)call->in[0] + k;
        real *y = (real *)call->out + k;
        for (size_t r = 0; r < rows; r++)
            y[r * channels] = (x[r * channels] - saved_mean[k]) * (saved_scale[k] * gamma[k]) + beta[k];
    }
}

/* With h = (x − mean) / deviation: dx = gamma / deviation · (dy − mean(dy) − h · mean(dy · h)). */
static void backward(const struct layer_call *call)
{
    size_t channels = call->out_shape.c, rows = call->n * shape_values(&call->out_shape) / channels;
    const real *gamma = call->param[GAMMA], *mean = call->saved, *scale = mean + channels;
    real *dgamma = call->dparam[GAMMA], *dbeta = call->dparam[BETA];
    for (size_t k = 0; k < channels; k++) {
        const real *x = (const real *)call->in[0] + k, *dy = (const real *)call->dout + k;
        double sum = 0, product = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += dy[r * channels];
            product += (double)dy[r * channels] * ((x[r * channels] - mean[k]) * scale[k]);
        }
        dbeta[k] = (real)sum;
        dgamma[k] = (real)product;
        real *dx = call->din[0] ? (real *)call->din[0] + k : NULL;
        double all = (double)rows, sums[2] = {sum, product};
        if (call->training && call->share)
            call->share(call->step, sums, 2, &all);
        real by_mean = call->training ? (real)(sums[0] / all) : 0;
        real by_product = call->training ? (real)(sums[1] / all) : 0;
        for (size_t r = 0; dx && r < rows; r++)
            dx[r * channels] =
                gamma[k] * scale[k] * (dy[r * channels] - by_mean - (x[r * channels] - mean[k]) * scale[k] * by_product);
    }
}

const struct layer_class REAL(layer_batchnorm) = {
    .name = "batchnorm",
    .doc = "Normalises every channel over the batch; predictions use the moving statistics.",
    .example = "conv 16 3 bias=false | batchnorm | relu | globalavgpool | dense 10",
    .params = params,
    .config_size = sizeof(struct norm_config),
    .shape = shape,
    .parameters = parameters,
    .saved_bytes = saved_bytes,
    .forward = forward,
    .backward = backward,
    .whole_batch = true,
};
