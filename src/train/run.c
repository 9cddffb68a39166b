/* run.c: epochs over a pipeline: training, validation, checkpoints, early stopping.
 *
 * Everything that decides how a run continues is in struct run_state, the trainer and the pipeline's cursor; a checkpoint holds
 * all three, so that a run that was killed at any moment repeats the steps since the last checkpoint with the same bits. */
#include "base/cast.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/file.h"
#include "train/checkpoint.h"
#include "train/evaluate_model.h"
#include "train/monitored_value.h"
#include "train/run_log.h"
#include "train/run_report.h"
#include "train/teacher.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct run {
    pst_trainer *trainer;
    pst_pipeline *training, *validation;
    const pst_run_options *options;
    const char *out;      /* the run folder, on every rank */
    pst_fields validation_fields;
    struct run_state state;
    struct run_log log;
    struct run_results results; /* for the report */
    pst_run_progress progress;
    float *weights;      /* of a batch's samples; NULL: the run has none */
    bool saved;          /* the newest checkpoint holds the state as it is */
    double began;        /* seconds */
    double spent, waited; /* of the epoch's part in this process */
    uint64_t seen;        /* samples in it */
    uint64_t steps_here;  /* of this process */
    double step_seconds;  /* of all of them */
    struct ranks *ranks;  /* the trainer's; NULL: none */
    double update_loss;   /* sum over the samples since the last update */
    uint64_t update_samples;
    bool stop;
    pst_cursor here;      /* after the last batch of this rank: where the next update leaves the run */
    bool has_here;
};

static double now(void)
{
    return 1e-9 * (double)clock_ns();
}

static bool has_accuracy(const struct run *r)
{
    return r->trainer->options.loss != PST_LOSS_MSE && r->trainer->options.loss != PST_LOSS_CUSTOM;
}

/* Weights of the batch's samples from their field. */
static pst_status take_weights(struct run *r, const pst_batch *batch, pst_samples *samples, pst_error *reterr)
{
    if (!r->weights)
        return PST_OK;
    const pst_tensor *w = pst_batch_get(batch, r->options->weight_field);
    size_t n = pst_batch_size(batch);
    uint64_t each = w ? 1 : 0;
    for (uint32_t i = 1; w && i < w->rank; i++)
        each *= w->shape[i];
    if (!w || w->row_splits || each != 1 || n > r->trainer->options.batch)
        return pst_fail(reterr, PST_ETYPE, "field %s does not hold one weight per sample", r->options->weight_field);
    cast_values(r->weights, PST_DTYPE_F32, w->data, w->dtype, n);
    for (size_t i = 0; i < n; i++)
        if (!(r->weights[i] >= 0 && r->weights[i] < INFINITY)) {
            pst_status st = pst_fail_at(reterr, PST_EINVAL, NULL, i, PST_NOWHERE, "the weight of a sample is %g; expected 0 or more",
                                        (double)r->weights[i]);
            return locate_sample(r->training, batch, st, reterr);
        }
    samples->weights = r->weights;
    return PST_OK;
}

/* ---- Progress ---- */

static double seconds_left(const struct run *r)
{
    const pst_run_options *o = r->options;
    uint64_t end = o->steps ? o->steps : UINT64_MAX, length = r->progress.epoch_steps;
    if (o->epochs && length != PST_NOWHERE && r->state.epoch < o->epochs) {
        uint64_t left = (o->epochs - r->state.epoch) * length - r->state.epoch_step;
        end = r->trainer->steps + left < end ? r->trainer->steps + left : end;
    }
    if (end == UINT64_MAX || r->steps_here == 0)
        return NAN;
    return end > r->trainer->steps ? (double)(end - r->trainer->steps) * r->step_seconds / (double)r->steps_here : 0;
}

