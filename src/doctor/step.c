/* step.c: the consumer: a step of a given length, or the real training steps of a model, split into the passes of
 * each layer and the optimiser. */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_LAYERS 64

void doctor_step_finish(struct step *s)
{
    mem_free(s->layer);
    mem_free(s->model);
    s->layer = NULL;
    s->model = NULL;
}

static double now_ms(void)
{
    return (double)clock_ns() * 1e-6;
}

/* ---- A model ---- */

struct bench { /* a batch and the model that is trained on it */
    pst_pipeline *pipeline;
    pst_batch *batch;
    pst_fields fields;
    pst_model *model;
    pst_trainer *trainer;
};

static void bench_finish(struct bench *b)
{
    pst_trainer_destroy(b->trainer);
    pst_model_destroy(b->model);
    pst_batch_unref(b->batch);
    pst_pipeline_destroy(b->pipeline);
}

/* The text of a model: of a run, if `model` is a folder. mem_free it. */
static pst_status model_text(char **ret, const char *model, pst_error *reterr)
{
    struct stat s;
    if (stat(model, &s) != 0 || !S_ISDIR(s.st_mode)) {
        *ret = mem_strdup(model);
        return *ret ? PST_OK : fail_memory(reterr, "reading the model");
    }
    pst_run_record *record = NULL;
    pst_status st = pst_run_record_read(&record, model, NULL, reterr);
    if (st == PST_OK) {
        *ret = mem_strdup(record->model);
        st = *ret ? PST_OK : fail_memory(reterr, "reading the model");
    }
    pst_run_record_destroy(record);
    return st;
}

static pst_status make_trainer(pst_trainer **ret, const pst_model *model, const pst_fields *fields, pst_error *reterr)
{
    pst_train_options o = {.size = sizeof(o), .batch = fields->batch, .loss = pst_loss_choose(model, fields)};
    return pst_trainer_create(ret, model, &o, reterr);
}

static pst_status bench_open(struct pst_doctor *d, const char *text, struct bench *b, pst_error *reterr)
{
    b->fields.size = sizeof(b->fields);
    pst_status st = draft_open(&d->now, &b->pipeline, reterr);
    if (st == PST_OK)
        st = pst_fields_find(b->pipeline, NULL, NULL, true, &b->fields, reterr);
    if (st == PST_OK)
        st = pst_model_parse(&b->model, text, &b->fields.shape, reterr);
    if (st == PST_OK)
        st = make_trainer(&b->trainer, b->model, &b->fields, reterr);
    if (st == PST_OK)
        st = pst_pipeline_next(b->pipeline, &b->batch, reterr);
    if (st == PST_END)
        st = pst_fail(reterr, PST_EINVAL, "the pipeline delivers no samples");
    if (st == PST_OK && pst_pipeline_halt(b->pipeline, 60) < 0)
        st = pst_fail(reterr, PST_EIO, "the pipeline does not stop");
    return st < 0 ? st : PST_OK;
}

static pst_samples samples_of(const struct bench *b)
{
    return (pst_samples){.size = sizeof(pst_samples), .input = pst_batch_get(b->batch, b->fields.input),
                         .target = b->fields.target[0] ? pst_batch_get(b->batch, b->fields.target) : NULL};
}

static pst_status time_step(struct pst_doctor *d, const struct bench *b, double seconds, pst_error *reterr)
{
    double whole = INFINITY, end = now_ms() + 1e3 * seconds;
    pst_samples s = samples_of(b);
    pst_status st = pst_trainer_measure(b->trainer, true, reterr);
    for (int i = 0; st == PST_OK && (i < 3 || (now_ms() < end && i < 300)); i++) {
        double begin = now_ms();
        st = pst_trainer_step(b->trainer, &s, NULL, reterr);
        whole = fmin(whole, now_ms() - begin); /* the shortest: other programs only ever make it longer */
        if (doctor_stopped(d))
            return pst_fail(reterr, PST_ECANCELLED, "the examination was stopped");
    }
    d->step.ms = whole;
    return st < 0 ? st : pst_trainer_measure(b->trainer, false, reterr);
}

/* ---- Layers ---- */

/* Groups of layers as the step computes them; means of the measured steps. */
static pst_status note_layers(struct pst_doctor *d, const pst_trainer *t, pst_error *reterr)
{
    pst_train_stats stats = {.size = sizeof(stats)};
    pst_layer_stats layer = {.size = sizeof(layer)};
    d->step.layer = mem_array(MOST_LAYERS, sizeof(*d->step.layer));
    if (!d->step.layer)
        return fail_memory(reterr, "measuring layers");
    bool known = pst_trainer_stats(t, &stats);
    double sum = known ? stats.forward + stats.loss + stats.backward + stats.update : 0;
    double part = sum > 0 ? d->step.ms / sum : 0; /* means, as parts of the shortest step */
    d->step.forward_ms = part * (stats.forward + stats.loss);
    d->step.backward_ms = part * stats.backward;
    d->step.optimizer_ms = part * stats.update;
    for (size_t i = 0; d->step.layers < MOST_LAYERS && pst_trainer_stats_at(t, i, &layer); i++) {
        struct step_layer *l = &d->step.layer[d->step.layers++];
        snprintf(l->name, sizeof(l->name), layer.layers > 1 ? "%s and %zu more" : "%s", layer.layer, layer.layers - 1);
        l->forward_ms = part * layer.forward;
        l->backward_ms = part * layer.backward;
    }
    return PST_OK;
}

