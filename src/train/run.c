/* run.c: epochs over a pipeline: training, validation, checkpoints, early stopping.
 *
 * Everything that decides how a run continues is in struct run_state, the trainer and the pipeline's cursor; a checkpoint holds
 * all three, so that a run that was killed at any moment repeats the steps since the last checkpoint with the same bits. */
#include "base/clock.h"
#include "base/memory.h"
#include "io/file.h"
#include "train/checkpoint.h"
#include "train/run_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct run {
    pst_trainer *trainer;
    pst_pipeline *training, *validation;
    const pst_run_options *options;
    pst_fields validation_fields;
    struct run_state state;
    struct run_log log;
    pst_run_progress progress;
    uint64_t saved_step; /* of the newest checkpoint; UINT64_MAX: none */
    double began;        /* seconds */
    double spent, waited; /* of the epoch's part in this process */
    uint64_t seen;        /* samples in it */
    uint64_t steps_here;  /* of this process */
    double step_seconds;  /* of all of them */
    bool stop;
};

static double now(void)
{
    return 1e-9 * (double)clock_ns();
}

/* ---- Batches ---- */

/* Puts the place in the file into an error about one sample. */
static pst_status locate(pst_pipeline *p, const pst_batch *batch, pst_status st, pst_error *reterr)
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

static pst_status samples_of(const pst_batch *b, const pst_fields *f, pst_samples *ret, pst_error *reterr)
{
    *ret = (pst_samples){.size = sizeof(*ret), .input = pst_batch_get(b, f->input), .target = pst_batch_get(b, f->target)};
    return ret->input && ret->target ? PST_OK : pst_fail(reterr, PST_EINVAL, "a batch lacks the field %s or %s", f->input, f->target);
}

