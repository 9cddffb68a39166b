/* distil.c: see distil.h. */
#include "train/distil.h"

#include <math.h>

/* log Σ exp(z / t). */
static double log_sum(const float *z, size_t width, double t)
{
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < width; k++)
        most = z[k] > most ? (double)z[k] : most;
    for (size_t k = 0; k < width; k++)
        sum += exp(((double)z[k] - most) / t);
    return most / t + log(sum);
}

/* T² · KL; adds `scale` times its gradient. */
static double soft_classes(double t, const float *z, const float *teacher, size_t width, double scale, float *dout)
{
    double mine = log_sum(z, width, t), its = log_sum(teacher, width, t), sum = 0;
    for (size_t k = 0; k < width; k++) {
        double log_q = (double)z[k] / t - mine, log_p = (double)teacher[k] / t - its, p = exp(log_p);
        sum += p > 0 ? p * (log_p - log_q) : 0;
        if (dout)
            dout[k] += (float)(scale * t * (exp(log_q) - p));
    }
    return t * t * sum;
}

/* log(1 + exp(x)). */
static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double soft_binary(double t, const float *z, const float *teacher, size_t width, double scale, float *dout)
{
    double sum = 0;
    for (size_t k = 0; k < width; k++) {
        double x = (double)z[k] / t, y = (double)teacher[k] / t, p = 1 / (1 + exp(-y));
        sum += p * (softplus(-x) - softplus(-y)) + (1 - p) * (softplus(x) - softplus(y));
        if (dout)
            dout[k] += (float)(scale * t * (1 / (1 + exp(-x)) - p) / (double)width);
    }
    return t * t * sum / (double)width;
}

static double squares(const float *z, const float *teacher, size_t width, double scale, float *dout)
{
    double sum = 0;
    for (size_t k = 0; k < width; k++) {
        double d = (double)z[k] - (double)teacher[k];
        sum += d * d;
        if (dout)
            dout[k] += (float)(scale * 2 * d / (double)width);
    }
    return sum / (double)width;
}

double distil_logits(const struct distil_options *o, double plain, const float *out, const float *teacher, const float *weights, size_t n, size_t width,
                     float *dout)
{
    double sum = 0;
    for (size_t i = 0; dout && i < n * width; i++)
        dout[i] = (float)(o->alpha * (double)dout[i]);
    for (size_t i = 0; i < n; i++) {
        double weight = weights ? (double)weights[i] : 1, scale = (1 - o->alpha) * weight / (double)n;
        const float *z = out + i * width, *y = teacher + i * width;
        float *d = dout ? dout + i * width : NULL;
        sum += weight * (o->kind == PST_LOSS_MSE      ? squares(z, y, width, scale, d)
                         : o->kind == PST_LOSS_BINARY ? soft_binary(o->temperature, z, y, width, scale, d)
                                                      : soft_classes(o->temperature, z, y, width, scale, d));
    }
    return o->alpha * plain + (1 - o->alpha) * sum / (double)n;
}

/* ---- Values between layers ---- */

bool distil_comparable(const struct shape *student, const struct shape *teacher)
{
    return shape_equals(student, teacher) || (student->rank == 3 && teacher->rank == 3 && student->h == teacher->h && student->w == teacher->w);
}

static double difference(const float *values, const float *wanted, size_t count, double scale, float *extra)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)values[i] - (double)wanted[i];
        sum += d * d;
        extra[i] = (float)(scale * 2 * d / (double)count);
    }
    return sum / (double)count;
}

static double energy(const float *values, size_t channels)
{
    double sum = 0;
    for (size_t c = 0; c < channels; c++)
        sum += (double)values[c] * (double)values[c];
    return sum;
}

static double norm_of(const float *values, size_t pixels, size_t channels)
{
    double sum = 0;
    for (size_t i = 0; i < pixels; i++) {
        double a = energy(values + i * channels, channels);
        sum += a * a;
    }
    return sqrt(sum) + 1e-12;
}

/* u = a / ‖a‖ of both; the mean of (u − u')². Its gradient by a: 2 / pixels · (d − u (u · d)) / ‖a‖ with d = u − u'. */
static double attention(const struct shape *s, size_t wanted_channels, const float *values, const float *wanted, double scale, float *extra)
{
    size_t pixels = (size_t)s->h * s->w;
    double mine = norm_of(values, pixels, s->c), its = norm_of(wanted, pixels, wanted_channels), sum = 0, along = 0;
    for (size_t i = 0; i < pixels; i++) {
        double u = energy(values + i * s->c, s->c) / mine, d = u - energy(wanted + i * wanted_channels, wanted_channels) / its;
        sum += d * d;
        along += u * d;
    }
    for (size_t i = 0; i < pixels; i++) {
        double u = energy(values + i * s->c, s->c) / mine, d = u - energy(wanted + i * wanted_channels, wanted_channels) / its;
        double by_energy = scale * 2 / (double)pixels * (d - u * along) / mine;
        for (size_t c = 0; c < s->c; c++)
            extra[i * s->c + c] = (float)(by_energy * 2 * (double)values[i * s->c + c]);
    }
    return sum / (double)pixels;
}

double distil_feature(const struct shape *student, const struct shape *teacher, const float *values, const float *wanted, size_t n, double scale,
                      float *extra)
{
    size_t mine = shape_values(student), its = shape_values(teacher);
    double sum = 0, each = scale / (double)n;
    for (size_t i = 0; i < n; i++)
        sum += shape_equals(student, teacher) ? difference(values + i * mine, wanted + i * its, mine, each, extra + i * mine)
                                              : attention(student, teacher->c, values + i * mine, wanted + i * its, each, extra + i * mine);
    return sum / (double)n;
}
