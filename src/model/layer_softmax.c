/* layer_softmax.c: softmax over the channels of each pixel, or over a vector. As the last layer it is trained fused with the
 * loss, from logits; this pair serves models that have it elsewhere, and predictions. */
#include "model/layer_activation.h"

#include "model/real.h"

#include <stddef.h>

static const pst_param params[] = {
    {"name", PST_PARAM_STRING, offsetof(struct activation_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config, (void)inputs, (void)reterr;
    *ret = *in;
    return PST_OK;
}

static void forward(const struct layer_call *call)
{
    size_t c = call->out_shape.c, rows = call->n * shape_values(&call->out_shape) / c;
    const real *x = call->in[0];
    real *y = call->out;
    for (size_t r = 0; r < rows; r++, x += c, y += c) {
        real most = x[0], sum = 0;
        for (size_t i = 1; i < c; i++)
            most = x[i] > most ? x[i] : most;
        for (size_t i = 0; i < c; i++)
            sum += y[i] = real_exp(x[i] - most);
        for (size_t i = 0; i < c; i++)
            y[i] /= sum;
    }
}

static void backward(const struct layer_call *call)
{
    size_t c = call->out_shape.c, rows = call->n * shape_values(&call->out_shape) / c;
    const real *y = call->out, *dy = call->dout;
    real *dx = call->din[0];
    for (size_t r = 0; dx && r < rows; r++, y += c, dy += c, dx += c) {
        real dot = 0;
        for (size_t i = 0; i < c; i++)
            dot += y[i] * dy[i];
        for (size_t i = 0; i < c; i++)
            dx[i] = y[i] * (dy[i] - dot);
    }
}

const struct layer_class REAL(layer_softmax) = {
    .name = "softmax",
    .doc = "Probabilities that sum to one over the channels. As the last layer it is trained together with the loss, from logits.",
    .example = "flatten | dense 10 | softmax",
    .params = params,
    .config_size = sizeof(struct activation_config),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
