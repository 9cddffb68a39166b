/* network_evaluate.c: how good a network is on the data of a pipeline, by its predictor. */
#include "network/network.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "train/evaluate_model.h"
#include "train/loss.h"
#include "train/metrics.h"

#include <inttypes.h>

struct evaluation {
    pst_predictor *predictor;
    pst_loss loss;
    size_t width, capacity; /* results per sample; samples that fit */
    float *out;
    struct target_room room;
    struct metrics metrics;
};

static void evaluation_finish(struct evaluation *e)
{
    pst_predictor_destroy(e->predictor);
    mem_free(e->out);
    mem_free(e->room.labels);
    mem_free(e->room.values);
    metrics_finish(&e->metrics);
}

/* Makes room for batches of `n` samples. */
static bool grow(struct evaluation *e, size_t n)
{
    if (n <= e->capacity)
        return true;
    mem_free(e->out);
    mem_free(e->room.labels);
    mem_free(e->room.values);
    e->out = mem_array(n, e->width * sizeof(float));
    e->room.labels = mem_array(n, sizeof(int64_t));
    e->room.values = mem_array(n, e->width * sizeof(float));
    e->capacity = e->out && e->room.labels && e->room.values ? n : 0;
    return e->capacity > 0;
}

static pst_status add_batch(struct evaluation *e, const pst_batch *batch, const pst_fields *fields, pst_error *reterr)
{
    pst_step_result r = {.size = sizeof(r)};
    struct loss_target target;
    pst_samples samples;
    size_t n = pst_batch_size(batch);
    pst_status st = samples_of(batch, fields, &samples, reterr);
    if (st == PST_OK && !grow(e, n))
        st = fail_memory(reterr, "evaluating");
    if (st == PST_OK)
        st = pst_predictor_run(e->predictor, samples.input, e->out, reterr);
    if (st == PST_OK)
        st = target_convert(&e->room, samples.target, n, &target, reterr);
    if (st < 0)
        return st;
    r.loss = loss_compute(&(struct loss_options){.kind = e->loss}, e->out, &target, NULL, n, e->width, NULL);
    metrics_batch(e->loss, e->out, &target, n, e->width, &r);
    return metrics_add(&e->metrics, e->out, &target, e->width, &r, reterr);
}

static pst_status run(struct evaluation *e, pst_pipeline *p, const pst_fields *fields, pst_error *reterr)
{
    pst_batch *batch = NULL;
    pst_status st = PST_OK;
    while (st == PST_OK && (st = pst_pipeline_next(p, &batch, reterr)) == PST_OK) {
        if (pst_batch_size(batch) > 0)
            st = locate_sample(p, batch, add_batch(e, batch, fields, reterr), reterr);
        batch = pst_batch_unref(batch);
    }
    if (st == PST_END)
        st = e->metrics.sums.samples ? PST_OK : pst_fail(reterr, PST_EINVAL, "the pipeline delivered no sample to evaluate");
    return st;
}

pst_status pst_network_evaluate(const pst_network *n, pst_pipeline *p, const pst_fields *fields, unsigned threads, pst_evaluation *ret,
                                pst_error *reterr)
{
    const pst_run_record *r = n->record;
    pst_fields found = {.size = sizeof(found)};
    pst_predict_options o = {.size = sizeof(o), .threads = threads, .output = r->loss == PST_LOSS_MSE ? PST_OUTPUT_MODEL : PST_OUTPUT_LOGITS};
    struct evaluation e = {.loss = r->loss, .width = shape_values(graph_shape(n->model->graph, n->model->graph->count))};
    pst_status st = result_check(ret, reterr);
    if (st < 0)
        return st;
    if (r->loss == PST_LOSS_CUSTOM)
        return pst_fail(reterr, PST_EUNSUPPORTED, "the model was trained with a loss of its own, which is not stored");
    st = fields ? pst_pipeline_plan(p, reterr) : pst_fields_find(p, r->input_field, r->target_field, true, &found, reterr);
    if (st == PST_OK)
        st = evaluate_requires_end(p, reterr);
    e.room = (struct target_room){.loss = e.loss, .width = e.width};
    if (st == PST_OK)
        st = metrics_init(&e.metrics, e.loss, e.width, reterr);
    if (st == PST_OK)
        st = pst_predictor_of_network(&e.predictor, n, &o, reterr);
    if (st == PST_OK)
        st = run(&e, p, fields ? fields : &found, reterr);
    if (st == PST_OK)
        st = metrics_result(&e.metrics, ret, reterr);
    evaluation_finish(&e);
    return st;
}
