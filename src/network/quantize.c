/* quantize.c: quantisation after training; see include/penstock/compress.h. */
#include "network/network.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "export/stored_weights.h"
#include "infer/choose.h"
#include "model/convert_input.h"
#include "model/fold.h"
#include "quant/calibrate.h"
#include "quant/qat.h"
#include <penstock/compress.h>

#include <inttypes.h>
#include <string.h>

#define SAMPLES     512
#define PERCENTILE  0.9999
#define MOST_CHOICE 64 /* samples that the choice of kernels is measured with */

/* ---- Samples ---- */

struct feed {
    const struct graph *graph; /* folded */
    struct quant_calibration *calibration;
    const pst_quantize_options *options;
    uint64_t wanted, got;
    float *samples; /* the last batch */
    size_t capacity, count;
};

static pst_status convert(struct feed *f, const pst_tensor *x, pst_error *reterr)
{
    uint64_t values = 1;
    bool fits = x && x->rank >= 1 && !x->row_splits && convert_takes(x->dtype);
    for (uint32_t i = 1; fits && i < x->rank; i++)
        fits = !__builtin_mul_overflow(values, x->shape[i], &values);
    if (!fits || values != shape_values(&f->graph->input))
        return pst_fail(reterr, PST_ETYPE, "calibrating: the pipeline delivers samples of %" PRIu64 " values; the model takes %u×%u×%u", values,
                        f->graph->input.h, f->graph->input.w, f->graph->input.c);
    size_t n = (size_t)x->shape[0];
    n = f->wanted - f->got < n ? (size_t)(f->wanted - f->got) : n;
    if (n > f->capacity) {
        mem_free(f->samples);
        f->samples = mem_large(n * (size_t)values * sizeof(float));
        f->capacity = f->samples ? n : 0;
        if (!f->samples)
            return fail_memory(reterr, "calibrating");
    }
    convert_to_real(f->samples, sizeof(float), x->data, x->dtype, n * (size_t)values);
    f->count = n;
    return PST_OK;
}

static pst_status feed_all(struct feed *f, pst_pipeline *p, const char *input, pst_error *reterr)
{
    pst_batch *batch = NULL;
    pst_status st = PST_OK;
    while (st == PST_OK && f->got < f->wanted && (st = pst_pipeline_next(p, &batch, reterr)) == PST_OK) {
        if (pst_batch_size(batch) > 0)
            st = convert(f, pst_batch_get(batch, input), reterr);
        if (st == PST_OK && pst_batch_size(batch) > 0) {
            st = quant_calibration_feed(f->calibration, f->samples, f->count, reterr);
            f->got += f->count;
        }
        batch = pst_batch_unref(batch);
        if (st == PST_OK && f->options->progress && !f->options->progress(f->options->user, f->got, f->wanted))
            st = pst_fail(reterr, PST_ECANCELLED, "calibrating: stopped");
    }
    if (st == PST_END)
        st = PST_OK;
    if (st == PST_OK && f->got == 0)
        st = pst_fail(reterr, PST_EINVAL, "calibrating: the pipeline delivered no sample");
    return st;
}

/* ---- Weights and activations ---- */

static enum quant_method method_of(pst_calibration c)
{
    return c == PST_CALIBRATION_MINMAX       ? QUANT_MINMAX
           : c == PST_CALIBRATION_PERCENTILE ? QUANT_PERCENTILE
           : c == PST_CALIBRATION_ENTROPY    ? QUANT_ENTROPY
                                             : QUANT_MSE;
}

static pst_status make_integers(struct feed *f, const float *params, struct quant_model **ret, pst_error *reterr)
{
    const pst_quantize_options *o = f->options;
    struct quant_range *ranges = mem_array(f->graph->count + 1, sizeof(*ranges));
    pst_status st = ranges ? quant_calibration_ranges(f->calibration, method_of(o->calibration), o->percentile > 0 ? o->percentile : PERCENTILE,
                                                      ranges, reterr)
                           : fail_memory(reterr, "quantising");
    if (st == PST_OK)
        st = quant_create(ret, f->graph, params, ranges, &(struct quant_options){.weight_bits = o->weight_bits}, reterr);
    if (st == PST_OK && !o->no_correction)
        st = quant_correct_biases(*ret, f->calibration, params, reterr);
    if (st == PST_OK && !o->no_choice)
        st = infer_choose(*ret, f->samples, f->count < MOST_CHOICE ? f->count : MOST_CHOICE, reterr);
    mem_free(ranges);
    return st;
}

/* The network of `from` in integers: the graph they were made from, and its weights as they were rounded. */
static pst_status network_of_integers(pst_network **ret, const pst_network *from, const struct graph *g, struct quant_model *q, pst_error *reterr)
{
    char *text = graph_text(g);
    float *rounded = mem_large((g->values ? g->values : 1) * sizeof(float));
    pst_status st = text && rounded ? PST_OK : fail_memory(reterr, "quantising");
    if (st == PST_OK) {
        quant_dequantise(q, rounded);
        st = network_make(ret, text, &from->record->input, from->record, from->record->loss, rounded, PST_WEIGHTS_QUANTIZED, q, reterr);
    }
    if (st < 0)
        mem_free(rounded);
    mem_free(text);
    return st;
}