/* ---- Together ---- */

/* A run of its own, so that tracing costs nothing where it would be measured. */
static pst_status trace_together(struct pst_doctor *d, pst_trainer *trainer, const pst_fields *fields, pst_error *reterr)
{
    double step = d->step.ms > 0 ? 1e-3 * d->step.ms : 0, seconds = d->options.quick ? 0.5 : 1;
    struct trial unused;
    struct trial_request q = {.draft = &d->now, .seconds = fmin(fmax(seconds, 8 * step), 10), .step = trainer ? 0 : step, .trainer = trainer,
                              .fields = fields, .trace = d->options.trace, .stop = doctor_stopped, .user = d};
    if (!d->options.trace)
        return PST_OK;
    pst_status st = doctor_tick(d, "recording a trace", reterr);
    return st < 0 ? st : trial_run(&q, &unused, reterr);
}

/* The pipeline with its consumer: how long does the consumer wait? Steps that are too long for a few dozen of them are not run. */
static pst_status run_together(struct pst_doctor *d, pst_trainer *trainer, const pst_fields *fields, pst_error *reterr)
{
    double seconds = d->options.quick ? 1 : 3;
    struct trial_request q = {.draft = &d->now, .seconds = seconds, .warmup = 0.3, .step = trainer ? 0 : 1e-3 * d->step.ms,
                              .trainer = trainer, .fields = fields, .stop = doctor_stopped, .user = d};
    if (!trainer && 1e-3 * d->step.ms * 12 > seconds)
        return PST_OK;
    q.warmup = 1e-3 * d->step.ms * ((double)d->run.prefetch + 2) < seconds ? 1e-3 * d->step.ms * ((double)d->run.prefetch + 2) : seconds;
    pst_status st = doctor_tick(d, "running pipeline and step together", reterr);
    if (st == PST_OK)
        st = trial_run(&q, &d->together, reterr);
    if (st == PST_OK && d->together.batches > 3) {
        d->step.wait_share = d->together.wait_share;
        d->step.together = d->together.rate;
    }
    return st;
}

static pst_status measure_model(struct pst_doctor *d, pst_error *reterr)
{
    struct bench b = {0};
    char *text = NULL;
    double seconds = d->options.quick ? 0.7 : 2;
    pst_status st = model_text(&text, d->options.model, reterr);
    d->urgent = true;
    if (st == PST_OK)
        st = bench_open(d, text, &b, reterr);
    if (st == PST_OK)
        st = doctor_tick(d, "measuring the model", reterr);
    if (st == PST_OK)
        st = time_step(d, &b, seconds, reterr);
    if (st == PST_OK) {
        d->step.shared = true;
        d->step.model = mem_strdup(pst_model_text(b.model));
        st = d->step.model ? note_layers(d, b.trainer, reterr) : fail_memory(reterr, "measuring a model");
    }
    if (st == PST_OK)
        st = run_together(d, b.trainer, &b.fields, reterr);
    if (st == PST_OK)
        st = trace_together(d, b.trainer, &b.fields, reterr);
    d->urgent = false;
    bench_finish(&b);
    mem_free(text);
    return st;
}

pst_status doctor_step_time(struct pst_doctor *d, const char *model, double seconds, double *ret_ms, pst_error *reterr)
{
    struct bench b = {0};
    struct step kept = d->step;
    pst_status st = bench_open(d, model, &b, reterr);
    if (st == PST_OK)
        st = time_step(d, &b, seconds, reterr);
    *ret_ms = d->step.ms;
    d->step = kept;
    bench_finish(&b);
    return st;
}

/* A step of a given length, or none. */
static pst_status measure_given(struct pst_doctor *d, pst_error *reterr)
{
    struct step *s = &d->step;
    double batch = (double)d->facts.batch;
    pst_status st = PST_OK;
    s->ms = d->options.step_ms > 0 ? d->options.step_ms : d->options.step_rate > 0 ? 1e3 * batch / d->options.step_rate : NAN;
    if (s->ms > 0) {
        s->origin = "given";
        s->rate = 1e3 * batch / s->ms;
        st = run_together(d, NULL, NULL, reterr);
    }
    return st < 0 ? st : trace_together(d, NULL, NULL, reterr);
}

pst_status doctor_step_measure(struct pst_doctor *d, pst_error *reterr)
{
    struct step *s = &d->step;
    s->ms = s->rate = s->wait_share = s->together = NAN;
    if (!d->options.model)
        return measure_given(d, reterr);
    pst_status st = measure_model(d, reterr);
    if (st < 0)
        return st;
    s->origin = "measured";
    s->rate = 1e3 * (double)d->facts.batch / s->ms;
    return PST_OK;
}
