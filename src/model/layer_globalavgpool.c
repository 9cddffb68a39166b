/* layer_globalavgpool.c: the mean of each channel over the whole image: (N,H,W,C) to (N,C). */
#include "model/layer_pool.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    {"name", PST_PARAM_STRING, offsetof(struct pool_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config, (void)inputs;
    if (in->rank != 3)
        return pst_fail(reterr, PST_ETYPE, "globalavgpool takes an image, found a vector of %u", in->c);
    *ret = (struct shape){.rank = 1, .h = 1, .w = 1, .c = in->c};
    return PST_OK;
}

static void forward(const struct layer_call *call)
{
    size_t channels = call->in_shape->c, pixels = (size_t)call->in_shape->h * call->in_shape->w;
    const real *x = call->in[0];
    real *restrict out = call->out;
    for (size_t n = 0; n < call->n; n++, out += channels) {
        memset(out, 0, sizeof(real) * channels);
        for (size_t p = 0; p < pixels; p++, x += channels)
            for (size_t k = 0; k < channels; k++)
                out[k] += x[k];
        for (size_t k = 0; k < channels; k++)
            out[k] /= (real)pixels;
    }
}

static void backward(const struct layer_call *call)
{
    size_t channels = call->in_shape->c, pixels = (size_t)call->in_shape->h * call->in_shape->w;
    const real *dout = call->dout;
    real *dx = call->din[0];
    for (size_t n = 0; dx && n < call->n; n++, dout += channels)
        for (size_t p = 0; p < pixels; p++, dx += channels)
            for (size_t k = 0; k < channels; k++)
                dx[k] = dout[k] / (real)pixels;
}

const struct layer_class REAL(layer_globalavgpool) = {
    .name = "globalavgpool",
    .doc = "Mean of every channel over the whole image; the result is a vector.",
    .example = "conv 32 3 relu | globalavgpool | dense 10",
    .params = params,
    .config_size = sizeof(struct pool_config),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
