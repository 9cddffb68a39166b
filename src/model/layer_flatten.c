/* layer_flatten.c: an image as a vector, in the order height, width, channel. */
#include "model/layer.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    {"name", PST_PARAM_STRING, offsetof(struct layer_config, name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config, (void)inputs, (void)reterr;
    *ret = (struct shape){.rank = 1, .h = 1, .w = 1, .c = (uint32_t)shape_values(in)};
    return PST_OK;
}

static void forward(const struct layer_call *call)
{
    memcpy(call->out, call->in[0], sizeof(real) * call->n * shape_values(&call->out_shape));
}

static void backward(const struct layer_call *call)
{
    if (call->din[0])
        memcpy(call->din[0], call->dout, sizeof(real) * call->n * shape_values(&call->out_shape));
}

const struct layer_class REAL(layer_flatten) = {
    .name = "flatten",
    .doc = "The image as a vector, in the order height, width, channel.",
    .example = "conv 32 3 relu | flatten | dense 10",
    .params = params,
    .config_size = sizeof(struct layer_config),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
