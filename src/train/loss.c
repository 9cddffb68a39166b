/* loss.c: see loss.h. */
#include "train/loss.h"

#include "base/cast.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>

size_t loss_check_labels(const int64_t *labels, size_t n, size_t classes)
{
    for (size_t i = 0; i < n; i++)
        if (labels[i] < 0 || (uint64_t)labels[i] >= classes)
            return i;
    return n;
}

/* log Σ exp(z), and the maximum that keeps it finite. */
static double log_sum(const float *z, size_t width)
{
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < width; k++)
        most = z[k] > most ? (double)z[k] : most;
    for (size_t k = 0; k < width; k++)
        sum += exp((double)z[k] - most);
    return most + log(sum);
}

/* The target of class k after smoothing. */
static double categorical_target(const struct loss_options *o, const struct loss_target *t, size_t i, size_t k, size_t width)
{
    double y = t->labels ? (double)((size_t)t->labels[i] == k) : (double)t->values[i * width + k];
    return y * (1 - o->smoothing) + o->smoothing / (double)width;
}

static double categorical(const struct loss_options *o, const float *z, const struct loss_target *t, size_t i, double scale,
                          size_t width, float *dout)
{
    double normal = log_sum(z, width), loss = 0, total = 0;
    for (size_t k = 0; k < width; k++) {
        double y = categorical_target(o, t, i, k, width);
        loss -= y != 0 ? y * ((double)z[k] - normal) : 0;
        total += y;
    }
    for (size_t k = 0; dout && k < width; k++)
        dout[k] = (float)(scale * (total * exp((double)z[k] - normal) - categorical_target(o, t, i, k, width)));
    return loss;
}

/* Mean over the results of one sample, as Keras. */
static double binary(const struct loss_options *o, const float *z, const struct loss_target *t, size_t i, double scale, size_t width,
                     float *dout)
{
    double loss = 0;
    for (size_t k = 0; k < width; k++) {
        double x = z[k], y = t->labels ? (double)t->labels[i] : (double)t->values[i * width + k];
        y = y * (1 - o->smoothing) + o->smoothing / 2;
        loss += (x > 0 ? x : 0) - x * y + log1p(exp(-fabs(x)));
        if (dout)
            dout[k] = (float)(scale / (double)width * (1 / (1 + exp(-x)) - y));
    }
    return loss / (double)width;
}

static double squared(const float *out, const struct loss_target *t, size_t i, double scale, size_t width, float *dout)
{
    double loss = 0;
    for (size_t k = 0; k < width; k++) {
        double d = (double)out[k] - (t->labels ? (double)t->labels[i] : (double)t->values[i * width + k]);
        loss += d * d;
        if (dout)
            dout[k] = (float)(scale * 2 * d / (double)width);
    }
    return loss / (double)width;
}

double loss_compute(const struct loss_options *o, const float *out, const struct loss_target *target, const float *weights, size_t n,
                    size_t width, float *dout)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double weight = weights ? (double)weights[i] : 1, scale = weight / (double)n;
        const float *z = out + i * width;
        float *d = dout ? dout + i * width : NULL;
        double loss = o->kind == PST_LOSS_MSE      ? squared(z, target, i, scale, width, d)
                      : o->kind == PST_LOSS_BINARY ? binary(o, z, target, i, scale, width, d)
                                                   : categorical(o, z, target, i, scale, width, d);
        sum += weight * loss;
    }
    return sum / (double)n;
}

void loss_softmax(const float *logits, size_t width, float *ret)
{
    double normal = log_sum(logits, width);
    for (size_t k = 0; k < width; k++)
        ret[k] = (float)exp((double)logits[k] - normal);
}

float loss_sigmoid(float logit)
{
    return (float)(1 / (1 + exp(-(double)logit)));
}

static uint64_t values_per_sample(const pst_tensor *x)
{
    uint64_t n = 1;
    for (uint32_t i = 1; i < x->rank; i++)
        if (__builtin_mul_overflow(n, x->shape[i], &n))
            return UINT64_MAX;
    return n;
}

static bool is_integer(pst_dtype d)
{
    return d == PST_DTYPE_U8 || d == PST_DTYPE_I32 || d == PST_DTYPE_I64;
}

static pst_status convert_labels(const struct target_room *room, const pst_tensor *x, size_t n, struct loss_target *ret, pst_error *reterr)
{
    uint64_t each = values_per_sample(x);
    if (!is_integer(x->dtype) || each != 1)
        return pst_fail(reterr, PST_ETYPE, "sparse categorical cross-entropy needs one integer label per sample; found %" PRIu64 " of type %s", each,
                        pst_dtype_name(x->dtype));
    cast_values(room->labels, PST_DTYPE_I64, x->data, x->dtype, n);
    size_t bad = loss_check_labels(room->labels, n, room->width);
    if (bad < n)
        return pst_fail_at(reterr, PST_EINVAL, NULL, bad, PST_NOWHERE,
                           "label %" PRId64 " is out of range; the model has %zu results: labels are 0 to %zu", room->labels[bad], room->width,
                           room->width - 1);
    ret->labels = room->labels;
    return PST_OK;
}

pst_status target_convert(const struct target_room *room, const pst_tensor *x, size_t n, struct loss_target *ret, pst_error *reterr)
{
    *ret = (struct loss_target){0};
    if (!x && room->loss == PST_LOSS_CUSTOM)
        return PST_OK;
    if (!x || x->rank < 1 || x->row_splits || x->dtype == PST_DTYPE_BYTES || x->dtype == PST_DTYPE_NONE)
        return pst_fail(reterr, PST_ETYPE, "the target is not numbers of a fixed shape");
    uint64_t each = values_per_sample(x);
    if (x->shape[0] != n)
        return pst_fail(reterr, PST_ETYPE, "%" PRIu64 " targets for %zu samples", x->shape[0], n);
    if (room->loss == PST_LOSS_CUSTOM)
        return PST_OK; /* the function reads the tensor itself */
    if (room->loss == PST_LOSS_SPARSE)
        return convert_labels(room, x, n, ret, reterr);
    if (each != room->width)
        return pst_fail(reterr, PST_ETYPE, "the target has %" PRIu64 " values per sample; the model has %zu results", each, room->width);
    cast_values(room->values, PST_DTYPE_F32, x->data, x->dtype, n * room->width);
    ret->values = room->values;
    return PST_OK;
}
