/* layer_activation.c: activations value by value: relu, relu6, leaky, gelu, silu, sigmoid, tanh.
 *
 * Each is a pair: y = f(x), and dx = dy · f'(x) from x and y. gelu is the exact one, x · Φ(x). */
#include "model/layer_activation.h"

#include "model/real.h"

#include <stddef.h>

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config, (void)inputs, (void)reterr;
    *ret = *in;
    return PST_OK;
}

static real logistic(real x)
{
    return 1 / (1 + real_exp(-x));
}

static real normal_cdf(real x)
{
    return (real)0.5 * (1 + real_erf(x * (real)0.70710678118654752440));
}

static real normal_density(real x)
{
    return (real)0.39894228040143267794 * real_exp((real)-0.5 * x * x);
}

/* clang-format off */
static real relu_value(real x, real slope) { (void)slope; return x < 0 ? 0 : x; } /* NaN stays NaN */
static real relu_slope(real x, real y, real slope) { (void)x, (void)slope; return y > 0; }
static real relu6_value(real x, real slope) { (void)slope; return x < 0 ? 0 : x > 6 ? 6 : x; }
static real relu6_slope(real x, real y, real slope) { (void)y, (void)slope; return x > 0 && x < 6; }
static real leaky_value(real x, real slope) { return x > 0 ? x : slope * x; }
static real leaky_slope(real x, real y, real slope) { (void)y; return x > 0 ? 1 : slope; }
static real gelu_value(real x, real slope) { (void)slope; return x * normal_cdf(x); }
static real gelu_slope(real x, real y, real slope) { (void)y, (void)slope; return normal_cdf(x) + x * normal_density(x); }
static real silu_value(real x, real slope) { (void)slope; return x * logistic(x); }
static real silu_slope(real x, real y, real slope) { (void)slope; return logistic(x) + y * (1 - logistic(x)); }
static real sigmoid_value(real x, real slope) { (void)slope; return logistic(x); }
static real sigmoid_slope(real x, real y, real slope) { (void)x, (void)slope; return y * (1 - y); }
static real tanh_value(real x, real slope) { (void)slope; return real_tanh(x); }
static real tanh_slope(real x, real y, real slope) { (void)x, (void)slope; return 1 - y * y; }
/* clang-format on */

static void each_value(const struct layer_call *call, real (*value)(real x, real slope))
{
    const struct activation_config *c = call->config;
    const real *x = call->in[0];
    real *y = call->out;
    for (size_t i = 0, count = call->n * shape_values(&call->out_shape); i < count; i++)
        y[i] = value(x[i], (real)c->slope);
}

static void each_slope(const struct layer_call *call, real (*slope)(real x, real y, real slope))
{
    const struct activation_config *c = call->config;
    const real *x = call->in[0], *y = call->out, *dy = call->dout;
    real *dx = call->din[0];
    if (!dx)
        return;
    for (size_t i = 0, count = call->n * shape_values(&call->out_shape); i < count; i++)
        dx[i] = dy[i] * slope(x[i], y[i], (real)c->slope);
}

static const pst_param plain_params[] = {
    {"name", PST_PARAM_STRING, offsetof(struct activation_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};
static const pst_param leaky_params[] = {
    {"slope", PST_PARAM_FLOAT, offsetof(struct activation_config, slope), "0.3", 0, 1, NULL,
     "Slope below zero; 0.3 as in Keras."},
    {"name", PST_PARAM_STRING, offsetof(struct activation_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

#define ACTIVATION(which, takes, count, says)                                                                                        \
    static void which##_forward(const struct layer_call *c)                                                                     \
    {                                                                                                                           \
        each_value(c, which##_value);                                                                                           \
    }                                                                                                                           \
    static void which##_backward(const struct layer_call *c)                                                                    \
    {                                                                                                                           \
        each_slope(c, which##_slope);                                                                                           \
    }                                                                                                                           \
    const struct layer_class REAL(layer_##which) = {.name = #which,                                                             \
                                                    .doc = says,                                                                \
                                                    .example = "dense 64 | " #which " | dense 2",                               \
                                                    .params = takes,                                                            \
                                                    .positional = count,                                                        \
                                                    .config_size = sizeof(struct activation_config),                            \
                                                    .shape = shape,                                                             \
                                                    .forward = which##_forward,                                                 \
                                                    .backward = which##_backward}

ACTIVATION(relu, plain_params, 0, "max(x, 0).");
ACTIVATION(relu6, plain_params, 0, "min(max(x, 0), 6).");
ACTIVATION(leaky, leaky_params, 1, "x above zero, slope · x below.");
ACTIVATION(gelu, plain_params, 0, "x · Φ(x), with the exact normal distribution.");
ACTIVATION(silu, plain_params, 0, "x · sigmoid(x), also called swish.");
ACTIVATION(sigmoid, plain_params, 0, "1 / (1 + exp(−x)).");
ACTIVATION(tanh, plain_params, 0, "Hyperbolic tangent.");
