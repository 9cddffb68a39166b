/* optimizer_kernels.c: see optimizer_kernels.h. Compiled once for every instruction set: the loops are left to the compiler's
 * vectoriser, and without contraction every level computes the same bits. */
#include "train/optimizer_kernels.h"

#include <math.h>

#ifndef OPTIMIZER_TABLE
#define OPTIMIZER_TABLE optimizer_kernels_c
#endif

extern const struct optimizer_kernels OPTIMIZER_TABLE;

static inline float clip(const struct optimizer_step *s, float g)
{
    float x = g * s->scale;
    x = x < -s->limit ? -s->limit : x;
    return x > s->limit ? s->limit : x;
}

static void sgd(const struct optimizer_step *step, const float *restrict g, float *restrict w, float *restrict m, size_t count)
{
    const struct optimizer_step s = *step;
    for (size_t i = 0; i < count; i++) {
        m[i] = s.momentum * m[i] - s.rate * clip(&s, g[i]);
        w[i] = (w[i] - s.decay * w[i]) + m[i];
    }
}

static void nesterov(const struct optimizer_step *step, const float *restrict g, float *restrict w, float *restrict m, size_t count)
{
    const struct optimizer_step s = *step;
    for (size_t i = 0; i < count; i++) {
        float d = s.rate * clip(&s, g[i]);
        m[i] = s.momentum * m[i] - d;
        w[i] = (w[i] - s.decay * w[i]) + (s.momentum * m[i] - d);
    }
}

static void adam(const struct optimizer_step *step, const float *restrict g, float *restrict w, float *restrict m, float *restrict v,
                 size_t count)
{
    const struct optimizer_step s = *step;
    for (size_t i = 0; i < count; i++) {
        float x = clip(&s, g[i]);
        m[i] += (x - m[i]) * s.keep1;
        v[i] += (x * x - v[i]) * s.keep2;
        w[i] = (w[i] - s.decay * w[i]) - s.rate * m[i] / (sqrtf(v[i]) + s.epsilon);
    }
}

static void lion(const struct optimizer_step *step, const float *restrict g, float *restrict w, float *restrict m, size_t count)
{
    const struct optimizer_step s = *step;
    for (size_t i = 0; i < count; i++) {
        float x = clip(&s, g[i]), d = m[i] + (x - m[i]) * s.keep1;
        float sign = (float)((d > 0) - (d < 0));
        w[i] = (w[i] - s.decay * w[i]) - s.rate * sign;
        m[i] += (x - m[i]) * s.keep2;
    }
}

static void mean(const struct optimizer_step *s, const float *restrict w, float *restrict ema, size_t count)
{
    const float share = s->ema;
    for (size_t i = 0; i < count; i++)
        ema[i] += (w[i] - ema[i]) * share;
}

static void add(float weight, const float *restrict g, float *restrict sum, int first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = (first ? 0 : sum[i]) + weight * g[i];
}

static double squares(const float *g, size_t count)
{
    double part[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            part[k] += (double)g[i + k] * (double)g[i + k];
    for (; i < count; i++)
        part[i % 8] += (double)g[i] * (double)g[i];
    return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

const struct optimizer_kernels OPTIMIZER_TABLE = {
    .sgd = sgd, .nesterov = nesterov, .adam = adam, .lion = lion, .mean = mean, .add = add, .squares = squares};
