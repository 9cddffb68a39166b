/* layer_avgpool.c: the mean of each window, and of a whole image.
 *
 * With pad=same the mean is over the values inside the image, as in TensorFlow; with a number it counts the zeros, as in
 * PyTorch. */
#include "model/layer_pool.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct pool_config, size), NULL, 1, 255, NULL, "Side of the square window."},
    {"stride", PST_PARAM_UINT, offsetof(struct pool_config, stride), "0", 0, 255, NULL, "Step of the window; 0: its size."},
    {"pad", PST_PARAM_STRING, offsetof(struct pool_config, pad), "valid", 0, 0, NULL,
     "Padding: valid (none), same (not counted), or a number per side (counted as zeros)."},
    {"name", PST_PARAM_STRING, offsetof(struct pool_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

/* The taps of output o that lie inside: first, and one after the last. */
static void inside(const struct window *w, uint32_t o, uint32_t *ret_begin, uint32_t *ret_end)
{
    int64_t at = (int64_t)o * w->stride - w->before;
    int64_t end = at + w->size < w->in ? at + w->size : w->in;
    *ret_begin = (uint32_t)(at > 0 ? at : 0);
    *ret_end = (uint32_t)(end > *ret_begin ? end : *ret_begin);
}

static real divisor(const struct pool_config *c, const struct window *rows, uint32_t area)
{
    bool counts_zeros = strcmp(c->pad, "same") != 0;
    return counts_zeros ? (real)(rows->size * rows->size) : area ? (real)area : 1;
}

static void forward(const struct layer_call *call)
{
    const struct pool_config *c = call->config;
    size_t channels = call->in_shape->c;
    real *restrict out = call->out;
    struct window rows, columns;
    uint32_t top, bottom, left, right;
    pool_windows(c, call->in_shape, &rows, &columns, NULL);
    for (size_t n = 0; n < call->n; n++) {
        const real *image = (const real *)call->in[0] + n * shape_values(call->in_shape);
        for (uint32_t y = 0; y < rows.out; y++)
            for (uint32_t x = 0; x < columns.out; x++, out += channels) {
                inside(&rows, y, &top, &bottom);
                inside(&columns, x, &left, &right);
                memset(out, 0, sizeof(real) * channels);
                for (uint32_t i = top; i < bottom; i++)
                    for (uint32_t j = left; j < right; j++)
                        for (size_t k = 0; k < channels; k++)
                            out[k] += image[((size_t)i * columns.in + j) * channels + k];
                for (size_t k = 0; k < channels; k++)
                    out[k] /= divisor(c, &rows, (bottom - top) * (right - left));
            }
    }
}

static void backward(const struct layer_call *call)
{
    const struct pool_config *c = call->config;
    size_t channels = call->in_shape->c, in_values = shape_values(call->in_shape);
    const real *dout = call->dout;
    struct window rows, columns;
    uint32_t top, bottom, left, right;
    if (!call->din[0])
        return;
    memset(call->din[0], 0, sizeof(real) * in_values * call->n);
    pool_windows(c, call->in_shape, &rows, &columns, NULL);
    for (size_t n = 0; n < call->n; n++) {
        real *dx = (real *)call->din[0] + n * in_values;
        for (uint32_t y = 0; y < rows.out; y++)
            for (uint32_t x = 0; x < columns.out; x++, dout += channels) {
                inside(&rows, y, &top, &bottom);
                inside(&columns, x, &left, &right);
                real share = 1 / divisor(c, &rows, (bottom - top) * (right - left));
                for (uint32_t i = top; i < bottom; i++)
                    for (uint32_t j = left; j < right; j++)
                        for (size_t k = 0; k < channels; k++)
                            dx[((size_t)i * columns.in + j) * channels + k] += dout[k] * share;
            }
    }
}

const struct layer_class REAL(layer_avgpool) = {
    .name = "avgpool",
    .doc = "Mean over windows of `size` × `size`.",
    .example = "conv 32 3 relu | avgpool 2 | flatten | dense 10",
    .params = params,
    .positional = 1,
    .config_size = sizeof(struct pool_config),
    .shape = pool_shape,
    .forward = forward,
    .backward = backward,
};
