/* compress.c: the steps of a compression, one after the other: channels, zeros, integers. A step that loses too much accuracy is
 * repeated with less, then left out. */
#include "compress/compress.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "compress/channels.h"
#include "export/stored_weights.h"
#include "io/file.h"
#include "network/network.h"
#include "quant/qat.h"
#include "train/evaluate_model.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

/* Replaces `*now` by `next` where that was accepted; frees the other. */
static void advance(pst_network **now, pst_network *next, bool accepted)
{
    pst_network_destroy(accepted ? *now : next);
    if (accepted)
        *now = next;
}

/* ---- Channels ---- */

/* The network with this share of its operations. `*ret` stays NULL where the model cannot be made so small and a milder share may be tried. */
static pst_status shrink(const struct compression *c, const pst_network *from, double share, pst_network **ret, bool last, pst_error *reterr)
{
    const pst_compress_options *o = c->options;
    pst_shrink_options s = {.size = sizeof(s), .flops = share, .norm = o->norm, .exclude = o->exclude, .exclude_count = o->exclude_count};
    pst_status st = pst_shrink(ret, from, &s, reterr);
    return st == PST_ELIMIT && o->bounded && !last ? PST_OK : st;
}

static pst_status step_channels(struct compression *c, pst_network **now, pst_error *reterr)
{
    double share = c->options->flops;
    bool accepted = false, tried = false;
    pst_status st = PST_OK;
    for (int i = 0; st == PST_OK && !c->stop && !accepted && i < COMPRESS_TRIES; i++, share += (1 - share) / 2) {
        char name[64], folder[64];
        pst_network *small = NULL, *tuned = NULL;
        snprintf(name, sizeof(name), "channels, %.0f %% of the operations", 100 * share);
        snprintf(folder, sizeof(folder), "channels-%.3f", share);
        c->what = name;
        st = shrink(c, *now, share, &small, i + 1 == COMPRESS_TRIES && !tried, reterr);
        if (st == PST_OK && !small)
            continue;
        tried = true;
        if (st == PST_OK && c->training) {
            st = compression_train(c, small, folder, NULL, false, &tuned, reterr);
            pst_network_destroy(small);
            small = tuned;
        }
        if (st == PST_OK && small)
            st = compression_judge(c, small, name, &accepted, reterr);
        if (st == PST_OK && small)
            advance(now, small, accepted);
        else
            pst_network_destroy(small);
    }
    return st;
}

/* ---- Zeros ---- */

static pst_status prune_once(struct compression *c, pst_network **now, double share, bool *accepted, pst_error *reterr)
{
    const pst_compress_options *o = c->options;
    struct compression_shares layers = {0};
    pst_compress_options with = *o;
    pst_network *next = NULL;
    char name[64], folder[64];
    pst_status st = PST_OK;
    if (o->group)
        snprintf(name, sizeof(name), "zeros, %u of %u inputs stay", o->group_keep, o->group);
    else
        snprintf(name, sizeof(name), "zeros, %.0f %%%s", 100 * share, o->search ? ", found per layer" : "");
    snprintf(folder, sizeof(folder), o->group ? "zeros-groups" : "zeros-%.3f%s", share, o->search ? "-search" : "");
    c->what = name;
    with.sparsity = share;
    c->options = &with;
    if (o->search && !o->group)
        st = compression_search(c, *now, &layers, reterr);
    if (layers.late)
        snprintf(name, sizeof(name), "zeros, %.0f %%, found per layer in the time given", 100 * share);
    c->options = o;
    pst_prune_options p = {.size = sizeof(p),
                           .sparsity = share,
                           .schedule = o->group ? PST_PRUNE_CONSTANT : PST_PRUNE_POLYNOMIAL,
                           .every = 50,
                           .group_keep = o->group_keep,
                           .group = o->group,
                           .exclude = o->exclude,
                           .exclude_count = o->exclude_count,
                           .layers = (const char *const *)layers.names,
                           .layer_sparsity = layers.shares,
                           .layer_count = layers.count};
    if (st == PST_OK && !c->stop)
        st = compression_train(c, *now, folder, &p, false, &next, reterr);
    if (st == PST_OK && next)
        st = compression_judge(c, next, name, accepted, reterr);
    if (st == PST_OK && next)
        advance(now, next, *accepted);
    else
        pst_network_destroy(next);
    compression_shares_finish(&layers);
    return st;
}