pst_status pst_trainer_evaluate_pipeline(pst_trainer *t, pst_pipeline *p, const pst_fields *fields, pst_evaluation *ret,
                                         pst_error *reterr)
{
    struct metrics m;
    pst_batch *batch = NULL;
    if (ret->size < sizeof(*ret))
        return pst_fail(reterr, PST_EINVAL, "pst_evaluation.size is not set");
    pst_status st = metrics_init(&m, t->options.loss, t->width, reterr);
    while (st == PST_OK && (st = pst_pipeline_next(p, &batch, reterr)) == PST_OK) {
        struct loss_target target;
        pst_step_result r = {.size = sizeof(r)};
        pst_samples samples;
        const float *out;
        if (pst_batch_size(batch) > 0)
            st = samples_of(batch, fields, &samples, reterr);
        if (st == PST_OK && pst_batch_size(batch) > 0)
            st = locate(p, batch, trainer_evaluate(t, &samples, &r, &out, &target, reterr), reterr);
        if (st == PST_OK && pst_batch_size(batch) > 0)
            metrics_add(&m, out, &target, t->width, &r);
        batch = pst_batch_unref(batch);
    }
    if (st == PST_END)
        st = m.samples ? PST_OK : pst_fail(reterr, PST_EINVAL, "the pipeline delivered no sample to evaluate");
    if (st == PST_OK)
        metrics_result(&m, ret);
    metrics_finish(&m);
    return st;
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

static void report(struct run *r)
{
    const struct run_state *s = &r->state;
    pst_run_progress *p = &r->progress;
    double n = (double)s->samples;
    p->step = r->trainer->steps;
    if (!p->epoch_end) {
        p->epoch = s->epoch + 1;
        p->epoch_step = s->epoch_step;
        p->loss = s->samples ? s->loss_sum / n : NAN;
        p->accuracy = s->samples && r->trainer->options.loss != PST_LOSS_MSE ? (double)s->correct / n : NAN;
    }
    p->samples_per_second = r->spent > 0 ? (double)r->seen / r->spent : 0;
    p->wait_share = r->spent > 0 ? r->waited / r->spent : 0;
    p->seconds = now() - r->began;
    p->seconds_left = seconds_left(r);
    p->bytes = pst_trainer_bytes(r->trainer);
    if (r->options->progress && r->options->progress(r->options->user, p))
        r->stop = true;
    p->saved = p->best = p->epoch_end = false;
}

static pst_status save(struct run *r, bool best, pst_error *reterr)
{
    if (!r->options->out)
        return PST_OK;
    pst_status st = checkpoint_publish(r->trainer, &r->state, r->options, best, reterr);
    if (st == PST_OK) {
        r->progress.saved = true;
        r->progress.best = best;
        r->saved_step = r->trainer->steps;
    }
    return st;
}

/* ---- Training ---- */

static pst_status train_batch(struct run *r, pst_batch *batch, double waited, pst_error *reterr)
{
    pst_step_result result = {.size = sizeof(result)};
    pst_samples samples;
    double begin = now();
    if (pst_batch_size(batch) == 0)
        return PST_OK;
    pst_status st = samples_of(batch, r->options->fields, &samples, reterr);
    if (st == PST_OK)
        st = locate(r->training, batch, pst_trainer_step(r->trainer, &samples, &result, reterr), reterr);
    if (st == PST_OK)
        st = pst_pipeline_tell(r->training, &r->state.cursor, reterr);
    if (st < 0)
        return st;
    double took = now() - begin + waited;
    run_log_step(&r->log, r->trainer->steps, &result);
    r->state.has_cursor = true;
    r->state.epoch_step++;
    r->state.samples += result.samples;
    r->state.correct += result.correct;
    r->state.loss_sum += result.loss * (double)result.samples;
    r->progress.rate = result.rate;
    r->seen += result.samples;
    r->waited += waited;
    r->spent += took;
    r->step_seconds += took;
    r->steps_here++;
    if (r->options->save_every && r->trainer->steps % r->options->save_every == 0)
        st = save(r, false, reterr);
    if (st == PST_OK)
        report(r);
    return st;
}

static bool is_finished(const struct run *r)
{
    const pst_run_options *o = r->options;
    return (o->steps && r->trainer->steps >= o->steps) || (o->epochs && r->state.epoch >= o->epochs) ||
           (o->patience && r->state.wait >= o->patience);
}

/* Until the end of the epoch: PST_END; of the run: PST_OK. */
static pst_status train_epoch(struct run *r, pst_error *reterr)
{
    const pst_run_options *o = r->options;
    bool over = false; /* the data has ended, and no batch has come since */
    while (!r->stop && !is_finished(r)) {
        pst_batch *batch = NULL;
        double begin = now();
        if (o->steps_per_epoch && r->state.epoch_step >= o->steps_per_epoch)
            return PST_END;
        pst_status st = pst_pipeline_next(r->training, &batch, reterr);
        if (st == PST_ECANCELLED) {
            r->stop = true;
            return PST_OK;
        }
        if (st == PST_END && o->steps_per_epoch && !over) {
            over = true; /* the epoch is not: a resumed run may begin right here */
            continue;
        }
        if (st == PST_END && r->state.epoch_step == 0)
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

static pst_status validate(struct run *r, pst_error *reterr)
{
    pst_evaluation e = {.size = sizeof(e)};
    r->progress.val_loss = r->progress.val_accuracy = NAN;
    if (!r->validation)
        return PST_OK;
    pst_status st = pst_trainer_evaluate_pipeline(r->trainer, r->validation, &r->validation_fields, &e, reterr);
    if (st == PST_OK) {
        r->progress.val_loss = e.loss;
        r->progress.val_accuracy = e.accuracy;
        mem_free(e.confusion);
    }
    return st;
}

static pst_status end_epoch(struct run *r, pst_error *reterr)
{
    struct run_state *s = &r->state;
    pst_status st = validate(r, reterr);
    if (st == PST_ECANCELLED) {
        r->stop = true;
        return PST_OK; /* what is saved now ends before the validation, and resumes with it */
    }
    if (st < 0)
        return st;
    double n = (double)s->samples, loss = s->loss_sum / n, monitored = r->validation ? r->progress.val_loss : loss;
    bool best = monitored < s->best_loss;
    r->progress.epoch = s->epoch + 1;
    r->progress.epoch_step = s->epoch_step;
    r->progress.loss = loss;
    r->progress.accuracy = r->trainer->options.loss != PST_LOSS_MSE ? (double)s->correct / n : NAN;
    schedule_epoch(&r->trainer->options, &r->trainer->schedule, monitored);
    if (best) {
        s->best_loss = monitored;
        s->best_step = r->trainer->steps;
    }
    s->wait = best ? 0 : s->wait + 1;
    s->epoch++;
    s->epoch_step = s->samples = s->correct = 0;
    s->loss_sum = 0;
    st = pst_pipeline_tell(r->training, &s->cursor, reterr);
    if (st == PST_OK)
        st = save(r, best, reterr);
    if (st < 0)
        return st;
    r->progress.epoch_end = true;
    report(r);
    st = run_log_epoch(&r->log, &r->progress, reterr);
    r->spent = r->waited = 0;
    r->seen = 0;
    return st;
}

/* ---- The whole ---- */

static pst_status resume(struct run *r, pst_error *reterr)
{
    pst_cursor cursor;
    pst_position at = {0};
    pst_status st = checkpoint_resume(r->trainer, r->options->out, &r->state, reterr);
    if (st < 0)
        return st;
    r->saved_step = r->trainer->steps;
    if (r->state.has_cursor)
        st = pst_pipeline_seek(r->training, &r->state.cursor, reterr);
    if (st == PST_OK && r->validation && r->state.epoch > 0) {
        st = pst_pipeline_tell(r->validation, &cursor, reterr);
        if (st == PST_OK)
            st = pst_cursor_get(&cursor, &at, reterr);
        at.epoch = r->state.epoch;
        at.next = 0;
        pst_cursor_set(&cursor, &at);
        if (st == PST_OK)
            st = pst_pipeline_seek(r->validation, &cursor, reterr);
    }
    return st;
}

static pst_status prepare(struct run *r, pst_error *reterr)
{
    const pst_run_options *o = r->options;
    if (o->size != sizeof(*o) || !o->fields)
        return pst_fail(reterr, PST_EINVAL, "pst_run_options: size or fields are not set");
    if (o->epochs == 0 && o->steps == 0)
        return pst_fail(reterr, PST_EINVAL, "a run needs a number of epochs or of steps");
    pst_status st = PST_OK;
    if (r->validation) {
        r->validation_fields.size = sizeof(r->validation_fields);
        st = pst_fields_find(r->validation, o->fields->input, o->fields->target, true, &r->validation_fields, reterr);
        if (st == PST_OK && memcmp(&r->validation_fields.shape, &o->fields->shape, sizeof(pst_shape)) != 0)
            st = pst_fail(reterr, PST_ETYPE, "the validation pipeline delivers inputs of another shape than the training pipeline");
        if (st == PST_OK && r->validation_fields.batch > r->trainer->options.batch)
            st = pst_fail(reterr, PST_EINVAL, "the validation pipeline has batches of %zu, the training pipeline of %zu; use the same",
                          r->validation_fields.batch, r->trainer->options.batch);
    }
    if (st == PST_OK && o->out)
        st = file_make_folder(o->out, reterr);
    if (st == PST_OK && o->resume)
        st = resume(r, reterr);
    if (st == PST_OK && o->out)
        st = run_log_open(&r->log, o->out, r->trainer->steps, reterr);
    r->progress.epoch_steps = o->steps_per_epoch ? o->steps_per_epoch : pst_pipeline_length(r->training);
    return st;
}

pst_status pst_trainer_run(pst_trainer *t, pst_pipeline *training, pst_pipeline *validation, const pst_run_options *options,
                           pst_run_result *ret, pst_error *reterr)
{
    struct run r = {.trainer = t,
                    .training = training,
                    .validation = validation,
                    .options = options,
                    .state = {.best_loss = INFINITY},
                    .progress = {.val_loss = NAN, .val_accuracy = NAN, .loss = NAN, .accuracy = NAN},
                    .saved_step = UINT64_MAX,
                    .began = now()};
    pst_status st = prepare(&r, reterr);
    while (st == PST_OK && !r.stop && !is_finished(&r)) {
        st = train_epoch(&r, reterr);
        if (st == PST_END)
            st = end_epoch(&r, reterr);
    }
    if (st == PST_OK && r.saved_step != t->steps)
        st = save(&r, false, reterr);
    run_log_close(&r.log);
    if (st < 0 || !ret)
        return st;
    *ret = (pst_run_result){.size = ret->size,
                            .last = r.progress,
                            .best_step = r.state.best_step,
                            .best_loss = r.state.best_loss,
                            .stopped = r.stop,
                            .early = options->patience && r.state.wait >= options->patience};
    return PST_OK;
}
