/* layer_dropout.c: in training, sets a share of the values to zero and scales the rest by 1 / (1 − share). Whether a value stays
 * is a function of the seed, the step, the layer, the sample and its position, so that it does not depend on threads or lanes,
 * and backward draws it again instead of storing it. */
#include "model/layer.h"

#include "base/random.h"
#include "model/real.h"

#include <stddef.h>
#include <string.h>

struct dropout_config {
    struct layer_config layer;
    double share;
};

static const pst_param params[] = {
    {"share", PST_PARAM_FLOAT, offsetof(struct dropout_config, share), NULL, 0, 0.999, NULL, "Share of the values that are dropped."},
    {"name", PST_PARAM_STRING, offsetof(struct dropout_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config, (void)inputs, (void)reterr;
    *ret = *in;
    return PST_OK;
}

static void drop(const struct layer_call *call, const real *from, real *to)
{
    const struct dropout_config *c = call->config;
    size_t values = shape_values(&call->out_shape);
    real scale = (real)(1 / (1 - c->share));
    if (!call->training) {
        memcpy(to, from, sizeof(real) * values * call->n);
        return;
    }
    for (size_t n = 0; n < call->n; n++) {
        struct random r;
        random_init(&r, call->key, 0, call->first + n, 0);
        for (size_t i = 0; i < values; i++, from++, to++)
            *to = random_unit(&r) >= c->share ? *from * scale : 0;
    }
}

static void forward(const struct layer_call *call)
{
    drop(call, call->in[0], call->out);
}

static void backward(const struct layer_call *call)
{
    if (call->din[0])
        drop(call, call->dout, call->din[0]);
}

const struct layer_class REAL(layer_dropout) = {
    .name = "dropout",
    .doc = "Sets a share of the values to zero while training.",
    .example = "flatten | dense 64 relu | dropout 0.5 | dense 10",
    .params = params,
    .positional = 1,
    .config_size = sizeof(struct dropout_config),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