static pst_status step_zeros(struct compression *c, pst_network **now, pst_error *reterr)
{
    double share = c->options->sparsity;
    bool accepted = false;
    pst_status st = PST_OK;
    if (!c->training)
        return pst_fail(reterr, PST_EINVAL, "setting weights to zero needs training data: give data (--data)");
    for (int i = 0; st == PST_OK && !c->stop && !accepted && i < (c->options->group ? 1 : COMPRESS_TRIES); i++, share *= 0.75)
        st = prune_once(c, now, share, &accepted, reterr);
    return st;
}

/* ---- Integers ---- */

static bool count_samples(void *user, uint64_t samples, uint64_t of)
{
    struct compression *c = user;
    pst_run_progress p = {.size = sizeof(p), .step = samples, .epoch_steps = of};
    if (c->options->progress && c->options->progress(c->options->user, c->what, &p, NULL))
        c->stop = true;
    return !c->stop;
}

/* Quantises and judges. `trained`: the network was trained for int8, and has its ranges. */
static pst_status quantise(struct compression *c, pst_network **now, const pst_network *from, unsigned bits, const char *name, bool *accepted,
                           pst_error *reterr)
{
    pst_quantize_options q = {.size = sizeof(q),
                              .format = c->options->format,
                              .weight_bits = bits,
                              .calibration = c->options->calibration,
                              .percentile = c->options->percentile,
                              .samples = c->options->samples,
                              .fields = c->training ? &c->fields : &c->validation_fields,
                              .progress = count_samples,
                              .user = c};
    pst_network *small = NULL;
    c->what = name;
    pst_status st = c->training ? pst_pipeline_seek(c->training, &c->start, reterr) : PST_OK;
    if (st == PST_OK)
        st = pst_quantize(&small, from, c->training ? c->training : c->validation, &q, reterr);
    if (st == PST_ECANCELLED && c->stop)
        return PST_OK;
    if (st == PST_OK)
        st = compression_judge(c, small, name, accepted, reterr);
    if (st == PST_OK)
        advance(now, small, *accepted);
    else
        pst_network_destroy(small);
    return st;
}

static pst_status quantise_trained(struct compression *c, pst_network **now, bool *accepted, pst_error *reterr)
{
    pst_prune_options keep = {.size = sizeof(keep), .schedule = PST_PRUNE_KEEP};
    pst_network *tuned = NULL;
    c->what = "int8, trained for it";
    pst_status st = compression_train(c, *now, "int8-trained", &keep, true, &tuned, reterr);
    if (st == PST_OK && tuned)
        st = quantise(c, now, tuned, 0, "int8, trained for it", accepted, reterr);
    pst_network_destroy(tuned);
    return st;
}

static pst_status step_integers(struct compression *c, pst_network **now, pst_error *reterr)
{
    static const char *const names[] = {"", "bfloat16 weights", "float16 weights", "int8 weights", "int4 weights", "int8"};
    bool accepted = false, integers = c->options->format == PST_WEIGHTS_QUANTIZED;
    pst_status st = PST_OK;
    if (integers && c->options->qat && c->training)
        st = quantise_trained(c, now, &accepted, reterr);
    else if (!(integers && c->options->qat))
        st = quantise(c, now, *now, c->options->weight_bits, names[c->options->format], &accepted, reterr);
    else
        return pst_fail(reterr, PST_EINVAL, "training for int8 needs training data: give data (--data)");
    if (st == PST_OK && !accepted && !c->stop && integers && !c->options->weight_bits && !qat_is((*now)->model->graph, NULL))
        st = quantise(c, now, *now, 8, "int8, kernels of 8 bits", &accepted, reterr);
    if (st == PST_OK && !accepted && !c->stop && integers && !c->options->qat && c->training && c->options->out)
        st = quantise_trained(c, now, &accepted, reterr);
    return st;
}

/* ---- Bits per layer ---- */

