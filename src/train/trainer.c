/* trainer.c: one trainer: weights, gradients, step and optimiser together. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "model/kernel_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Making ---- */

/* 0 stands for the default, and what is negative for 0. */
static double chosen(double value, double fallback)
{
    return value < 0 ? 0 : value > 0 ? value : fallback;
}

static void fill_defaults(pst_train_options *o)
{
    o->rate = chosen(o->rate, 1e-3);
    o->beta1 = chosen(o->beta1, 0.9);
    o->beta2 = chosen(o->beta2, o->optimizer == PST_OPTIMIZER_LION ? 0.99 : 0.999);
    o->weight_decay = chosen(o->weight_decay, o->optimizer == PST_OPTIMIZER_ADAMW ? 0.004 : 0);
    o->epsilon = o->epsilon > 0 ? o->epsilon : 1e-7;
    o->gamma = o->gamma > 0 ? o->gamma : 0.1;
    o->schedule_every = o->schedule_every ? o->schedule_every : 1000;
    o->plateau_patience = o->plateau_patience ? o->plateau_patience : 5;
    o->threads = o->threads ? o->threads : cpu_cores();
    o->accumulate = o->accumulate ? o->accumulate : 1;
    o->temperature = chosen(o->temperature, 3);
    o->alpha = chosen(o->alpha, 0.5);
    o->feature_weight = chosen(o->feature_weight, 1);
}

static pst_status check_options(const pst_train_options *o, pst_error *reterr)
{
    if (o->batch == 0)
        return pst_fail(reterr, PST_EINVAL, "a trainer needs a batch of at least one sample");
    if (o->loss == PST_LOSS_AUTO || o->loss > PST_LOSS_CUSTOM)
        return pst_fail(reterr, PST_EINVAL, "no loss is chosen");
    if (o->mixed > PST_MIXED_BFLOAT16)
        return pst_fail(reterr, PST_EINVAL, "there is no mixed precision %d", (int)o->mixed);
    if (o->optimizer > PST_OPTIMIZER_LION)
        return pst_fail(reterr, PST_EINVAL, "there is no optimizer %d", (int)o->optimizer);
    if (!(o->beta1 < 1 && o->beta2 < 1))
        return pst_fail(reterr, PST_EINVAL, "beta1 is %g and beta2 %g; expected less than 1", o->beta1, o->beta2);
    if (!(o->epsilon >= 0))
        return pst_fail(reterr, PST_EINVAL, "epsilon is %g; expected more than 0", o->epsilon);
    if (!(o->label_smoothing >= 0 && o->label_smoothing < 1))
        return pst_fail(reterr, PST_EINVAL, "label_smoothing is %g; expected 0 or more and less than 1", o->label_smoothing);
    if (!(o->temperature >= 0 && o->alpha <= 1))
        return pst_fail(reterr, PST_EINVAL, "temperature is %g and alpha %g; expected more than 0, and 0 to 1", o->temperature, o->alpha);
    if (!(o->ema >= 0 && o->ema < 1))
        return pst_fail(reterr, PST_EINVAL, "ema is %g; expected 0 or more and less than 1", o->ema);
    bool needs_total = o->schedule == PST_SCHEDULE_COSINE || o->schedule == PST_SCHEDULE_ONE_CYCLE;
    if (needs_total && o->total_steps == 0)
        return pst_fail(reterr, PST_EINVAL, "this schedule needs the number of steps of the whole run");
    return PST_OK;
}

/* A last softmax or sigmoid is trained from logits by its own loss only. */
static pst_status check_ending(const pst_model *m, pst_loss loss, pst_error *reterr)
{
    const char *ending = model_ending(m);
    bool categorical = loss == PST_LOSS_SPARSE || loss == PST_LOSS_CATEGORICAL;
    if (categorical && strcmp(ending, "sigmoid") == 0)
        return pst_fail(reterr, PST_EINVAL, "categorical cross-entropy needs a model that ends with softmax or with logits; this one ends with "
                                            "sigmoid: choose the binary loss, or remove sigmoid");
    if (loss == PST_LOSS_BINARY && strcmp(ending, "softmax") == 0)
        return pst_fail(reterr, PST_EINVAL, "binary cross-entropy needs a model that ends with sigmoid or with logits; this one ends with "
                                            "softmax: choose a categorical loss, or remove softmax");
    if (pst_model_output(m).rank != 1)
        return pst_fail(reterr, PST_EINVAL, "the model's result is an image; a model that is trained ends with a vector: add flatten or "
                                            "globalavgpool, and dense");
    return PST_OK;
}

