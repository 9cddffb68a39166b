/* metrics.c: see metrics.h. */
#include "train/metrics.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"

#include <math.h>
#include <stdlib.h>

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
        if (loss == PST_LOSS_CUSTOM)
            continue;
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

pst_status metrics_init(struct metrics *m, pst_loss loss, size_t width, pst_error *reterr)
{
    bool binary = loss == PST_LOSS_BINARY, none = loss == PST_LOSS_MSE || loss == PST_LOSS_CUSTOM;
    size_t classes = binary ? (width == 1 ? 2 : 0) : none ? 0 : width;
    *m = (struct metrics){.loss = loss, .width = binary ? width : 0};
    m->classes = classes;
    m->confusion = classes ? mem_array(classes, classes * sizeof(*m->confusion)) : NULL;
    m->spread_count = loss == PST_LOSS_MSE ? width : 0;
    m->spreads = m->spread_count ? mem_array(m->spread_count, sizeof(*m->spreads)) : NULL;
    return (!classes || m->confusion) && (!m->spread_count || m->spreads) ? PST_OK : fail_memory(reterr, "evaluating");
}

static void add_sample(struct metrics *m, struct metrics_sums *to, const float *x, const struct loss_target *t, size_t i, size_t width)
{
    if (m->loss == PST_LOSS_MSE) {
        for (size_t k = 0; k < width; k++) {
            double y = target_value(t, i, k, width), e = (double)x[k] - y;
            m->spreads[k].sum += y;
            m->spreads[k].squares += y * y;
            m->spreads[k].errors += e * e;
        }
        to->values += width;
    } else if (m->confusion && m->loss == PST_LOSS_BINARY) {
        m->confusion[2 * (target_value(t, i, 0, 1) > 0.5) + (x[0] > 0)]++;
    } else if (m->confusion) {
        m->confusion[true_class(t, i, width) * m->classes + largest(x, width)]++;
    }
}

static pst_status add_scores(struct metrics *m, const float *out, const struct loss_target *t, size_t samples, pst_error *reterr)
{
    size_t count = samples * m->width;
    if (mem_grow((void **)&m->scores, &m->score_capacity, m->score_count + count, sizeof(*m->scores)) < 0)
        return fail_memory(reterr, "evaluating");
    for (size_t i = 0; i < count; i++)
        m->scores[m->score_count++] =
            (struct score){.value = out[i], .positive = target_value(t, i / m->width, i % m->width, m->width) > 0.5};
    return PST_OK;
}

void metrics_add_sums(struct metrics_sums *to, const struct metrics_sums *b)
{
    to->samples += b->samples;
    to->correct += b->correct;
    to->correct_top5 += b->correct_top5;
    to->values += b->values;
    to->loss += b->loss;
    to->absolute += b->absolute;
}

pst_status metrics_add(struct metrics *m, const float *out, const struct loss_target *target, size_t width, const pst_step_result *batch,
                       pst_error *reterr)
{
    struct metrics_sums b = {.samples = batch->samples,
                             .correct = batch->correct,
                             .correct_top5 = batch->correct_top5,
                             .loss = batch->loss * (double)batch->samples,
                             .absolute = batch->absolute_error};
    for (size_t i = 0; i < batch->samples; i++)
        add_sample(m, &b, out + i * width, target, i, width);
    metrics_add_sums(&m->sums, &b);
    if (m->keeps_batches) {
        if (mem_grow((void **)&m->batches, &m->batch_capacity, m->batch_count + 1, sizeof(*m->batches)) < 0)
            return fail_memory(reterr, "evaluating");
        m->batches[m->batch_count++] = b;
    }
    return m->width ? add_scores(m, out, target, batch->samples, reterr) : PST_OK;
}

/* ---- AUC and F1 ---- */

static int by_value(const void *a, const void *b)
{
    float x = ((const struct score *)a)->value, y = ((const struct score *)b)->value;
    return x < y ? -1 : x > y;
}