static pst_status quantise_all(pst_network **ret, const pst_network *from, pst_pipeline *p, const pst_quantize_options *o, pst_error *reterr)
{
    struct graph *folded = NULL;
    struct quant_model *q = NULL;
    float *params = NULL;
    pst_fields found = {.size = sizeof(found)};
    struct feed f = {.options = o, .wanted = o->samples ? o->samples : SAMPLES};
    pst_status st = o->fields ? PST_OK : pst_fields_find(p, from->record->input_field, from->record->target_field, false, &found, reterr);
    if (st == PST_OK)
        st = graph_fold(&folded, &params, from->model->graph, from->params, reterr);
    f.graph = folded;
    if (st == PST_OK)
        st = quant_calibration_create(&f.calibration, folded, params, reterr);
    if (st == PST_OK)
        st = feed_all(&f, p, o->fields ? o->fields->input : found.input, reterr);
    if (st == PST_OK)
        st = make_integers(&f, params, &q, reterr);
    if (st == PST_OK)
        st = network_of_integers(ret, from, folded, q, reterr);
    mem_free(params);
    mem_free(f.samples);
    quant_unref(q);
    quant_calibration_destroy(f.calibration);
    graph_destroy(folded);
    return st;
}

/* ---- Models that were trained for int8 ---- */

/* Makes the integers that the model's fakequant layers have trained. Layers are measured with zeros as samples. */
static pst_status quantise_trained(pst_network **ret, const pst_network *from, unsigned bits, const pst_quantize_options *o, pst_error *reterr)
{
    struct graph *g = NULL;
    struct quant_range *ranges = NULL;
    struct quant_model *q = NULL;
    float *params = NULL, *samples = NULL;
    pst_status st = qat_strip(&g, &params, &ranges, from->model->graph, from->params, reterr);
    if (st == PST_OK)
        st = quant_create(&q, g, params, ranges, &(struct quant_options){.weight_bits = bits}, reterr);
    if (st == PST_OK && !o->no_choice) {
        samples = mem_array(shape_values(&g->input), sizeof(float));
        st = samples ? infer_choose(q, samples, 1, reterr) : fail_memory(reterr, "quantising");
    }
    if (st == PST_OK)
        st = network_of_integers(ret, from, g, q, reterr);
    quant_unref(q);
    graph_destroy(g);
    mem_free(params);
    mem_free(ranges);
    mem_free(samples);
    return st;
}

/* ---- Weights only ---- */

static pst_weights_format *copy_formats(const pst_weights_format *each, size_t count)
{
    pst_weights_format *copy = mem_array(count + 1, sizeof(*copy));
    if (copy)
        memcpy(copy, each, count * sizeof(*copy));
    return copy;
}

pst_status network_round(pst_network **ret, const pst_network *from, pst_weights_format format, const pst_weights_format *each, pst_error *reterr)
{
    struct graph *folded = NULL;
    pst_weights_format *formats = NULL;
    float *params = NULL;
    pst_status st = graph_fold(&folded, &params, from->model->graph, from->params, reterr);
    if (st == PST_OK)
        st = stored_round(folded, params, format, each, reterr);
    char *text = st == PST_OK ? graph_text(folded) : NULL;
    if (st == PST_OK && format == PST_WEIGHTS_MIXED)
        formats = copy_formats(each, folded->param_count);
    if (st == PST_OK)
        st = text && (formats || format != PST_WEIGHTS_MIXED)
                 ? network_make(ret, text, &from->record->input, from->record, from->record->loss, params, format, NULL, reterr)
                 : fail_memory(reterr, "quantising");
    if (st == PST_OK) {
        (*ret)->each = formats;
    } else {
        mem_free(formats);
        mem_free(params);
    }
    mem_free(text);
    graph_destroy(folded);
    return st;
}

static pst_status check_options(const pst_quantize_options *o, pst_error *reterr)
{
    if (o->format == PST_WEIGHTS_MIXED)
        return pst_fail(reterr, PST_EINVAL, "formats per layer are found by pst_compress, which measures them");
    if ((unsigned)o->format > PST_WEIGHTS_QUANTIZED || (unsigned)o->calibration > PST_CALIBRATION_MSE)
        return pst_fail(reterr, PST_EINVAL, "unknown format of weights or calibration");
    if (!(o->percentile >= 0 && o->percentile <= 1))
        return pst_fail(reterr, PST_EINVAL, "a percentile of %g; expected a share from 0.5 to 1", o->percentile);
    return PST_OK;
}

pst_status pst_quantize(pst_network **ret, const pst_network *from, pst_pipeline *calibration, const pst_quantize_options *options,
                        pst_error *reterr)
{
    pst_quantize_options given = {0}, *o = &given;
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st == PST_OK)
        st = check_options(o, reterr);
    if (st < 0)
        return st;
    if (from->quant)
        return pst_fail(reterr, PST_EINVAL, "the network is quantised already");
    if (o->format != PST_WEIGHTS_FLOAT32 && o->format != PST_WEIGHTS_QUANTIZED)
        return network_round(ret, from, o->format, NULL, reterr);
    unsigned bits = 0;
    if (qat_is(from->model->graph, &bits))
        return quantise_trained(ret, from, bits, o, reterr);
    if (!calibration)
        return pst_fail(reterr, PST_EINVAL, "quantising activations needs samples: a pipeline");
    return quantise_all(ret, from, calibration, o, reterr);
}