/* The number of classes that class weights are for; 0: the loss has none. */
static size_t weighted_classes(const pst_trainer *t)
{
    pst_loss loss = t->options.loss;
    if (loss == PST_LOSS_BINARY)
        return t->width == 1 ? 2 : 0;
    return loss == PST_LOSS_SPARSE || loss == PST_LOSS_CATEGORICAL ? t->width : 0;
}

static pst_status take_class_weights(pst_trainer *t, pst_error *reterr)
{
    const pst_train_options *o = &t->options;
    size_t classes = weighted_classes(t);
    if (!o->class_weights)
        return PST_OK;
    if (classes == 0)
        return pst_fail(reterr, PST_EINVAL, "class weights need a loss with classes: categorical, or binary with one result");
    if (o->class_count != classes)
        return pst_fail(reterr, PST_EINVAL, "%zu class weights for %zu classes", o->class_count, classes);
    for (size_t i = 0; i < classes; i++)
        if (!(o->class_weights[i] >= 0 && o->class_weights[i] < INFINITY))
            return pst_fail(reterr, PST_EINVAL, "the weight of class %zu is %g; expected 0 or more", i, o->class_weights[i]);
    t->class_weights = mem_array(classes, sizeof(double));
    if (!t->class_weights)
        return fail_memory(reterr, "making the trainer");
    memcpy(t->class_weights, o->class_weights, classes * sizeof(double));
    return PST_OK;
}

static pst_status make_step(pst_trainer *t, unsigned features, pst_error *reterr)
{
    struct step_options o = {.batch = t->options.batch,
                             .threads = t->options.threads,
                             .training = true,
                             .logits = t->options.loss != PST_LOSS_MSE && t->options.loss != PST_LOSS_CUSTOM,
                             .features = features,
                             .seed = t->options.seed,
                             .recompute = t->options.recompute,
                             .shared_norm = t->options.sync_norm && pst_comm_size(t->options.comm) > 1,
                             .store = t->options.mixed == PST_MIXED_FLOAT16    ? NUMBER_F16
                                      : t->options.mixed == PST_MIXED_BFLOAT16 ? NUMBER_BF16
                                                                               : NUMBER_F32};
    struct kernel_table given = {0}, used = {0};
    const struct graph *graph = t->tapped ? t->tapped : t->model->graph;
    pst_status st = kernel_table_parse(&given, t->options.kernels, features, reterr);
    o.kernels = &given;
    if (st == PST_OK)
        st = step_create(&t->step, graph, &o, reterr);
    if (st == PST_OK) {
        t->width = shape_values(step_out_shape(t->step));
        t->kernels.failed |= !step_kernels(t->step, &used);
        kernel_table_print(&used, &t->kernels);
        st = t->kernels.failed ? fail_memory(reterr, "making the trainer") : PST_OK;
    }
    kernel_table_finish(&given);
    kernel_table_finish(&used);
    return st;
}

static pst_status make_optimizer(pst_trainer *t, unsigned features, pst_error *reterr)
{
    const pst_train_options *o = &t->options;
    struct optimizer_options c = {.kind = o->optimizer,
                                  .momentum = o->momentum,
                                  .beta1 = o->beta1,
                                  .beta2 = o->beta2,
                                  .epsilon = o->epsilon,
                                  .weight_decay = o->weight_decay,
                                  .clip_norm = o->clip_norm,
                                  .clip_value = o->clip_value,
                                  .ema = o->ema,
                                  .accumulates = o->accumulate > 1 && !o->exact_ranks,
                                  .freeze = o->freeze,
                                  .freeze_count = o->freeze_count,
                                  .features = features};
    return optimizer_create(&t->optimizer, t->model->graph, &c, reterr);
}

static pst_status make_prune(pst_trainer *t, pst_error *reterr)
{
    const struct graph *g = t->model->graph;
    bool *trained = mem_array(g->param_count + 1, sizeof(*trained));
    if (!trained)
        return fail_memory(reterr, "making the trainer");
    for (size_t i = 0; i < g->param_count; i++)
        trained[i] = optimizer_trains(t->optimizer, i);
    pst_status st = prune_create(&t->prune, g, trained, t->options.prune, t->options.total_steps, reterr);
    mem_free(trained);
    return st;
}