/* Brings the numbers of the progress up to date. */
static void refresh(struct run *r)
{
    const struct run_state *s = &r->state;
    pst_run_progress *p = &r->progress;
    double n = (double)s->samples;
    p->step = r->trainer->steps;
    if (!p->epoch_end) {
        p->epoch = s->epoch + 1;
        p->epoch_step = s->epoch_step;
        p->loss = s->samples ? s->loss_sum / n : NAN;
        p->accuracy = s->samples && has_accuracy(r) ? (double)s->correct / n : NAN;
    }
    p->samples_per_second = r->spent > 0 ? (double)r->seen / r->spent : 0;
    p->loss_scale = pst_trainer_loss_scale(r->trainer, &p->skipped);
    p->wait_share = r->spent > 0 ? r->waited / r->spent : 0;
    p->seconds = now() - r->began;
    p->seconds_left = seconds_left(r);
    p->bytes = pst_trainer_bytes(r->trainer);
    p->sparsity = pst_trainer_sparsity(r->trainer);
}

static void report(struct run *r)
{
    pst_run_progress *p = &r->progress;
    refresh(r);
    bool stop = r->options->progress && r->options->progress(r->options->user, p);
    if (stop && r->ranks)
        r->ranks->stops = true; /* all ranks stop together, in the next update */
    else
        r->stop |= stop;
    p->saved = p->best = p->epoch_end = p->validated = p->ended = false;
}

static pst_status save(struct run *r, bool best, pst_error *reterr)
{
    if (!r->options->out)
        return PST_OK;
    double begin = now();
    pst_status st = checkpoint_publish(r->trainer, &r->state, r->options, best, reterr);
    r->results.saving += now() - begin;
    r->progress.saved |= st == PST_OK;
    r->saved |= st == PST_OK;
    return st;
}

/* ---- Training ---- */

/* After an update of the weights. */
static pst_status count_update(struct run *r, pst_step_result *result, pst_error *reterr)
{
    pst_status st = PST_OK;
    result->loss = r->update_samples ? r->update_loss / (double)r->update_samples : NAN;
    run_log_step(&r->log, r->trainer->steps, result);
    r->update_loss = 0;
    r->update_samples = 0;
    r->state.epoch_step++;
    r->steps_here++;
    r->progress.rate = result->rate;
    if (r->options->save_every && r->trainer->steps % r->options->save_every == 0)
        st = save(r, false, reterr);
    if (st == PST_OK)
        report(r);
    return st;
}

/* Adds a batch to the sums of the epoch. */
static void count_batch(struct run *r, double loss, uint64_t samples, uint64_t correct)
{
    r->state.samples += samples;
    r->state.correct += correct;
    r->state.loss_sum += loss * (double)samples;
    r->update_loss += loss * (double)samples;
    r->update_samples += samples;
    r->seen += samples;
}

/* After an update of all ranks, or one that was left out: the batches of all of them count, in their order. Only now the place of
 * the run moves: one that stops within an update resumes before it. */
static pst_status end_update(struct run *r, pst_step_result *result, pst_error *reterr)
{
    if (r->ranks->stopped) {
        r->stop = true;
        return PST_OK;
    }
    for (uint64_t i = 0; i < r->ranks->batches; i++) {
        const struct batch_record *b = ranks_batch(r->ranks, i);
        if (b)
            count_batch(r, b->loss, b->samples, b->correct);
    }
    if (r->has_here)
        r->state.cursor = r->here;
    r->saved = false;
    r->state.has_cursor |= r->has_here;
    return result->updated ? count_update(r, result, reterr) : PST_OK;
}

static void count_time(struct run *r, double took, double waited)
{
    r->waited += waited;
    r->spent += took + waited;
    r->step_seconds += took + waited;
    r->results.computing += took;
    r->results.waiting += waited;
}