double metrics_auc(struct score *scores, size_t count)
{
    double pairs = 0, negatives = 0, positives = 0;
    if (count > 1)
        qsort(scores, count, sizeof(*scores), by_value);
    for (size_t i = 0; i < count;) {
        double p = 0, n = 0;
        size_t end = i;
        for (; end < count && scores[end].value == scores[i].value; end++) {
            p += scores[end].positive;
            n += !scores[end].positive;
        }
        if (end == i) /* not a number: it is neither above nor below */
            end++;
        pairs += p * (negatives + n / 2);
        positives += p;
        negatives += n;
        i = end;
    }
    return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : NAN;
}

double metrics_f1(uint64_t right, uint64_t wrong)
{
    return right ? 2. * (double)right / (2. * (double)right + (double)wrong) : 0;
}

/* AUC and F1 of binary targets: the means over the results. */
static void binary_scores(struct metrics *m, pst_evaluation *ret, struct score *room)
{
    size_t samples = m->score_count / m->width, counted = 0;
    double auc = 0, f1 = 0;
    for (size_t k = 0; k < m->width; k++) {
        uint64_t right = 0, wrong = 0;
        for (size_t i = 0; i < samples; i++) {
            struct score s = room[i] = m->scores[i * m->width + k];
            right += s.positive && s.value > 0;
            wrong += s.positive != (s.value > 0);
        }
        double area = metrics_auc(room, samples);
        if (!isnan(area)) {
            auc += area;
            counted++;
        }
        f1 += metrics_f1(right, wrong);
    }
    ret->auc = counted ? auc / (double)counted : NAN;
    ret->f1 = f1 / (double)m->width;
}

/* The mean over classes that occur or were predicted. */
static double class_f1(const uint64_t *confusion, size_t classes)
{
    double sum = 0;
    size_t counted = 0;
    for (size_t i = 0; i < classes; i++) {
        uint64_t row = 0, column = 0, right = confusion[i * classes + i];
        for (size_t k = 0; k < classes; k++) {
            row += confusion[i * classes + k];
            column += confusion[k * classes + i];
        }
        sum += metrics_f1(right, row + column - 2 * right);
        counted += row + column > 0;
    }
    return counted ? sum / (double)counted : NAN;
}

/* R²: each result around its own mean, then the mean over the results whose targets differ, as Keras and scikit-learn do. */
static double determination(const struct metrics *m)
{
    double sum = 0, n = (double)m->sums.samples;
    size_t counted = 0;
    for (size_t k = 0; k < m->spread_count; k++) {
        const struct spread *s = &m->spreads[k];
        double total = s->squares - s->sum * s->sum / n;
        if (total > 0) {
            sum += 1 - s->errors / total;
            counted++;
        }
    }
    return counted ? sum / (double)counted : NAN;
}

pst_status metrics_result(struct metrics *m, pst_evaluation *ret, pst_error *reterr)
{
    const struct metrics_sums *s = &m->sums;
    double n = (double)s->samples, values = (double)s->values;
    bool regression = m->loss == PST_LOSS_MSE, custom = m->loss == PST_LOSS_CUSTOM;
    struct score *room = m->width ? mem_array(m->score_count / m->width + 1, sizeof(*room)) : NULL;
    if (m->width && !room)
        return fail_memory(reterr, "evaluating");
    pst_evaluation found = {.samples = s->samples,
                            .loss = s->loss / n,
                            .accuracy = regression || custom ? NAN : (double)s->correct / n,
                            .top5 = regression || custom || m->loss == PST_LOSS_BINARY ? NAN : (double)s->correct_top5 / n,
                            .mae = regression ? s->absolute / values : NAN,
                            .r2 = determination(m),
                            .auc = NAN,
                            .f1 = !m->width && m->confusion ? class_f1(m->confusion, m->classes) : NAN,
                            .classes = m->classes,
                            .confusion = m->confusion};
    if (m->width)
        binary_scores(m, &found, room);
    mem_free(room);
    if (ret->size >= offsetof(pst_evaluation, confusion) + sizeof(ret->confusion)) /* otherwise the caller has no place for it */
        m->confusion = NULL;
    result_give(ret, &found, sizeof(found));
    return PST_OK;
}

void metrics_finish(struct metrics *m)
{
    mem_free(m->scores);
    m->scores = NULL;
    mem_free(m->spreads);
    m->spreads = NULL;
    mem_free(m->batches);
    m->batches = NULL;
    mem_free(m->confusion);
    m->confusion = NULL;
}