static pst_status make_buffers(pst_trainer *t, pst_error *reterr)
{
    size_t results = t->options.batch * t->width * sizeof(float); /* the step has checked that it does not overflow */
    size_t values = t->model->graph->values * sizeof(float) + 64;
    t->params = mem_large(values);
    t->grads = mem_large(values);
    t->dout = mem_aligned(results);
    t->values = mem_aligned(results);
    t->labels = mem_array(t->options.batch, sizeof(*t->labels));
    t->weights = mem_array(t->options.batch, sizeof(*t->weights));
    if (!t->params || !t->grads || !t->dout || !t->values || !t->labels || !t->weights)
        return fail_memory(reterr, "making the trainer");
    memset(t->grads, 0, values);
    graph_init_params(t->model->graph, t->options.seed, t->params);
    optimizer_start_mean(t->optimizer, t->params);
    return PST_OK;
}

pst_status pst_trainer_create(pst_trainer **ret, const pst_model *model, const pst_train_options *options, pst_error *reterr)
{
    pst_train_options given = {0};
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    options = &given;
    if (st == PST_OK)
        st = check_options(options, reterr);
    if (st == PST_OK)
        st = check_ending(model, options->loss, reterr);
    if (st < 0)
        return st;
    pst_trainer *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "making the trainer");
    unsigned features = options->portable ? 0 : cpu_features();
    t->instructions = features & CPU_AVX512 ? "avx512" : features & CPU_AVX2 ? "avx2" : "portable";
    t->model = model;
    t->options = *options;
    t->scale.factor = options->mixed == PST_MIXED_FLOAT16 ? LOSS_SCALE_START : 1;
    t->schedule = (struct schedule_state){.factor = 1, .best = INFINITY};
    fill_defaults(&t->options);
    st = trainer_make_taps(t, reterr);
    if (st == PST_OK)
        st = make_step(t, features, reterr);
    if (st == PST_OK)
        st = make_optimizer(t, features, reterr);
    t->options.freeze = NULL; /* the caller's */
    t->options.kernels = NULL;
    if (st == PST_OK && t->options.prune)
        st = make_prune(t, reterr);
    t->options.prune = NULL;
    if (st == PST_OK)
        st = fake_quant_create(&t->fake, model->graph, reterr);
    t->options.features = NULL;
    t->options.feature_shapes = NULL;
    if (st == PST_OK)
        st = take_class_weights(t, reterr);
    t->options.class_weights = NULL;
    if (st == PST_OK)
        st = make_buffers(t, reterr);
    if (st == PST_OK && (pst_comm_size(options->comm) > 1 || options->exact_ranks))
        st = ranks_create(&t->ranks, t, options->comm, reterr);
    if (st < 0)
        pst_trainer_destroy(t);
    else
        *ret = t;
    return st;
}

pst_trainer *pst_trainer_destroy(pst_trainer *t)
{
    if (!t)
        return NULL;
    ranks_destroy(t->ranks);
    step_destroy(t->step);
    trainer_finish_taps(t);
    optimizer_destroy(t->optimizer);
    prune_destroy(t->prune);
    fake_quant_destroy(t->fake);
    pst_predictor_destroy(t->predictor);
    mem_free(t->params);
    mem_free(t->grads);
    mem_free(t->dout);
    mem_free(t->values);
    mem_free(t->labels);
    mem_free(t->class_weights);
    text_finish(&t->kernels);
    profile_finish(&t->profile);
    pst_trainer_set_classes(t, NULL, 0, NULL);
    mem_free(t->weights);
    mem_free(t);
    return NULL;
}

/* ---- Samples ---- */

static uint64_t values_per_sample(const pst_tensor *x)
{
    uint64_t n = 1;
    for (uint32_t i = 1; i < x->rank; i++)
        if (__builtin_mul_overflow(n, x->shape[i], &n))
            return UINT64_MAX;
    return n;
}

