/* metrics.c: see metrics.h. */
#include "train/metrics.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>

/* The first of the largest. */
static size_t largest(const float *x, size_t width)
{
    size_t best = 0;
    for (size_t k = 1; k < width; k++)
        if (x[k] > x[best])
            best = k;
    return best;
}

static size_t true_class(const struct loss_target *t, size_t i, size_t width)
{
    return t->labels ? (size_t)t->labels[i] : largest(t->values + i * width, width);
}

/* How many classes are more likely than class `k`. */
static size_t rank_of(const float *x, size_t width, size_t k)
{
    size_t rank = 0;
    for (size_t j = 0; j < width; j++)
        rank += x[j] > x[k] || (x[j] == x[k] && j < k);
    return rank;
}

static double target_value(const struct loss_target *t, size_t i, size_t k, size_t width)
{
    return t->labels ? (double)t->labels[i] : (double)t->values[i * width + k];
}

/* Logits: more likely than not is above 0. */
static bool binary_right(const float *x, const struct loss_target *t, size_t i, size_t width)
{
    for (size_t k = 0; k < width; k++)
        if ((x[k] > 0) != (target_value(t, i, k, width) > 0.5))
            return false;
    return true;
}

void metrics_batch(pst_loss loss, const float *out, const struct loss_target *target, size_t n, size_t width, pst_step_result *ret)
{
    ret->samples = n;
    ret->correct = ret->correct_top5 = 0;
    ret->absolute_error = 0;
    for (size_t i = 0; i < n; i++) {
        const float *x = out + i * width;
        if (loss == PST_LOSS_MSE) {
            for (size_t k = 0; k < width; k++)
                ret->absolute_error += fabs((double)x[k] - target_value(target, i, k, width));
        } else if (loss == PST_LOSS_BINARY) {
            ret->correct += binary_right(x, target, i, width);
        } else {
            size_t rank = rank_of(x, width, true_class(target, i, width));
            ret->correct += rank == 0;
            ret->correct_top5 += rank < 5;
        }
    }
}

pst_status metrics_init(struct metrics *m, pst_loss loss, size_t classes, pst_error *reterr)
{
    *m = (struct metrics){.loss = loss};
    if (loss == PST_LOSS_BINARY && classes == 1)
        classes = 2;
    else if (loss == PST_LOSS_BINARY || loss == PST_LOSS_MSE)
        classes = 0;
    m->classes = classes;
    m->confusion = classes ? mem_array(classes * classes, sizeof(*m->confusion)) : NULL;
    return !classes || m->confusion ? PST_OK : fail_memory(reterr, "evaluating");
}

static void add_sample(struct metrics *m, const float *x, const struct loss_target *t, size_t i, size_t width)
{
    if (m->loss == PST_LOSS_MSE) {
        for (size_t k = 0; k < width; k++) {
            double y = target_value(t, i, k, width), e = (double)x[k] - y;
            m->target_sum += y;
            m->target_squares += y * y;
            m->error_squares += e * e;
        }
        m->values += width;
    } else if (m->confusion && m->loss == PST_LOSS_BINARY) {
        m->confusion[2 * (target_value(t, i, 0, 1) > 0.5) + (x[0] > 0)]++;
    } else if (m->confusion) {
        m->confusion[true_class(t, i, width) * m->classes + largest(x, width)]++;
    }
}

void metrics_add(struct metrics *m, const float *out, const struct loss_target *target, size_t width, const pst_step_result *batch)
{
    m->samples += batch->samples;
    m->correct += batch->correct;
    m->correct_top5 += batch->correct_top5;
    m->loss_sum += batch->loss * (double)batch->samples;
    m->absolute_sum += batch->absolute_error;
    for (size_t i = 0; i < batch->samples; i++)
        add_sample(m, out + i * width, target, i, width);
}

void metrics_result(struct metrics *m, pst_evaluation *ret)
{
    double n = (double)m->samples, values = (double)m->values;
    bool regression = m->loss == PST_LOSS_MSE;
    double spread = m->target_squares - (values > 0 ? m->target_sum * m->target_sum / values : 0);
    *ret = (pst_evaluation){.size = ret->size,
                            .samples = m->samples,
                            .loss = m->loss_sum / n,
                            .accuracy = regression ? NAN : (double)m->correct / n,
                            .top5 = regression || m->loss == PST_LOSS_BINARY ? NAN : (double)m->correct_top5 / n,
                            .mae = regression ? m->absolute_sum / values : NAN,
                            .r2 = regression ? 1 - m->error_squares / spread : NAN,
                            .classes = m->classes,
                            .confusion = m->confusion};
    m->confusion = NULL;
}

void metrics_finish(struct metrics *m)
{
    mem_free(m->confusion);
    m->confusion = NULL;
}
