/* evaluate_model.c: see evaluate_model.h. */
#include "train/evaluate_model.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

pst_status locate_sample(pst_pipeline *p, const pst_batch *batch, pst_status st, pst_error *reterr)
{
    pst_place place;
    pst_error where;
    if (!reterr || reterr->record == PST_NOWHERE || st != PST_EINVAL || reterr->record >= pst_batch_size(batch))
        return st;
    if (pst_pipeline_locate(p, batch, (size_t)reterr->record, &place, &where) < 0)
        return st;
    char message[sizeof(reterr->message)];
    memcpy(message, reterr->message, sizeof(message));
    return pst_fail_at(reterr, st, place.path, place.record, place.offset, "%s", message);
}

pst_status samples_of(const pst_batch *b, const pst_fields *f, pst_samples *ret, pst_error *reterr)
{
    *ret = (pst_samples){.size = sizeof(*ret), .input = pst_batch_get(b, f->input), .target = pst_batch_get(b, f->target)};
    return ret->input && ret->target ? PST_OK : pst_fail(reterr, PST_EINVAL, "a batch lacks the field %s or %s", f->input, f->target);
}

/* ---- Mistakes ---- */

void mistakes_finish(struct mistakes *m)
{
    for (size_t i = 0; i < m->count; i++)
        mem_free(m->list[i].data);
    *m = (struct mistakes){0};
}

static size_t likeliest(const float *x, size_t width)
{
    size_t best = 0;
    for (size_t k = 1; k < width; k++)
        if (x[k] > x[best])
            best = k;
    return best;
}

/* Stores the target and the result; returns whether the sample counts as a mistake. */
static bool describe(const pst_trainer *t, const float *out, const struct loss_target *target, size_t i, struct mistake *ret)
{
    size_t width = t->width;
    double first = target->labels ? (double)target->labels[i] : target->values ? (double)target->values[i * width] : 0;
    *ret = (struct mistake){.wanted = first, .found = (double)out[0], .probability = NAN};
    if (t->options.loss == PST_LOSS_BINARY) {
        ret->found = out[0] > 0;
        ret->probability = (double)loss_sigmoid(out[0] > 0 ? out[0] : -out[0]);
        for (size_t k = 0; k < width; k++)
            if ((out[k] > 0) != ((target->labels ? first : (double)target->values[i * width + k]) > 0.5))
                return true;
        return false;
    }
    if (t->options.loss == PST_LOSS_SPARSE || t->options.loss == PST_LOSS_CATEGORICAL) {
        size_t best = likeliest(out, width);
        double sum = 0;
        for (size_t k = 0; k < width; k++)
            sum += exp((double)out[k] - (double)out[best]);
        ret->wanted = target->labels ? first : (double)likeliest(target->values + i * width, width);
        ret->found = (double)best;
        ret->probability = 1 / sum;
        return ret->wanted != ret->found;
    }
    return t->options.loss == PST_LOSS_MSE;
}

static double loss_of(const pst_trainer *t, const float *out, const struct loss_target *target, size_t i)
{
    struct loss_options o = {.kind = t->options.loss, .smoothing = t->options.label_smoothing};
    struct loss_target one = {.labels = target->labels ? target->labels + i : NULL,
                              .values = target->values ? target->values + i * t->width : NULL};
    return loss_compute(&o, out, &one, NULL, 1, t->width, NULL);
}

/* Bytes of one sample. */
static size_t sample_bytes(const pst_tensor *x)
{
    size_t bytes = pst_dtype_size(x->dtype);
    for (uint32_t i = 1; i < x->rank; i++)
        bytes *= (size_t)x->shape[i];
    return bytes;
}

/* Keeps a copy of the input. Without memory for it the sample is left out: pictures are not worth a failure. */
static void insert(struct mistakes *m, struct mistake new, const pst_tensor *input, size_t i)
{
    size_t at = m->count;
    new.bytes = sample_bytes(input);
    new.data = mem_alloc(new.bytes ? new.bytes : 1);
    if (!new.data)
        return;
    memcpy(new.data, (const char *)input->data + i * new.bytes, new.bytes);
    if (m->count == MISTAKES)
        mem_free(m->list[--at].data);
    else
        m->count++;
    for (; at > 0 && m->list[at - 1].loss < new.loss; at--)
        m->list[at] = m->list[at - 1];
    m->list[at] = new;
}

static void place_text(pst_pipeline *p, const pst_batch *batch, size_t i, struct mistake *ret)
{
    pst_place place;
    pst_error error;
    if (pst_pipeline_locate(p, batch, i, &place, &error) < 0 || !place.path)
        return;
    if (place.record == PST_NOWHERE)
        snprintf(ret->place, sizeof(ret->place), "%s", place.path);
    else
        snprintf(ret->place, sizeof(ret->place), "%.120s, record %" PRIu64, place.path, place.record);
}