static pst_status check_input(const pst_trainer *t, const pst_tensor *x, pst_error *reterr)
{
    size_t want = shape_values(&t->model->graph->input);
    if (x->rank < 1 || x->row_splits || x->dtype == PST_DTYPE_BYTES || values_per_sample(x) != want)
        return pst_fail(reterr, PST_ETYPE, "the input has %" PRIu64 " values per sample of type %s; the model takes %zu numbers",
                        x->rank < 1 ? 1 : values_per_sample(x), pst_dtype_name(x->dtype), want);
    if (x->shape[0] == 0 || x->shape[0] > t->options.batch)
        return pst_fail(reterr, PST_EINVAL, "%" PRIu64 " samples; the trainer was made for 1 to %zu", x->shape[0], t->options.batch);
    return PST_OK;
}

pst_status trainer_target(pst_trainer *t, const pst_tensor *x, size_t n, struct loss_target *ret, pst_error *reterr)
{
    return target_convert(&(struct target_room){.loss = t->options.loss, .width = t->width, .labels = t->labels, .values = t->values}, x, n, ret,
                          reterr);
}

/* ---- Steps ---- */

static pst_status fail_nonfinite(pst_trainer *t, double loss, pst_error *reterr)
{
    const char *parameter, *layer;
    size_t sample = step_find_nonfinite_input(t->step);
    if (sample != SIZE_MAX)
        return pst_fail_at(reterr, PST_EINVAL, NULL, sample, PST_NOWHERE, "step %" PRIu64 ": the input has a value that is not finite", t->steps + 1);
    layer = step_find_nonfinite(t->step, &parameter);
    if (parameter)
        return pst_fail(reterr, PST_ETYPE, "step %" PRIu64 ": the loss is %g; %s has a value that is not finite: try a smaller learning rate, "
                                           "or clip gradients", t->steps + 1, loss, parameter);
    if (layer)
        return pst_fail(reterr, PST_ETYPE, "step %" PRIu64 ": the loss is %g; the first value that is not finite is in %s: try a smaller "
                                           "learning rate, or clip gradients", t->steps + 1, loss, layer);
    return pst_fail(reterr, PST_ETYPE, "step %" PRIu64 ": the loss is %g, but every layer is finite: check the targets", t->steps + 1, loss);
}

/* Weights of the samples: the caller's times those of their classes. NULL: all are 1. */
static const float *sample_weights(pst_trainer *t, const pst_samples *samples, const struct loss_target *target, size_t n)
{
    if (!t->class_weights)
        return samples->weights;
    for (size_t i = 0; i < n; i++) {
        double w = 0;
        if (target->labels)
            w = t->class_weights[target->labels[i]];
        else if (t->options.loss == PST_LOSS_BINARY)
            w = t->class_weights[0] + (t->class_weights[1] - t->class_weights[0]) * (double)target->values[i];
        else
            for (size_t k = 0; k < t->width; k++)
                w += t->class_weights[k] * (double)target->values[i * t->width + k];
        t->weights[i] = (float)(w * (samples->weights ? (double)samples->weights[i] : 1));
    }
    return t->weights;
}

static pst_status check_custom(const pst_trainer *t, pst_error *reterr)
{
    if (t->options.loss != PST_LOSS_CUSTOM || t->options.loss_fn)
        return PST_OK;
    return pst_fail(reterr, PST_EINVAL, "the model has a loss of its own, and the trainer was made without that function");
}

/* The loss, and its gradient in `dout` (NULL: not needed). */
static double compute_loss(pst_trainer *t, const pst_samples *samples, const float *out, const struct loss_target *target,
                           const float *weights, size_t n, float *dout)
{
    struct loss_options o = {.kind = t->options.loss, .smoothing = t->options.label_smoothing};
    if (o.kind == PST_LOSS_CUSTOM)
        return t->options.loss_fn(t->options.loss_user, samples, out, n, t->width, dout);
    return loss_compute(&o, out, target, weights, n, t->width, dout);
}

static void mark(pst_trainer *t, enum profile_part part)
{
    if (t->profile.on)
        t->marks[part] = clock_ns();
}

/* The parameters that the step computes with: rounded ones where the model is trained for int8. */
static float *computed_params(pst_trainer *t, float *params)
{
    return t->fake ? fake_quant_params(t->fake, step_team(t->step), params) : params;
}

/* Masks for the weights as they are after `steps` updates. */
static void prune(pst_trainer *t)
{
    prune_weights(t->prune, step_team(t->step), t->steps, t->params, optimizer_state(t->optimizer, 2));
}