static pst_status train_batch(struct run *r, pst_batch *batch, double waited, pst_error *reterr)
{
    pst_step_result result = {.size = sizeof(result)};
    pst_samples samples;
    double begin = now();
    if (pst_batch_size(batch) == 0)
        return PST_OK;
    pst_status st = samples_of(batch, r->options->fields, &samples, reterr);
    if (st == PST_OK)
        st = take_weights(r, batch, &samples, reterr);
    if (st == PST_OK && r->options->teacher)
        st = teacher_batch(r->options->teacher, r->training, batch, &samples, reterr);
    if (st == PST_OK)
        st = locate_sample(r->training, batch, pst_trainer_step(r->trainer, &samples, &result, reterr), reterr);
    if (st == PST_OK)
        st = pst_pipeline_tell(r->training, r->ranks ? &r->here : &r->state.cursor, reterr);
    if (st < 0)
        return st;
    r->has_here = true;
    if (r->steps_here == 0 && r->seen == 0 && r->state.epoch == 0)
        run_log_pictures(&r->log, r->trainer, samples.input);
    count_time(r, now() - begin, waited);
    if (r->ranks)
        return r->trainer->accumulated ? PST_OK : end_update(r, &result, reterr);
    r->saved = false;
    r->state.has_cursor = true;
    count_batch(r, result.loss, result.samples, result.correct);
    return result.updated ? count_update(r, &result, reterr) : PST_OK;
}

static bool is_finished(const struct run *r)
{
    const pst_run_options *o = r->options;
    return (o->steps && r->trainer->steps >= o->steps) || (o->epochs && r->state.epoch >= o->epochs) ||
           (o->patience && r->state.wait >= o->patience);
}

/* ---- Judging ---- */

/* Compares with the best so far; the schedule and early stopping follow. */
static bool judge(struct run *r)
{
    struct run_state *s = &r->state;
    double value = monitored_value(r->options->monitor, &r->progress, r->validation != NULL);
    bool best = value < s->best_loss;
    schedule_epoch(&r->trainer->options, &r->trainer->schedule, value);
    if (best) {
        s->best_loss = value;
        s->best_step = r->trainer->steps;
    }
    s->wait = best ? 0 : s->wait + 1;
    r->progress.best = best;
    return best;
}

static pst_status validate(struct run *r, pst_error *reterr)
{
    pst_evaluation e = {.size = sizeof(e)};
    struct mistakes mistakes = {0};
    double begin = now();
    pst_status st = evaluate_pipeline(r->trainer, r->validation, &r->validation_fields, &e, r->options->out ? &mistakes : NULL,
                                      pst_comm_size(r->trainer->options.comm) > 1, reterr);
    r->results.validating += now() - begin;
    if (st < 0) {
        mistakes_finish(&mistakes);
        return st;
    }
    r->progress.val_loss = e.loss;
    r->progress.val_accuracy = e.accuracy;
    r->progress.val_auc = e.auc;
    r->progress.val_f1 = e.f1;
    r->progress.val_mae = e.mae;
    r->progress.val_r2 = e.r2;
    r->progress.validated = true;
    r->state.validations++;
    r->state.validated_step = r->trainer->steps;
    bool best = monitors_training(r->options->monitor, r->validation != NULL) || judge(r);
    run_results_take(&r->results, &e, &mistakes, r->trainer->steps, best);
    return PST_OK;
}

/* A validation between the ends of epochs. */
static pst_status validate_between(struct run *r, pst_error *reterr)
{
    pst_status st = validate(r, reterr);
    if (st == PST_ECANCELLED) {
        r->stop = true;
        return PST_OK; /* the state is that before the validation, which is repeated after a resume */
    }
    if (st == PST_OK)
        st = save(r, r->progress.best, reterr);
    if (st < 0)
        return st;
    refresh(r);
    run_log_validation(&r->log, &r->progress);
    report(r);
    return PST_OK;
}

static bool validation_is_due(const struct run *r)
{
    uint64_t every = r->options->validate_every, steps = r->trainer->steps;
    return r->validation && every && steps && steps % every == 0 && r->trainer->accumulated == 0 && r->state.validated_step != steps;
}

/* The data of this rank is at its end, or was cancelled: takes part in the last update of the others. */
static pst_status flush_ranks(struct run *r, pst_error *reterr)
{
    pst_step_result result = {.size = sizeof(result), .rate = schedule_rate(&r->trainer->options, &r->trainer->schedule, r->trainer->steps)};
    uint64_t before = r->trainer->steps;
    if (r->ranks->ended)
        return PST_OK; /* in the update before, another rank had none */
    pst_status st = pst_trainer_flush(r->trainer, reterr);
    result.updated = r->trainer->steps > before;
    result.gradient_norm = result.updated ? r->trainer->gradient_norm : 0;
    return st < 0 ? st : end_update(r, &result, reterr);
}