static pst_status mix_once(struct compression *c, pst_network **now, const pst_network *folded, struct search *search, double mean, bool *accepted,
                           pst_error *reterr)
{
    char name[64];
    bool late = false;
    pst_network *small = NULL;
    pst_weights_format *each = mem_array(folded->model->graph->param_count + 1, sizeof(*each));
    if (!each)
        return fail_memory(reterr, "compressing");
    double reached = compression_bits_distribute(search, mean, each, &late);
    snprintf(name, sizeof(name), "%.2f bits, found per layer%s", reached, late ? " in the time given" : "");
    c->what = name;
    pst_status st = network_round(&small, folded, PST_WEIGHTS_MIXED, each, reterr);
    if (st == PST_OK)
        st = compression_judge(c, small, name, accepted, reterr);
    if (st == PST_OK)
        advance(now, small, *accepted);
    else
        pst_network_destroy(small);
    mem_free(each);
    return st;
}

/* With more bits where too much is lost: halfway to 16, which lose next to nothing. Layers are measured once. */
static pst_status step_bits(struct compression *c, pst_network **now, pst_error *reterr)
{
    double mean = c->options->bits > 0 ? c->options->bits : 6;
    bool accepted = false;
    pst_network *folded = NULL;
    struct search *search = NULL;
    pst_status st = network_round(&folded, *now, PST_WEIGHTS_FLOAT32, NULL, reterr);
    if (st == PST_OK)
        st = compression_bits_create(&search, c, folded, reterr);
    for (int i = 0; st == PST_OK && !c->stop && !accepted && (i == 0 || (i < COMPRESS_TRIES && mean < 15)); i++, mean += (16 - mean) / 2)
        st = mix_once(c, now, folded, search, mean, &accepted, reterr);
    compression_bits_destroy(search);
    pst_network_destroy(folded);
    return st;
}

/* ---- The result's layers ---- */

static pst_status list_layers(const pst_network *n, pst_compress_layer **ret, size_t *ret_count, pst_error *reterr)
{
    const struct graph *g = n->model->graph;
    pst_compress_layer *list = mem_array(g->param_count + 1, sizeof(*list));
    size_t count = 0;
    if (!list)
        return fail_memory(reterr, "compressing");
    for (size_t i = 0; i < g->param_count; i++) {
        if (!stored_kernel(g, i))
            continue;
        pst_compress_layer *l = &list[count++];
        *l = (pst_compress_layer){.size = sizeof(*l), .weights = g->params[i].count, .bits = network_bits(n, i)};
        snprintf(l->name, sizeof(l->name), "%s", g->nodes[g->params[i].node].name);
        for (size_t k = 0; k < g->params[i].count; k++)
            l->nonzero += n->params[g->params[i].offset + k] != 0;
    }
    *ret = list;
    *ret_count = count;
    return PST_OK;
}

/* ---- The whole ---- */