static void collect(struct mistakes *m, pst_trainer *t, pst_pipeline *p, const pst_batch *batch, const pst_samples *samples,
                    const float *out, const struct loss_target *target)
{
    for (size_t i = 0; i < pst_batch_size(batch); i++) {
        struct mistake new;
        if (!describe(t, out + i * t->width, target, i, &new))
            continue;
        new.loss = loss_of(t, out + i * t->width, target, i);
        if (!isfinite(new.loss) || (m->count == MISTAKES && new.loss <= m->list[MISTAKES - 1].loss))
            continue;
        new.dtype = samples->input->dtype;
        place_text(p, batch, i, &new);
        insert(m, new, samples->input, i);
    }
}

/* ---- The pass ---- */

pst_status evaluate_requires_end(const pst_pipeline *p, pst_error *reterr)
{
    return pst_pipeline_endless(p) ? pst_fail(reterr, PST_EINVAL, "the data to evaluate never ends, because of a repeat without a count: leave it out, or add take N")
                                   : PST_OK;
}

pst_status evaluate_pipeline(pst_trainer *t, pst_pipeline *p, const pst_fields *fields, pst_evaluation *ret, struct mistakes *mistakes,
                             bool shared, pst_error *reterr)
{
    struct metrics m;
    pst_batch *batch = NULL;
    pst_status st = metrics_init(&m, t->options.loss, t->width, reterr);
    m.keeps_batches = shared;
    while (st == PST_OK && (st = pst_pipeline_next(p, &batch, reterr)) == PST_OK) {
        struct loss_target target = {0};
        pst_step_result r = {.size = sizeof(r)};
        pst_samples samples;
        const float *out;
        if (pst_batch_size(batch) > 0) {
            st = samples_of(batch, fields, &samples, reterr);
            if (st == PST_OK)
                st = locate_sample(p, batch, trainer_evaluate(t, &samples, &r, &out, &target, reterr), reterr);
            if (st == PST_OK)
                st = metrics_add(&m, out, &target, t->width, &r, reterr);
            if (st == PST_OK && mistakes && t->options.loss != PST_LOSS_CUSTOM)
                collect(mistakes, t, p, batch, &samples, out, &target);
        }
        batch = pst_batch_unref(batch);
    }
    if (shared) {
        pst_status merged = metrics_merge(&m, t->options.comm, st, reterr);
        st = merged < 0 ? merged : st;
    }
    if (st == PST_END)
        st = m.sums.samples ? PST_OK : pst_fail(reterr, PST_EINVAL, "the pipeline delivered no sample to evaluate");
    if (st == PST_OK)
        st = metrics_result(&m, ret, reterr);
    metrics_finish(&m);
    return st;
}

pst_status pst_trainer_evaluate_pipeline(pst_trainer *t, pst_pipeline *p, const pst_fields *fields, pst_evaluation *ret,
                                         pst_error *reterr)
{
    pst_status st = result_check(ret, reterr);
    if (st == PST_OK)
        st = pst_pipeline_plan(p, reterr);
    if (st == PST_OK)
        st = evaluate_requires_end(p, reterr);
    return st < 0 ? st : evaluate_pipeline(t, p, fields, ret, NULL, false, reterr);
}

/* ---- Batches of the caller ---- */

struct pst_metrics {
    struct metrics sums;
    pst_loss loss;
    size_t width;
};

pst_status pst_metrics_create(pst_metrics **ret, const pst_trainer *t, pst_error *reterr)
{
    pst_metrics *m = mem_zalloc(sizeof(*m));
    if (!m)
        return fail_memory(reterr, "evaluating");
    m->loss = t->options.loss;
    m->width = t->width;
    pst_status st = metrics_init(&m->sums, m->loss, m->width, reterr);
    if (st < 0)
        pst_metrics_destroy(m);
    else
        *ret = m;
    return st;
}

pst_metrics *pst_metrics_destroy(pst_metrics *m)
{
    if (m)
        metrics_finish(&m->sums);
    mem_free(m);
    return NULL;
}

pst_status pst_metrics_add(pst_metrics *m, pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr)
{
    struct loss_target target = {0};
    pst_step_result r = {.size = sizeof(r)};
    const float *out;
    pst_status st = ret ? result_check(ret, reterr) : PST_OK;
    if (st == PST_OK && (t->options.loss != m->loss || t->width != m->width))
        st = pst_fail(reterr, PST_EINVAL, "the metrics belong to another loss, or to another number of results");
    if (st == PST_OK)
        st = trainer_evaluate(t, samples, &r, &out, &target, reterr);
    if (st == PST_OK)
        st = metrics_add(&m->sums, out, &target, m->width, &r, reterr);
    if (st == PST_OK && ret)
        result_give(ret, &r, sizeof(r));
    return st;
}

pst_status pst_metrics_result(pst_metrics *m, pst_evaluation *ret, pst_error *reterr)
{
    struct metrics next = {0};
    pst_status st = result_check(ret, reterr);
    if (st == PST_OK && m->sums.sums.samples == 0)
        st = pst_fail(reterr, PST_EINVAL, "no sample was evaluated");
    if (st == PST_OK)
        st = metrics_init(&next, m->loss, m->width, reterr);
    if (st == PST_OK)
        st = metrics_result(&m->sums, ret, reterr);
    if (st < 0) {
        metrics_finish(&next);
        return st;
    }
    metrics_finish(&m->sums);
    m->sums = next;
    return PST_OK;
}