/* Another rank has no more batches: neither has this one. */
static pst_status await_end(struct run *r, pst_error *reterr)
{
    pst_batch *batch = NULL;
    pst_status st = pst_pipeline_next(r->training, &batch, reterr);
    pst_batch_unref(batch);
    if (st == PST_OK)
        st = pst_fail(reterr, PST_EINVAL, "the ranks' training data have different lengths: give every pipeline its rank, the number of ranks, and "
                                          "uneven=allow");
    return st;
}

/* The run ends with the latest update. PST_END: so does the epoch; otherwise PST_OK. Ranks, which would have to agree, leave that to a resume. */
static pst_status end_with_epoch(struct run *r, pst_error *reterr)
{
    const pst_run_options *o = r->options;
    pst_batch *batch = NULL;
    bool open = r->progress.epoch_steps != PST_NOWHERE && r->state.epoch_step < r->progress.epoch_steps;
    if (r->ranks || r->state.samples == 0 || open)
        return PST_OK;
    if (o->steps_per_epoch)
        return PST_END;
    if (pst_pipeline_endless(r->training) || pst_pipeline_streams(r->training))
        return PST_OK; /* the next batch may be long in coming, and a pipe gives it once */
    pst_status st = pst_pipeline_next(r->training, &batch, NULL);
    pst_batch_unref(batch);
    if (st == PST_OK) /* that batch is of what follows */
        return pst_pipeline_seek(r->training, &r->state.cursor, reterr);
    return st == PST_END ? st : PST_OK; /* a failure after the end is none of this run */
}