pst_status pst_trainer_compute(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr)
{
    struct loss_target target = {0};
    pst_step_result r = {.size = sizeof(r)};
    const void *out = NULL;
    pst_status st = check_input(t, samples->input, reterr);
    size_t n = st == PST_OK ? (size_t)samples->input->shape[0] : 0;
    if (st == PST_OK)
        st = check_custom(t, reterr);
    if (st == PST_OK)
        st = trainer_check_teacher(t, samples, reterr);
    if (st == PST_OK)
        st = trainer_target(t, samples->target, n, &target, reterr);
    if (st == PST_OK && t->prune && t->steps == 0)
        prune(t);
    if (st == PST_OK) {
        mark(t, PART_FORWARD);
        step_set_passes(t->step, t->steps * t->options.accumulate + t->accumulated);
        if (t->ranks)
            ranks_begin_batch(t);
        st = step_forward(t->step, samples->input->data, samples->input->dtype, n, computed_params(t, t->params), true, &out, reterr);
    }
    if (st < 0)
        return st;
    if (t->fake)
        fake_quant_take_fixed(t->fake, t->params);
    mark(t, PART_LOSS);
    const float *weights = sample_weights(t, samples, &target, n);
    r.loss = compute_loss(t, samples, out, &target, weights, n, t->dout);
    r.loss = trainer_learn(t, samples, out, weights, n, r.loss);
    r.rate = schedule_rate(&t->options, &t->schedule, t->steps);
    metrics_batch(t->options.loss, out, &target, n, t->width, &r);
    if (!isfinite(r.loss))
        return fail_nonfinite(t, r.loss, reterr);
    for (size_t i = 0; t->scale.factor != 1 && i < n * t->width; i++)
        t->dout[i] *= (float)t->scale.factor;
    if (t->ranks)
        ranks_record(t, &(struct batch_record){.loss = r.loss, .samples = r.samples, .correct = r.correct});
    mark(t, PART_BACKWARD);
    step_backward(t->step, t->dout, t->grads);
    mark(t, PART_UPDATE);
    t->computed = n;
    if (ret)
        *ret = r;
    return PST_OK;
}

/* Halving goes on for ever where gradients stay infinite, or become so again each time. */
static pst_status check_scale(pst_trainer *t, pst_error *reterr)
{
    if (t->scale.factor >= LOSS_SCALE_LEAST)
        return PST_OK;
    return pst_fail(reterr, PST_ETYPE, "step %" PRIu64 ": gradients are not finite in float16 even with a loss scale of %g: %" PRIu64
                                       " updates were left out; try a smaller learning rate, clipping, or bfloat16",
                    t->steps + 1, t->scale.factor, t->scale.skipped);
}

static pst_status update(pst_trainer *t, double scale, const float *grads, pst_error *reterr)
{
    double rate = schedule_rate(&t->options, &t->schedule, t->steps);
    if (t->options.mixed == PST_MIXED_FLOAT16) {
        scale /= t->scale.factor;
        if (!loss_scale_judge(&t->scale, isfinite(optimizer_norm(t->optimizer, step_team(t->step), grads))))
            return check_scale(t, reterr);
    }
    t->gradient_norm = optimizer_apply(t->optimizer, step_team(t->step), t->steps + 1, rate, scale, t->params, grads);
    t->steps++;
    if (t->prune)
        prune(t);
    return PST_OK;
}

static bool all_finite(const float *x, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] - x[i]; /* NaN for infinities and NaN */
    return sum == 0;
}

/* An update from buckets as they come. What needs all gradients first waits for all: the norm, masks, the check of a scaled loss. */
static pst_status update_ranks(pst_trainer *t, float *grads, double scale, pst_error *reterr)
{
    bool whole = t->prune || t->options.mixed == PST_MIXED_FLOAT16 || t->options.clip_norm > 0;
    double rate = schedule_rate(&t->options, &t->schedule, t->steps);
    pst_status st = PST_OK;
    if (!whole)
        optimizer_begin(t->optimizer, t->steps + 1, rate, scale, t->params, grads);
    for (size_t i = 0; st == PST_OK && i < t->ranks->bucket_count; i++) {
        const struct bucket *b = &t->ranks->buckets[i];
        st = ranks_wait_bucket(t, i, reterr);
        if (st == PST_OK && t->options.gradients && t->options.mixed != PST_MIXED_FLOAT16 && !all_finite(grads + b->offset, b->count))
            st = pst_fail(reterr, PST_ETYPE, "step %" PRIu64 ": a gradient is not finite after the sum over the ranks: try a smaller learning rate, or "
                                             "clip gradients", t->steps + 1);
        if (st == PST_OK && !whole)
            optimizer_apply_range(t->optimizer, step_team(t->step), b->offset, b->count);
    }
    if (st < 0)
        return st;
    if (t->prune)
        prune_apply(t->prune, step_team(t->step), grads);
    if (whole)
        return update(t, scale, grads, reterr);
    optimizer_end(t->optimizer, step_team(t->step));
    t->steps++;
    return PST_OK;
}

