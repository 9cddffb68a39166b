/* layer_fakequant.c: values rounded to the 256 levels of a range, as 8-bit kernels store them.
 *
 *     out = scale · (clamp(round(x / scale) + zero, 0, 255) − zero),   scale = (high − low) / 255
 *
 * Rounding is to nearest even. The gradient passes where x lies within the range, and is zero outside of it. The range does not
 * learn; a calibration sets it. While it is empty, values pass as they are. */
#include "model/layer_fakequant.h"
#include "model/layer_params.h"

#include "model/real.h"

#include <stddef.h>

enum { LOW, HIGH };

static const pst_param params[] = {
    {"weight_bits", PST_PARAM_UINT, offsetof(struct fakequant_config, weight_bits), "7", 7, 8, NULL,
     "Bits of the model's kernels: with 7, products of pairs fit 16 bits, which AVX2 multiplies fastest."},
    PARAM_NAME(struct fakequant_config),
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
    (void)config, (void)in;
    /* momentum 1: no step has statistics of the ranges, so it keeps all of them */
    ret[LOW] = (struct layer_param){.name = "low", .rank = 1, .shape = {1}, .init = INIT_ZEROS, .fixed = true, .momentum = 1};
    ret[HIGH] = (struct layer_param){.name = "high", .rank = 1, .shape = {1}, .init = INIT_ZEROS, .fixed = true, .momentum = 1};
    return 2;
}

struct levels {
    float scale, low, high; /* the lowest and the highest level are scale · low and scale · high */
};

/* False: the range is empty. */
static bool find_levels(const struct layer_call *call, struct levels *ret)
{
    double low = *(const real *)call->param[LOW], high = *(const real *)call->param[HIGH];
    low = low < 0 ? low : 0;
    high = high > 0 ? high : 0;
    float scale = (float)((high - low) / 255);
    if (!(scale > 1e-30f) || !isfinite(scale))
        return false;
    double zero = nearbyint(-low / (double)scale);
    zero = zero > 255 ? 255 : zero;
    *ret = (struct levels){.scale = scale, .low = (float)-zero, .high = (float)(255 - zero)};
    return true;
}

#define ROUNDER 12582912.f /* 1.5 · 2^23: adding and subtracting it rounds to nearest even, in any vector instructions */

static void forward(const struct layer_call *call)
{
    size_t count = call->n * shape_values(&call->out_shape);
    const real *restrict x = call->in[0];
    real *restrict y = call->out;
    struct levels l;
    if (!find_levels(call, &l)) {
        for (size_t i = 0; i < count; i++)
            y[i] = x[i];
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float q = (float)x[i] / l.scale;
        q = q > l.low ? q : l.low; /* NaN: the lowest level */
        q = q < l.high ? q : l.high;
        q = (q + ROUNDER) - ROUNDER;
        y[i] = (real)(q * l.scale);
    }
}

static void backward(const struct layer_call *call)
{
    size_t count = call->n * shape_values(&call->out_shape);
    const real *restrict x = call->in[0], *restrict dy = call->dout;
    real *restrict dx = call->din[0];
    struct levels l;
    bool rounds = find_levels(call, &l);
    real low = rounds ? (real)(l.scale * (l.low - 0.5f)) : 0, high = rounds ? (real)(l.scale * (l.high + 0.5f)) : 0;
    *(real *)call->dparam[LOW] = *(real *)call->dparam[HIGH] = 0;
    for (size_t i = 0; dx && i < count; i++)
        dx[i] = !rounds || (x[i] >= low && x[i] <= high) ? dy[i] : 0;
}

const struct layer_class REAL(layer_fakequant) = {
    .name = "fakequant",
    .doc = "Rounds values to the 256 levels of a range, as 8-bit inference stores them; the gradient passes within the range. "
           "`penstock train --qat` puts it where the int8 model has its borders.",
    .example = "fakequant | conv 16 3 relu | fakequant | globalavgpool | dense 10",
    .params = params,
    .config_size = sizeof(struct fakequant_config),
    .shape = shape,
    .parameters = parameters,
    .forward = forward,
    .backward = backward,
};
