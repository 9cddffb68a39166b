/* step.c: the consumer: a step of a given length, or the real training steps of a model, split into the passes of
 * each layer and the optimiser. */
#include "doctor/step.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

void bench_finish(struct bench *b)
{
    pst_trainer_destroy(b->trainer);
    pst_model_destroy(b->model);
    pst_batch_unref(b->batch);
    pst_pipeline_destroy(b->pipeline);
    *b = (struct bench){0};
}

/* The text of a model, or of that of a run or an ONNX file. mem_free it. */
static pst_status model_text(char **ret, const char *model, pst_error *reterr)
{
    if (!pst_run_record_is(model)) {
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

static pst_status make_trainer(pst_trainer **ret, const pst_model *model, const pst_fields *fields, pst_mixed mixed, pst_error *reterr)
{
    pst_train_options o = {.size = sizeof(o), .batch = fields->batch, .loss = pst_loss_choose(model, fields), .mixed = mixed};
    return pst_trainer_create(ret, model, &o, reterr);
}

pst_status bench_open_on(const struct draft *r, const char *model, pst_mixed mixed, struct bench *b, pst_error *reterr)
{
    b->fields.size = sizeof(b->fields);
    pst_status st = draft_open(r, &b->pipeline, reterr);
    if (st == PST_OK)
        st = pst_fields_find(b->pipeline, NULL, NULL, true, &b->fields, reterr);
    if (st == PST_OK)
        st = pst_model_parse(&b->model, model, &b->fields.shape, reterr);
    if (st == PST_OK)
        st = make_trainer(&b->trainer, b->model, &b->fields, mixed, reterr);
    if (st == PST_OK)
        st = pst_pipeline_next(b->pipeline, &b->batch, reterr);
    if (st == PST_END)
        st = pst_fail(reterr, PST_EINVAL, "the pipeline delivers no samples");
    if (st == PST_OK && pst_pipeline_halt(b->pipeline, 60) < 0)
        st = pst_fail(reterr, PST_EIO, "the pipeline does not stop");
    return st < 0 ? st : PST_OK;
}

pst_status bench_open(struct pst_doctor *d, const struct step_change *change, struct bench *b, pst_error *reterr)
{
    return bench_open_on(&d->now, change->model ? change->model : d->step.model, change->mixed, b, reterr);
}

pst_samples bench_samples(const struct bench *b)
{
    return (pst_samples){.size = sizeof(pst_samples), .input = pst_batch_get(b->batch, b->fields.input),
                         .target = b->fields.target[0] ? pst_batch_get(b->batch, b->fields.target) : NULL};
}

static pst_status time_step(struct pst_doctor *d, const struct bench *b, double seconds, double *ret_ms, pst_error *reterr)
{
    double whole = INFINITY, end = now_ms() + 1e3 * seconds;
    pst_samples s = bench_samples(b);
    pst_status st = pst_trainer_measure(b->trainer, true, reterr);
    for (int i = 0; st == PST_OK && (i < 3 || (now_ms() < end && i < 300)); i++) {
        double begin = now_ms();
        st = pst_trainer_step(b->trainer, &s, NULL, reterr);
        whole = fmin(whole, now_ms() - begin); /* the shortest: other programs only ever make it longer */
        if (doctor_stopped(d))
            return pst_fail(reterr, PST_ECANCELLED, "the examination was stopped");
    }
    *ret_ms = whole;
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
    double step = d->step.ms > 0 ? 1e-3 * d->step.ms : 0, seconds = doctor_span(d, 0.5, 1);
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
    double seconds = fmax(doctor_span(d, 1, 3), fmin(13e-3 * d->step.ms, 1));
    struct trial_request q = {.draft = &d->now, .seconds = seconds, .warmup = 0.3, .step = trainer ? 0 : 1e-3 * d->step.ms,
                              .trainer = trainer, .fields = fields, .stop = doctor_stopped, .user = d};
    if (!trainer && 1e-3 * d->step.ms * 12 > seconds)
        return PST_OK;
    q.warmup = 1e-3 * d->step.ms * ((double)d->run.prefetch + 2) < seconds ? 1e-3 * d->step.ms * ((double)d->run.prefetch + 2) : seconds;
    pst_status st = doctor_tick(d, "running pipeline and step together", reterr);
    if (st == PST_OK)
        st = trial_run(&q, &d->together, reterr);
    if (st == PST_OK && d->together.batches > 3) {
        double period = d->together.seconds / (double)d->together.batches, step = trainer ? d->together.step_seconds : 1e-3 * d->step.ms;
        double wait = fmax(0, period - d->together.step_seconds); /* all that is not the step */
        d->step.wait_share = wait / (step + wait);
        d->step.together = d->together.rate * period / (step + wait); /* a busy machine makes sleeps longer, not steps */
    }
    return st;
}

static double gradient_bytes(const pst_model *model)
{
    pst_model_param p = {.size = sizeof(p)};
    double count = 0;
    for (size_t i = 0; pst_model_param_at(model, i, &p); i++)
        count += p.fixed ? 0 : (double)p.count;
    return 4 * count;
}

static pst_status measure_model(struct pst_doctor *d, pst_error *reterr)
{
    struct bench b = {0};
    char *text = NULL;
    double seconds = doctor_span(d, 0.7, 2);
    pst_status st = model_text(&text, d->options.model, reterr);
    d->urgent = true;
    if (st == PST_OK)
        st = bench_open(d, &(struct step_change){.model = text}, &b, reterr);
    if (st == PST_OK)
        st = doctor_tick(d, "measuring the model", reterr);
    if (st == PST_OK)
        st = time_step(d, &b, seconds, &d->step.ms, reterr);
    if (st == PST_OK) {
        d->step.shared = true;
        d->step.gradient_bytes = gradient_bytes(b.model);
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

#define LEAST_STEPS 6 /* of each */

pst_status step_compare(struct pst_doctor *d, const struct step_change *change, double seconds, double *ret_share, pst_error *reterr)
{
    struct bench b[2] = {{0}, {0}};
    double best[2] = {INFINITY, INFINITY}, end = now_ms() + 1e3 * seconds;
    pst_status st = bench_open(d, &(struct step_change){0}, &b[0], reterr);
    if (st == PST_OK)
        st = bench_open(d, change, &b[1], reterr);
    for (int i = 0; st == PST_OK && (i < LEAST_STEPS || (now_ms() < end && i < 300)); i++)
        for (int k = 0; k < 2 && st == PST_OK; k++) {
            pst_samples s = bench_samples(&b[k]);
            double begin = now_ms();
            st = pst_trainer_step(b[k].trainer, &s, NULL, reterr);
            best[k] = fmin(best[k], now_ms() - begin);
            if (st == PST_OK && doctor_stopped(d))
                st = pst_fail(reterr, PST_ECANCELLED, "the examination was stopped");
        }
    bench_finish(&b[0]);
    bench_finish(&b[1]);
    *ret_share = best[0] > 0 ? best[1] / best[0] : NAN;
    return st < 0 ? st : PST_OK;
}

#define STEP_ROUNDS 4

pst_status step_turns(struct pst_doctor *d, const struct step_change *change, struct step_turns *ret, pst_error *reterr)
{
    struct bench b[2] = {{0}, {0}};
    double rate[2][STEP_ROUNDS] = {{0}}, ratio[STEP_ROUNDS] = {0}, low, high, mean;
    pst_status st = bench_open(d, &(struct step_change){0}, &b[0], reterr);
    if (st == PST_OK)
        st = bench_open(d, change, &b[1], reterr);
    double seconds = fmin(fmax(doctor_span(d, 0.4, 0.8), 6e-3 * d->step.ms), 6);
    for (size_t i = 0; i < STEP_ROUNDS && st == PST_OK; i++) {
        for (size_t k = 0; k < 2 && st == PST_OK; k++) {
            size_t side = (k + i) % 2; /* who begins alternates */
            struct trial t = {0};
            struct trial_request q = {.draft = &d->now, .seconds = seconds, .warmup = 0.2 * seconds, .trainer = b[side].trainer,
                                      .fields = &b[side].fields, .stop = doctor_stopped, .user = d};
            st = trial_run(&q, &t, reterr);
            rate[side][i] = t.rate;
        }
        ratio[i] = rate[0][i] > 0 ? rate[1][i] / rate[0][i] : 0;
    }
    bench_finish(&b[0]);
    bench_finish(&b[1]);
    if (st < 0)
        return st;
    trial_range(rate[0], STEP_ROUNDS, &ret->now, &low, &high);
    trial_range(ratio, STEP_ROUNDS, &mean, &low, &high);
    ret->after = ret->now * mean;
    ret->low = ret->now * low;
    ret->high = ret->now * high;
    return PST_OK;
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