/* Until the end of the epoch: PST_END; of the run: PST_OK. */
static pst_status train_epoch(struct run *r, pst_error *reterr)
{
    const pst_run_options *o = r->options;
    bool over = false; /* the data has ended, and no batch has come since */
    while (!r->stop) {
        pst_batch *batch = NULL;
        double begin = now();
        bool ended = r->ranks && r->ranks->ended; /* the epoch is over, and so it is on ranks that had no batch */
        pst_status st = validation_is_due(r) && !ended ? validate_between(r, reterr) : PST_OK;
        if (st < 0 || r->stop)
            return st;
        if (is_finished(r) && !ended)
            return end_with_epoch(r, reterr);
        if (o->steps_per_epoch && r->state.epoch_step >= o->steps_per_epoch && !ended)
            return PST_END;
        st = r->ranks && r->ranks->ended ? await_end(r, reterr) : pst_pipeline_next(r->training, &batch, reterr);
        if (st == PST_ECANCELLED && r->ranks) {
            r->ranks->stops = true;
            r->ranks->ended = false;
            return flush_ranks(r, reterr);
        }
        if (st == PST_END && r->ranks) {
            pst_status flushed = flush_ranks(r, reterr);
            r->ranks->ended = false;
            if (flushed < 0 || r->stop)
                return flushed;
        }
        if (st == PST_ECANCELLED) {
            r->stop = true;
            return PST_OK;
        }
        if (st == PST_END && o->steps_per_epoch && !over) {
            over = true; /* the epoch is not: a resumed run may begin right here */
            continue;
        }
        if (st == PST_END && r->state.samples == 0)
            return pst_fail(reterr, PST_EINVAL, "the training pipeline delivered no batch");
        if (st != PST_OK)
            return st;
        over = false;
        st = train_batch(r, batch, now() - begin, reterr);
        pst_batch_unref(batch);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

/* Updates from the last batches of an epoch, where they are fewer than a whole step. */
static pst_status flush(struct run *r, pst_error *reterr)
{
    pst_step_result result = {.size = sizeof(result), .rate = r->progress.rate};
    if (r->trainer->accumulated == 0 || r->ranks)
        return PST_OK;
    uint64_t before = r->trainer->steps;
    pst_status st = pst_trainer_flush(r->trainer, reterr);
    r->saved = false;
    return st == PST_OK && r->trainer->steps > before ? count_update(r, &result, reterr) : st;
}

/* Whether the epoch that ends is validated: always, or when a validation is due, or at the end of the run. */
static bool ends_with_validation(const struct run *r)
{
    const pst_run_options *o = r->options;
    bool last = (o->epochs && r->state.epoch + 1 >= o->epochs) || (o->steps && r->trainer->steps >= o->steps);
    return r->validation && (!o->validate_every || validation_is_due(r) || (last && r->state.validated_step != r->trainer->steps));
}

static pst_status end_epoch(struct run *r, pst_error *reterr)
{
    struct run_state *s = &r->state;
    pst_status st = flush(r, reterr);
    if (st < 0)
        return st;
    r->progress.epoch = s->epoch + 1;
    r->progress.epoch_step = s->epoch_step;
    r->progress.loss = s->loss_sum / (double)s->samples;
    r->progress.accuracy = has_accuracy(r) ? (double)s->correct / (double)s->samples : NAN;
    if (ends_with_validation(r)) {
        st = validate(r, reterr);
        if (st == PST_ECANCELLED) {
            r->stop = true;
            return PST_OK; /* what is saved now ends before the validation, and resumes with it */
        }
        if (st < 0)
            return st;
    }
    if (monitors_training(r->options->monitor, r->validation != NULL))
        judge(r);
    s->epoch++;
    s->epoch_step = s->samples = s->correct = 0;
    s->loss_sum = 0;
    r->has_here = false;
    st = pst_pipeline_tell(r->training, &s->cursor, reterr);
    if (st == PST_OK)
        st = save(r, r->progress.best, reterr);
    if (st < 0)
        return st;
    r->progress.epoch_end = true;
    refresh(r);
    run_log_histograms(&r->log, r->trainer);
    st = run_log_epoch(&r->log, &r->progress, reterr);
    report(r);
    r->spent = r->waited = 0;
    r->seen = 0;
    return st;
}

/* ---- The whole ---- */

static pst_status compare_ranks(struct run *r, pst_error *reterr)
{
    pst_cursor cursor;
    pst_position at = {0};
    pst_status st = pst_pipeline_tell(r->training, &cursor, reterr);
    if (st == PST_OK)
        st = pst_cursor_get(&cursor, &at, reterr);
    uint64_t teacher = r->options->teacher ? teacher_hash(r->options->teacher) : 0;
    return st < 0 ? st : ranks_compare(r->trainer, at.fingerprint, teacher, reterr);
}

static pst_status resume(struct run *r, pst_error *reterr)
{
    pst_cursor cursor;
    pst_position at = {0};
    pst_status st = pst_comm_rank(r->trainer->options.comm) == 0 ? checkpoint_resume(r->trainer, r->out, &r->state, reterr) : PST_OK;
    if (st == PST_OK && r->ranks) /* every rank begins as rank 0 does */
        st = ranks_share(r->trainer, &r->state, reterr);
    if (st < 0)
        return st;
    uint64_t teacher = r->options->teacher ? teacher_hash(r->options->teacher) : 0;
    if (r->state.teacher != teacher)
        return pst_fail(reterr, PST_ESTALE, "the teacher is another one than that which the run began with: bring that back, or begin a new run with "
                                            "--weights");
    r->saved = true;
    if (r->state.has_cursor)
        st = pst_pipeline_seek(r->training, &r->state.cursor, reterr);
    if (st == PST_OK && r->validation && r->state.validations > 0) {
        st = pst_pipeline_tell(r->validation, &cursor, reterr);
        if (st == PST_OK)
            st = pst_cursor_get(&cursor, &at, reterr);
        at.epoch = r->state.validations;
        at.next = 0;
        pst_cursor_set(&cursor, &at);
        if (st == PST_OK)
            st = pst_pipeline_seek(r->validation, &cursor, reterr);
    }
    return st;
}

static pst_status prepare_weights(struct run *r, pst_error *reterr)
{
    const char *name = r->options->weight_field;
    const pst_spec *spec = pst_pipeline_spec(r->training);
    int at = spec ? pst_spec_find(spec, name) : -1;
    char text[160];
    if (at < 0)
        return pst_fail(reterr, PST_EINVAL, "the training pipeline has no field %.40s with weights; it has %s", name,
                        spec ? pst_spec_text(spec, text, sizeof(text)) : "none");
    if (spec->field[at].dtype == PST_DTYPE_BYTES)
        return pst_fail(reterr, PST_ETYPE, "field %s holds bytes; weights are one number per sample", name);
    r->weights = mem_array(r->trainer->options.batch, sizeof(*r->weights));
    return r->weights ? PST_OK : fail_memory(reterr, "training");
}

/* The fields of the validation pipeline. Their mistakes read like those of the training pipeline: says which one is meant. */
static pst_status find_validation_fields(struct run *r, pst_error *reterr)
{
    const pst_fields *fields = r->options->fields;
    pst_error why;
    r->validation_fields.size = sizeof(r->validation_fields);
    pst_status st = pst_fields_find(r->validation, fields->input, fields->target, true, &r->validation_fields, &why);
    if (st < 0 && reterr) {
        *reterr = why;
        snprintf(reterr->message, sizeof(reterr->message), "validation data: %.220s", why.message);
    }
    return st;
}

/* Whether validations within an epoch can end the run. */
static bool stops_early(const struct run *r)
{
    const pst_run_options *o = r->options;
    return r->validation && o->validate_every && o->patience && !monitors_training(o->monitor, true);
}

static pst_status prepare(struct run *r, pst_error *reterr)
{
    const pst_run_options *o = r->options;
    if (!o->fields)
        return pst_fail(reterr, PST_EINVAL, "pst_run_options.fields is not set");
    if (o->epochs == 0 && o->steps == 0)
        return pst_fail(reterr, PST_EINVAL, "a run needs a number of epochs or of steps");
    if (pst_pipeline_endless(r->training) && !o->steps && !o->steps_per_epoch && !stops_early(r))
        return pst_fail(reterr, PST_EINVAL, "the training data never ends, because of a repeat without a count: give --steps-per-epoch, --steps, or --val-every "
                                            "with --patience; or leave repeat out");
    if (!r->validation && o->monitor >= PST_MONITOR_VAL_LOSS)
        return pst_fail(reterr, PST_EINVAL, "the monitored value needs validation data");
    pst_status st = PST_OK;
    if (r->validation) {
        st = find_validation_fields(r, reterr);
        if (st == PST_OK)
            st = evaluate_requires_end(r->validation, reterr);
        if (st == PST_OK && memcmp(&r->validation_fields.shape, &o->fields->shape, sizeof(pst_shape)) != 0)
            st = pst_fail(reterr, PST_ETYPE, "the validation pipeline delivers inputs of another shape than the training pipeline");
        if (st == PST_OK && r->validation_fields.batch > r->trainer->options.batch)
            st = pst_fail(reterr, PST_EINVAL, "the validation pipeline has batches of %zu, the training pipeline of %zu; use the same",
                          r->validation_fields.batch, r->trainer->options.batch);
    }
    if (st == PST_OK && o->weight_field)
        st = prepare_weights(r, reterr);
    if (st == PST_OK && r->ranks) /* before anything that they do together */
        st = compare_ranks(r, reterr);
    if (st == PST_OK && o->teacher) {
        r->state.teacher = teacher_hash(o->teacher);
        st = teacher_prepare(o->teacher, r->training, o->fields, r->trainer, reterr);
    }
    if (st == PST_OK && o->out)
        st = file_make_folder(o->out, reterr);
    if (st == PST_OK && o->resume)
        st = resume(r, reterr);
    else if (st == PST_OK && r->ranks)
        st = ranks_share(r->trainer, &r->state, reterr);
    if (st == PST_OK && o->out)
        st = run_log_open(&r->log, o->out, r->trainer->steps, r->validation ? r->trainer->options.loss : PST_LOSS_CUSTOM, reterr);
    if (st == PST_OK && r->trainer->steps == 0)
        run_log_model(&r->log, r->trainer);
    r->progress.step = r->trainer->steps;
    r->progress.epoch = r->state.epoch + (r->state.samples > 0);
    r->progress.rate = schedule_rate(&r->trainer->options, &r->trainer->schedule, r->trainer->steps);
    uint64_t length = pst_pipeline_length(r->training), each = r->trainer->options.accumulate; /* of this rank, which is rank 0 where it shows */
    r->progress.epoch_steps = o->steps_per_epoch ? o->steps_per_epoch : length == PST_NOWHERE ? length : length / each + (length % each > 0);
    return st;
}

/* After the last update, where that is not the end of an epoch: validation, and the numbers of the epoch so far. */
static pst_status end_run(struct run *r, pst_error *reterr)
{
    pst_status st = PST_OK;
    bool within = r->state.samples > 0 && r->steps_here > 0;
    if (r->stop)
        return PST_OK;
    r->progress.ended = within && !(r->validation && r->state.validated_step == r->trainer->steps); /* otherwise it was reported */
    if (r->validation && r->state.validated_step != r->trainer->steps)
        st = validate_between(r, reterr);
    if (st < 0 || r->stop || !within)
        return st;
    refresh(r);
    st = run_log_epoch(&r->log, &r->progress, reterr);
    if (r->progress.ended)
        report(r);
    return st;
}

/* Replaces the text of a pipeline by one that is complete without files that it includes. `*ret` is to be freed. A text that cannot be read is
 * recorded as it is. */
static pst_status complete_text(const char **text, char **ret, pst_error *reterr)
{
    pst_status st = *text ? pst_pipeline_expand(ret, *text, NULL, NULL) : PST_OK;
    *text = *ret ? *ret : *text;
    return st == PST_ENOMEM ? fail_memory(reterr, "recording a pipeline") : PST_OK;
}

static pst_status write_report(struct run *r, pst_error *reterr)
{
    if (!r->options->out || r->steps_here == 0)
        return PST_OK;
    return run_report_write(r->trainer, r->options, &r->progress, &r->results, r->log.rows.data, reterr);
}

pst_status pst_trainer_run(pst_trainer *t, pst_pipeline *training, pst_pipeline *validation, const pst_run_options *options,
                           pst_run_result *ret, pst_error *reterr)
{
    pst_run_options own = {0};
    pst_status st = options_take(&own, sizeof(own), options, reterr);
    if (st == PST_OK && ret)
        st = result_check(ret, reterr);
    if (st < 0)
        return st;
    const char *out = own.out;
    char *texts[2] = {NULL};
    if (pst_comm_rank(t->options.comm) > 0)
        own.out = NULL; /* rank 0 logs and saves */
    struct run r = {.trainer = t,
                    .training = training,
                    .validation = validation,
                    .options = &own,
                    .out = out,
                    .ranks = t->ranks,
                    .state = {.best_loss = INFINITY},
                    .progress = {.size = sizeof(pst_run_progress), .val_loss = NAN, .val_accuracy = NAN, .val_auc = NAN, .val_f1 = NAN, .val_mae = NAN, .val_r2 = NAN,
                                 .loss = NAN, .accuracy = NAN},
                    .began = now()};
    st = complete_text(&own.pipeline, &texts[0], reterr);
    if (st == PST_OK)
        st = complete_text(&own.validation, &texts[1], reterr);
    if (st == PST_OK)
        st = prepare(&r, reterr);
    while (st == PST_OK && !r.stop && !is_finished(&r)) {
        st = train_epoch(&r, reterr);
        if (st == PST_END)
            st = end_epoch(&r, reterr);
    }
    if (st == PST_OK)
        st = end_run(&r, reterr);
    if (st == PST_OK && !r.saved)
        st = save(&r, false, reterr);
    if (st == PST_OK)
        st = write_report(&r, reterr);
    run_log_close(&r.log);
    run_results_finish(&r.results);
    mem_free(r.weights);
    mem_free(texts[0]);
    mem_free(texts[1]);
    if (st < 0 || !ret)
        return st;
    pst_run_result found = {.last = r.progress,
                            .best_step = r.state.best_step,
                            .best_loss = more_is_better(own.monitor) ? -r.state.best_loss : r.state.best_loss,
                            .stopped = r.stop,
                            .early = own.patience && r.state.wait >= own.patience};
    result_give(ret, &found, sizeof(found));
    return PST_OK;
}
