/* layer_maxpool.c: the greatest value of each window. Padding never wins; the gradient goes to the first maximum. */
#include "model/layer_pool.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct pool_config, size), NULL, 1, 255, NULL, "Side of the square window."},
    {"stride", PST_PARAM_UINT, offsetof(struct pool_config, stride), "0", 0, 255, NULL, "Step of the window; 0: its size."},
    {"pad", PST_PARAM_STRING, offsetof(struct pool_config, pad), "valid", 0, 0, NULL,
     "Padding: valid (none), same, or a number per side."},
    {"name", PST_PARAM_STRING, offsetof(struct pool_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

#define NO_TAP UINT16_MAX /* a window that lies in the padding only */

static size_t saved_bytes(const void *config, const struct shape *in, size_t n, size_t real_size)
{
    struct shape out = {0};
    (void)real_size;
    return pool_shape(config, in, 1, &out, NULL) < 0 ? 0 : n * shape_values(&out) * sizeof(uint16_t); /* the winning taps */
}

static void forward(const struct layer_call *call)
{
    size_t channels = call->in_shape->c;
    real *out = call->out;
    uint16_t *winner = call->saved;
    struct window rows, columns;
    uint32_t row, column;
    pool_windows(call->config, call->in_shape, &rows, &columns, NULL);
    for (size_t n = 0; n < call->n; n++) {
        const real *image = (const real *)call->in[0] + n * shape_values(call->in_shape);
        for (uint32_t y = 0; y < rows.out; y++)
            for (uint32_t x = 0; x < columns.out; x++, out += channels, winner += channels)
                for (size_t k = 0; k < channels; k++) {
                    real most = 0;
                    winner[k] = NO_TAP;
                    for (uint32_t tap = 0; tap < rows.size * columns.size; tap++) {
                        if (!window_at(&rows, y, tap / columns.size, &row) || !window_at(&columns, x, tap % columns.size, &column))
                            continue;
                        real value = image[((size_t)row * columns.in + column) * channels + k];
                        if (winner[k] == NO_TAP || value > most || (isnan(value) && !isnan(most))) {
                            most = value;
                            winner[k] = (uint16_t)tap;
                        }
                    }
                    out[k] = most;
                }
    }
}

static void backward(const struct layer_call *call)
{
    size_t channels = call->in_shape->c, in_values = shape_values(call->in_shape);
    const real *dout = call->dout;
    const uint16_t *winner = call->saved;
    struct window rows, columns;
    uint32_t row, column;
    if (!call->din[0])
        return;
    memset(call->din[0], 0, sizeof(real) * in_values * call->n);
    pool_windows(call->config, call->in_shape, &rows, &columns, NULL);
    for (size_t n = 0; n < call->n; n++) {
        real *dx = (real *)call->din[0] + n * in_values;
        for (uint32_t y = 0; y < rows.out; y++)
            for (uint32_t x = 0; x < columns.out; x++, dout += channels, winner += channels)
                for (size_t k = 0; k < channels; k++) {
                    if (winner[k] == NO_TAP)
                        continue;
                    window_at(&rows, y, winner[k] / columns.size, &row);
                    window_at(&columns, x, winner[k] % columns.size, &column);
                    dx[((size_t)row * columns.in + column) * channels + k] += dout[k];
                }
    }
}

const struct layer_class REAL(layer_maxpool) = {
    .name = "maxpool",
    .doc = "Maximum over windows of `size` × `size`.",
    .example = "conv 32 3 relu | maxpool 2 | flatten | dense 10",
    .params = params,
    .positional = 1,
    .config_size = sizeof(struct pool_config),
    .shape = pool_shape,
    .saved_bytes = saved_bytes,
    .forward = forward,
    .backward = backward,
};