static pst_status check(const pst_compress_options *o, pst_error *reterr)
{
    if (!(o->sparsity >= 0 && o->sparsity < 1))
        return pst_fail(reterr, PST_EINVAL, "%g of the weights; expected a share from 0 to less than 1", o->sparsity);
    if (!(o->flops >= 0 && o->flops <= 1))
        return pst_fail(reterr, PST_EINVAL, "%g of the operations; expected a share between 0 and 1", o->flops);
    if (!(o->max_loss >= 0 && o->max_loss < 1))
        return pst_fail(reterr, PST_EINVAL, "an accuracy lower by %g; expected 0 or more and less than 1", o->max_loss);
    if ((unsigned)o->format > PST_WEIGHTS_MIXED)
        return pst_fail(reterr, PST_EINVAL, "unknown format of weights: %d", (int)o->format);
    if (o->bits != 0 && !(o->bits >= 4 && o->bits <= 32))
        return pst_fail(reterr, PST_EINVAL, "%g bits per weight; expected a mean from 4 to 32", o->bits);
    if (o->bits != 0 && o->format != PST_WEIGHTS_MIXED)
        return pst_fail(reterr, PST_EINVAL, "a mean of bits per weight (--bits) is for weights-mixed: give that format (--quantize weights-mixed), or leave it out");
    if (o->qat && o->format != PST_WEIGHTS_QUANTIZED)
        return pst_fail(reterr, PST_EINVAL, "training for int8 (--qat) is for int8: give that format (--quantize int8), or leave it out");
    bool removes = o->sparsity > 0 || o->group || (o->flops > 0 && o->flops < 1);
    if (o->exclude_count && !removes)
        return pst_fail(reterr, PST_EINVAL, "layers are excluded (--exclude) from zeros and from fewer channels: ask for one of them (--prune), or leave it out");
    if (o->search && o->group)
        return pst_fail(reterr, PST_EINVAL, "groups of weights have the same share of zeros in each layer: there is nothing to find (--search); give a share (--prune 0.5), or leave it out");
    if (o->search && !(o->sparsity > 0) && o->format != PST_WEIGHTS_MIXED)
        return pst_fail(reterr, PST_EINVAL, "a share of zeros per layer is to be found (--search), but no zeros are asked for: give a share (--prune 0.5, without --structured), or leave it out");
    if ((o->calibration || o->samples || o->weight_bits) && o->format != PST_WEIGHTS_QUANTIZED)
        return pst_fail(reterr, PST_EINVAL, "calibration and bits of kernels are for int8: give that format (--quantize int8), or leave them out");
    if ((unsigned)o->calibration > PST_CALIBRATION_MSE)
        return pst_fail(reterr, PST_EINVAL, "unknown calibration: %d", (int)o->calibration);
    if (o->percentile != 0 && (o->calibration != PST_CALIBRATION_PERCENTILE || !(o->percentile >= 0.5 && o->percentile <= 1)))
        return pst_fail(reterr, PST_EINVAL, "a percentile of %g; expected a share from 0.5 to 1, with that calibration (--calibration percentile)", o->percentile);
    if (o->weight_bits && o->weight_bits != 7 && o->weight_bits != 8)
        return pst_fail(reterr, PST_EINVAL, "kernels of %u bits; expected 7 or 8", o->weight_bits);
    return PST_OK;
}

/* Names that stand for no layer. */
static pst_status check_names(const pst_compress_options *o, const struct graph *g, pst_error *reterr)
{
    for (size_t i = 0; i < o->exclude_count; i++) {
        bool found = false;
        for (size_t k = 0; !found && k < g->count; k++)
            found = channels_named(g, k, o->exclude[i]);
        if (!found)
            return pst_fail(reterr, PST_EINVAL, "no layer with parameters is called \"%.60s\" (--exclude); `penstock model` lists names", o->exclude[i]);
    }
    return PST_OK;
}

/* Whether a step trains, with training data. */
static bool trains(const pst_compress_options *o, bool data)
{
    return o->sparsity > 0 || o->group || o->qat || (o->flops > 0 && o->flops < 1 && data);
}

/* Whether a step trains, or may do so where it loses too much otherwise. */
static bool may_train(const pst_compress_options *o)
{
    return trains(o, true) || (o->format == PST_WEIGHTS_QUANTIZED && o->bounded && o->out);
}

static pst_status prepare(struct compression *c, const pst_network *from, pst_error *reterr)
{
    const pst_run_record *r = pst_network_record(from);
    const char *input = c->options->input_field ? c->options->input_field : r->input_field;
    const char *target = c->options->target_field ? c->options->target_field : r->target_field;
    pst_status st = pst_fields_find(c->validation, input, target, true, &c->validation_fields, reterr);
    if (st == PST_OK && c->training)
        st = pst_fields_find(c->training, input, target, true, &c->fields, reterr);
    if (st == PST_OK && c->training && pst_pipeline_endless(c->training) && !c->options->steps_per_epoch && may_train(c->options))
        st = pst_fail(reterr, PST_EINVAL, "the training data never ends, because of a repeat without a count: give --steps-per-epoch, or leave repeat out");
    if (st == PST_OK)
        st = evaluate_requires_end(c->validation, reterr);
    if (st == PST_OK && c->training)
        st = pst_pipeline_tell(c->training, &c->start, reterr);
    if (st == PST_OK && c->options->bounded && (r->loss == PST_LOSS_MSE || r->loss == PST_LOSS_CUSTOM))
        st = pst_fail(reterr, PST_EINVAL, "the model has no accuracy that could be bounded");
    const pst_compress_options *o = c->options;
    if (st == PST_OK && trains(o, c->training != NULL) && !o->out)
        st = pst_fail(reterr, PST_EINVAL, NEEDS_FOLDER);
    return st == PST_OK && o->out ? file_make_folder(o->out, reterr) : st;
}