pst_status pst_trainer_apply(pst_trainer *t, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (t->prune && !t->ranks)
        prune_apply(t->prune, step_team(t->step), t->grads); /* norms and sums are of the weights that are left */
    if (t->ranks) {
        float *grads = NULL;
        double scale = 1;
        st = ranks_end_batch(t, &grads, &scale, reterr);
        if (st == PST_OK && grads)
            st = update_ranks(t, grads, scale, reterr);
    } else if (t->options.accumulate > 1) {
        optimizer_accumulate(t->optimizer, step_team(t->step), t->grads, (double)t->computed, t->accumulated == 0);
        t->accumulated++;
        t->accumulated_samples += t->computed;
        if (t->accumulated == t->options.accumulate)
            st = pst_trainer_flush(t, reterr);
    } else {
        st = update(t, 1, t->grads, reterr);
    }
    if (t->profile.on && t->marks[PART_FORWARD]) {
        t->marks[PARTS] = clock_ns();
        profile_step(&t->profile, t->step, t->marks, t->computed);
        t->marks[PART_FORWARD] = 0;
    }
    return st;
}

pst_status pst_trainer_flush(pst_trainer *t, pst_error *reterr)
{
    double samples = t->accumulated_samples ? (double)t->accumulated_samples : 1;
    if (t->ranks) {
        float *grads = NULL;
        double scale = 1;
        pst_status st = ranks_flush(t, &grads, &scale, reterr);
        return st == PST_OK && grads ? update_ranks(t, grads, scale, reterr) : st;
    }
    if (!t->accumulated)
        return PST_OK;
    t->accumulated = t->accumulated_samples = 0;
    return update(t, 1 / samples, optimizer_state(t->optimizer, 3), reterr);
}

pst_status pst_trainer_step(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr)
{
    uint64_t before = t->steps;
    pst_status st = pst_trainer_compute(t, samples, ret, reterr);
    if (st == PST_OK)
        st = pst_trainer_apply(t, reterr);
    if (st == PST_OK && ret) {
        ret->updated = t->steps > before;
        ret->gradient_norm = ret->updated ? t->gradient_norm : 0;
    }
    return st;
}

/* ---- Without training ---- */

pst_status trainer_infer(pst_trainer *t, const pst_tensor *input, const float **ret, pst_error *reterr)
{
    const void *out = NULL;
    float *mean = optimizer_state(t->optimizer, 2);
    pst_status st = check_input(t, input, reterr);
    if (st == PST_OK)
        st = step_forward(t->step, input->data, input->dtype, (size_t)input->shape[0], computed_params(t, mean ? mean : t->params), false, &out,
                          reterr);
    *ret = out;
    return st;
}

pst_status trainer_evaluate(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, const float **ret_out,
                            struct loss_target *ret_target, pst_error *reterr)
{
    pst_status st = check_custom(t, reterr);
    if (st == PST_OK)
        st = trainer_infer(t, samples->input, ret_out, reterr);
    if (st == PST_OK)
        st = trainer_target(t, samples->target, (size_t)samples->input->shape[0], ret_target, reterr);
    if (st < 0)
        return st;
    size_t n = (size_t)samples->input->shape[0];
    pst_step_result r = {.size = sizeof(r), .loss = compute_loss(t, samples, *ret_out, ret_target, samples->weights, n, NULL)};
    metrics_batch(t->options.loss, *ret_out, ret_target, n, t->width, &r);
    *ret = r;
    return PST_OK;
}

pst_status pst_trainer_evaluate(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr)
{
    struct loss_target target;
    const float *out;
    return trainer_evaluate(t, samples, ret, &out, &target, reterr);
}

