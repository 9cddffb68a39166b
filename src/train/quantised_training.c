/* quantised_training.c: a model and a trainer for quantisation-aware training, from a trained one: calibrated, folded, with fakequant layers. */
#include "base/cast.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "model/convert_input.h"
#include "model/fold.h"
#include "quant/calibrate.h"
#include "quant/qat.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <string.h>

/* Whether a field holds `n` samples of `values` numbers each. */
static bool holds_samples(const pst_tensor *x, size_t n, size_t values)
{
    uint64_t each = 1;
    bool fits = x && x->rank >= 1 && !x->row_splits && convert_takes(x->dtype) && x->shape[0] >= n;
    for (uint32_t i = 1; fits && i < x->rank; i++)
        fits = !__builtin_mul_overflow(each, x->shape[i], &each);
    return fits && each == values;
}

/* Feeds up to `samples` samples of the pipeline, from where it is. */
static pst_status feed(struct quant_calibration *c, const struct graph *g, pst_pipeline *p, const pst_fields *fields, uint64_t samples,
                       pst_error *reterr)
{
    size_t values = shape_values(&g->input);
    pst_status st = PST_OK;
    for (uint64_t done = 0; st == PST_OK && done < samples;) {
        pst_batch *batch = NULL;
        st = pst_pipeline_next(p, &batch, reterr);
        if (st == PST_END)
            return done ? PST_OK : pst_fail(reterr, PST_EINVAL, "calibrating: the pipeline delivered no batch");
        if (st < 0)
            return st;
        const pst_tensor *x = pst_batch_get(batch, fields->input);
        size_t n = pst_batch_size(batch);
        n = samples - done < n ? (size_t)(samples - done) : n;
        float *in = mem_array(n * values + 1, sizeof(float));
        if (!holds_samples(x, n, values))
            st = pst_fail(reterr, PST_ETYPE, "calibrating: field %s does not hold numbers of the shape of the model's input",
                          fields->input);
        else if (!in)
            st = fail_memory(reterr, "calibrating");
        else {
            cast_values(in, PST_DTYPE_F32, x->data, x->dtype, n * values);
            st = n ? quant_calibration_feed(c, in, n, reterr) : PST_OK;
        }
        mem_free(in);
        pst_batch_unref(batch);
        done += n;
    }
    return st;
}

/* Ranges of the values of a folded graph; the pipeline is where it was before. */
static pst_status calibrate(const struct graph *g, const float *params, pst_pipeline *p, const pst_qat_options *q, struct quant_range *ranges,
                            pst_error *reterr)
{
    struct quant_calibration *c = NULL;
    pst_cursor cursor;
    pst_status st = quant_calibration_create(&c, g, params, reterr);
    if (st == PST_OK)
        st = pst_pipeline_tell(p, &cursor, reterr);
    if (st == PST_OK) {
        st = feed(c, g, p, q->fields, q->samples ? q->samples : 512, reterr);
        pst_status back = st == PST_OK ? pst_pipeline_seek(p, &cursor, reterr) : PST_OK;
        st = st < 0 ? st : back;
    }
    if (st == PST_OK)
        st = quant_calibration_ranges(c, QUANT_MSE, 0, ranges, reterr);
    quant_calibration_destroy(c);
    return st;
}

pst_status trainer_of_text(pst_trainer **ret, pst_model **ret_model, const char *text, const struct shape *input, const float *params,
                           const pst_train_options *options, pst_error *reterr)
{
    pst_model *m = NULL;
    pst_trainer *t = NULL;
    pst_shape shape = shape_public(input);
    pst_status st = pst_model_parse(&m, text, &shape, reterr);
    if (st == PST_OK)
        st = pst_trainer_create(&t, m, options, reterr);
    if (st < 0) {
        pst_model_destroy(m);
        return st;
    }
    memcpy(t->params, params, m->graph->values * sizeof(float));
    optimizer_start_mean(t->optimizer, t->params);
    *ret = t;
    *ret_model = m;
    return PST_OK;
}

static pst_status check(const pst_qat_options *q, const struct graph *g, pst_error *reterr)
{
    if (!q->fields)
        return pst_fail(reterr, PST_EINVAL, "pst_qat_options.fields is not set");
    if (q->weight_bits && q->weight_bits != QUANT_BITS_7 && q->weight_bits != QUANT_BITS_8)
        return pst_fail(reterr, PST_EINVAL, "kernels of %u bits; expected 7 or 8", q->weight_bits);
    if (qat_is(g, NULL))
        return pst_fail(reterr, PST_EINVAL, "the model already has fakequant layers: it trains for int8 as it is");
    return PST_OK;
}

pst_status pst_trainer_prepare_qat(pst_trainer **ret, pst_model **ret_model, const pst_trainer *from, const pst_train_options *options,
                                   pst_pipeline *calibration, const pst_qat_options *q, pst_error *reterr)
{
    const float *mean = optimizer_state(from->optimizer, 2);
    struct graph *folded = NULL, *g = NULL;
    struct quant_range *ranges = NULL;
    float *params = NULL, *new = NULL;
    char *text = NULL;
    pst_qat_options given = {0};
    pst_status st = options_take(&given, sizeof(given), q, reterr);
    q = &given;
    if (st == PST_OK)
        st = check(q, from->model->graph, reterr);
    if (st == PST_OK)
        st = graph_fold(&folded, &params, from->model->graph, mean ? mean : from->params, reterr);
    if (st == PST_OK) {
        ranges = mem_array(folded->count + 1, sizeof(*ranges));
        st = ranges ? calibrate(folded, params, calibration, q, ranges, reterr) : fail_memory(reterr, "calibrating");
    }
    if (st == PST_OK)
        st = qat_create(&g, &text, &new, folded, params, ranges, q->weight_bits ? q->weight_bits : QUANT_BITS_7, reterr);
    if (st == PST_OK)
        st = trainer_of_text(ret, ret_model, text, &g->input, new, options, reterr);
    graph_destroy(folded);
    graph_destroy(g);
    mem_free(params);
    mem_free(new);
    mem_free(ranges);
    mem_free(text);
    return st;
}