static pst_status run_steps(struct compression *c, pst_network **now, pst_error *reterr)
{
    const pst_compress_options *o = c->options;
    bool accepted;
    c->what = "original";
    pst_status st = compression_judge(c, *now, "original", &accepted, reterr);
    if (st < 0)
        return st;
    c->wanted = o->bounded ? c->variants[0].accuracy - o->max_loss : -INFINITY;
    if (!c->stop && o->flops > 0 && o->flops < 1)
        st = step_channels(c, now, reterr);
    if (st == PST_OK && !c->stop && (o->sparsity > 0 || o->group))
        st = step_zeros(c, now, reterr);
    if (st == PST_OK && !c->stop && o->format != PST_WEIGHTS_FLOAT32)
        st = o->format == PST_WEIGHTS_MIXED ? step_bits(c, now, reterr) : step_integers(c, now, reterr);
    return st;
}

/* A copy of `from`: what is not changed is handed back, too. */
static pst_status copy_network(pst_network **ret, const pst_network *from, pst_error *reterr)
{
    const struct graph *g = from->model->graph;
    pst_shape input = pst_model_input(from->model);
    const float **values = mem_array(g->param_count + 1, sizeof(*values));
    if (!values)
        return fail_memory(reterr, "compressing");
    for (size_t i = 0; i < g->param_count; i++)
        values[i] = pst_network_values(from, i);
    pst_status st = pst_network_create(ret, pst_model_text(from->model), &input, values, from->record, reterr);
    mem_free(values);
    return st;
}

bool pst_compress_variant_at(const pst_compress_result *result, size_t i, pst_compress_variant *ret)
{
    if (i >= result->count || result_check(ret, NULL) < 0)
        return false;
    result_give(ret, &result->variants[i], sizeof(*ret));
    return true;
}

bool pst_compress_layer_at(const pst_compress_result *result, size_t i, pst_compress_layer *ret)
{
    bool known = result->size >= offsetof(pst_compress_result, layer_count) + sizeof(result->layer_count);
    if (!known || i >= result->layer_count || result_check(ret, NULL) < 0)
        return false;
    result_give(ret, &result->layers[i], sizeof(*ret));
    return true;
}

pst_status pst_compress(pst_network **ret, const pst_network *from, pst_pipeline *training, pst_pipeline *validation,
                        const pst_compress_options *options, pst_compress_result *result, pst_error *reterr)
{
    pst_compress_options given = {0};
    struct compression c = {.options = &given,
                            .training = training,
                            .validation = validation,
                            .fields = {.size = sizeof(c.fields)},
                            .validation_fields = {.size = sizeof(c.validation_fields)},
                            .wanted = -INFINITY};
    pst_compress_result found = {0};
    pst_network *now = NULL;
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st == PST_OK)
        st = result_check(result, reterr);
    if (st == PST_OK)
        st = check(&given, reterr);
    if (st == PST_OK)
        st = check_names(&given, from->model->graph, reterr);
    if (st == PST_OK && from->quant)
        st = pst_fail(reterr, PST_EINVAL, "the network is quantised already: compress the one that it was made from");
    if (st == PST_OK)
        st = prepare(&c, from, reterr);
    if (st == PST_OK)
        st = copy_network(&now, from, reterr);
    if (st == PST_OK)
        st = run_steps(&c, &now, reterr);
    if (st == PST_ECANCELLED && c.stop)
        st = PST_OK;
    if (st == PST_OK && !c.stop && result->size >= offsetof(pst_compress_result, layer_count) + sizeof(found.layer_count))
        st = list_layers(now, &found.layers, &found.layer_count, reterr); /* an older caller would not free them */
    if (st < 0) {
        mem_free(c.variants);
        pst_network_destroy(now);
        return st;
    }
    found.variants = c.variants;
    found.count = c.count;
    found.stopped = c.stop;
    for (size_t i = 0; i < c.count; i++)
        if (c.variants[i].accepted)
            found.chosen = i;
    result_give(result, &found, sizeof(found));
    *ret = c.stop ? pst_network_destroy(now) : now;
    return PST_OK;
}