pst_status pst_trainer_predict(pst_trainer *t, const pst_tensor *input, bool probabilities, float *out, pst_error *reterr)
{
    const char *ending = model_ending(t->model);
    const float *logits = out;
    pst_status st = check_input(t, input, reterr);
    if (st == PST_OK)
        st = t->fake ? trainer_infer(t, input, &logits, reterr) : engine_predict(t, input, out, reterr);
    if (st < 0)
        return st;
    size_t n = (size_t)input->shape[0], width = t->width;
    bool cut = t->options.loss != PST_LOSS_MSE && t->options.loss != PST_LOSS_CUSTOM; /* the ending is not part of the step */
    bool softmax = cut && (strcmp(ending, "softmax") == 0 || (probabilities && t->options.loss != PST_LOSS_BINARY));
    bool sigmoid = cut && (strcmp(ending, "sigmoid") == 0 || (probabilities && t->options.loss == PST_LOSS_BINARY));
    for (size_t i = 0; i < n; i++) {
        if (softmax)
            loss_softmax(logits + i * width, width, out + i * width);
        else
            for (size_t k = 0; k < width; k++)
                out[i * width + k] = sigmoid ? loss_sigmoid(logits[i * width + k]) : logits[i * width + k];
    }
    return PST_OK;
}

pst_status pst_trainer_logits(pst_trainer *t, const pst_tensor *input, float *out, pst_error *reterr)
{
    const float *logits;
    pst_status st = trainer_infer(t, input, &logits, reterr);
    if (st == PST_OK)
        memcpy(out, logits, (size_t)input->shape[0] * t->width * sizeof(float));
    return st;
}

/* ---- Access ---- */

float *pst_trainer_values(pst_trainer *t, size_t i)
{
    return i < t->model->graph->param_count ? t->params + t->model->graph->params[i].offset : NULL;
}

void pst_trainer_restart_mean(pst_trainer *t)
{
    optimizer_start_mean(t->optimizer, t->params);
}

float *pst_trainer_gradients(pst_trainer *t, size_t i)
{
    return i < t->model->graph->param_count ? t->grads + t->model->graph->params[i].offset : NULL;
}

double pst_trainer_loss_scale(const pst_trainer *t, uint64_t *ret_skipped)
{
    if (ret_skipped)
        *ret_skipped = t->scale.skipped;
    return t->scale.factor;
}

double pst_trainer_sparsity(const pst_trainer *t)
{
    return prune_share(t->prune);
}

uint64_t pst_trainer_steps(const pst_trainer *t)
{
    return t->steps;
}

void pst_trainer_set_rate(pst_trainer *t, double rate)
{
    t->options.rate = rate;
}

const char *pst_trainer_kernels(const pst_trainer *t)
{
    return t->kernels.data ? t->kernels.data : "";
}

const char *pst_trainer_instructions(const pst_trainer *t)
{
    return t->instructions;
}

void pst_trainer_end_epoch(pst_trainer *t, double loss)
{
    schedule_epoch(&t->options, &t->schedule, loss);
}

pst_status pst_trainer_set_classes(pst_trainer *t, const char *const *classes, size_t count, pst_error *reterr)
{
    char **copy = classes && count ? mem_array(count, sizeof(*copy)) : NULL;
    bool ok = copy || !classes || !count;
    for (size_t i = 0; copy && i < count; i++)
        ok &= (copy[i] = mem_strdup(classes[i])) != NULL;
    char **old = ok ? t->classes : copy;
    size_t old_count = ok ? t->class_count : copy ? count : 0;
    if (ok) {
        t->classes = copy;
        t->class_count = copy ? count : 0;
    }
    for (size_t i = 0; i < old_count; i++)
        mem_free(old[i]);
    mem_free(old);
    return ok ? PST_OK : fail_memory(reterr, "keeping the names of classes");
}

uint64_t pst_trainer_bytes(const pst_trainer *t)
{
    uint64_t blocks = 2;
    for (size_t i = 0; i < OPTIMIZER_STATES; i++)
        blocks += optimizer_state(t->optimizer, i) != NULL;
    return step_bytes(t->step) + blocks * t->model->graph->values * sizeof(float) + (t->ranks ? ranks_bytes(t->ranks, t) : 0);
}
