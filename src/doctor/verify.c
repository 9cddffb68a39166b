/* verify.c: remedies measured, and settings swept. */
#include "doctor/remedy.h"
#include "doctor/step.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PASSES 3 /* over all remedies: what other machines on the same processor do changes within seconds, and belongs to none of them */
#define TURNS  4 /* of each remedy per pass; half as many if the answer is to be quick */

static pst_status measure(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct turns t;
    struct turns_request q = {.before = r->on_sample ? &d->sampled : &d->now, .after = &r->variant, .warm_epoch = r->warm_epoch, .whole = r->warm_epoch,
                              .rounds = d->options.quick ? TURNS / 2 : TURNS, .seconds = doctor_span(d, 0.1, 0.2)};
    pst_status st = doctor_turns(d, &q, &r->verified, &t, reterr);
    if (st != PST_OK)
        return st < 0 ? st : PST_OK;
    r->measured_now = t.before.rate;
    r->measured = t.after.rate;
    r->measured_low = t.before.rate * t.low;
    r->measured_high = t.before.rate * t.high;
    r->rate_on_sample = r->warm_gain * r->measured_now;
    return PST_OK;
}

/* Samples per second of the first epoch, from opening to its end. */
static pst_status run_first_epoch(struct pst_doctor *d, double *ret, pst_error *reterr)
{
    pst_pipeline *p = NULL;
    uint64_t begin = clock_ns(), samples = 0;
    pst_status st = draft_open(&d->now, &p, reterr);
    while (st == PST_OK) {
        pst_batch *b = NULL;
        st = pst_pipeline_next(p, &b, reterr);
        samples += st == PST_OK ? pst_batch_size(b) : 0;
        pst_batch_unref(b);
        if (st == PST_OK && doctor_stopped(d))
            st = pst_fail(reterr, PST_ECANCELLED, "the examination was stopped");
    }
    *ret = (double)samples / (1e-9 * (double)(clock_ns() - begin));
    pst_pipeline_destroy(p);
    return st == PST_END ? PST_OK : st;
}

/* Data that is fetched: its first epoch, and those after it. */
static pst_status measure_fetched(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct trial t = {0};
    pst_status st = run_first_epoch(d, &r->measured_now, reterr);
    if (st == PST_OK)
        st = doctor_trial(d, &r->variant, doctor_span(d, 0.5, 1), true, &t, reterr);
    if (st < 0)
        return st;
    r->measured = t.rate;
    r->measured_low = t.low;
    r->measured_high = t.high;
    r->rate_on_sample = r->rate;
    return PST_OK;
}

/* Another step, on the same data. */
static pst_status measure_step(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct step_turns t;
    pst_status st = step_turns(d, &r->change, &t, reterr);
    if (st < 0)
        return st;
    r->measured_now = t.now;
    r->measured = t.after;
    r->measured_low = t.low;
    r->measured_high = t.high;
    r->rate_on_sample = r->model_gain * t.now;
    return PST_OK;
}

/* Several processes on this machine, if the caller can start them: they share its cores, so that all of them together are as fast as one, but
 * for the exchange. */
static pst_status measure_ranks(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    pst_doctor_ranks q = {.size = sizeof(q), .ranks = 1, .pipeline = d->text, .model = d->step.model};
    double rate = isfinite(d->step.together) && d->step.together > 0 ? d->step.together : predict_together(d, d->pipe_rate);
    q.steps = (uint64_t)fmin(fmax(rate / (double)d->facts.batch, 4), 4000); /* about a second */
    double one = 0, all = 0;
    pst_status st = doctor_tick(d, "measuring ranks", reterr);
    if (st == PST_OK)
        st = d->options.run_ranks(d->options.ranks_user, &q, &one, NULL);
    q.ranks = 2;
    if (st == PST_OK)
        st = d->options.run_ranks(d->options.ranks_user, &q, &all, NULL);
    if (st == PST_ECANCELLED)
        return pst_fail(reterr, PST_ECANCELLED, "the examination was stopped");
    if (st < 0 || !(one > 0) || !(all > 0))
        return PST_OK; /* without a launcher nothing is measured */
    r->measured_now = one;
    r->measured = r->measured_low = r->measured_high = all;
    r->rate_on_sample = one * remedy_ranks_here(d, q.ranks);
    return PST_OK;
}

/* Remedies that are measured once. */
static pst_status measure_once(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    if (r->has_variant && r->first_epoch)
        return measure_fetched(d, r, reterr);
    if (r->changes_step && r->available && !r->has_variant)
        return measure_step(d, r, reterr);
    if (r->ranks > 1 && d->step.model && d->options.run_ranks)
        return measure_ranks(d, r, reterr);
    return PST_OK;
}

pst_status remedies_verify(struct pst_doctor *d, pst_error *reterr)
{
    pst_status st = doctor_tick(d, "measuring remedies", reterr);
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < d->remedies && st == PST_OK; i++)
            if (d->remedy[i].has_variant && d->remedy[i].available && !d->remedy[i].first_epoch && (pass == 0 || d->remedy[i].verified.count))
                st = measure(d, &d->remedy[i], reterr);
    for (size_t i = 0; i < d->remedies && st == PST_OK; i++)
        st = measure_once(d, &d->remedy[i], reterr);
    return st;
}

/* ---- Sweeps ---- */

static void set(struct draft *r, pst_sweep what, uint64_t value)
{
    size_t batch = draft_find(r, "batch", 0), prefetch = draft_find(r, "prefetch", 0);
    if (what == PST_SWEEP_WORKERS)
        r->options.workers = (unsigned)value;
    if (what == PST_SWEEP_PREFETCH) {
        if (prefetch != DRAFT_NONE)
            draft_remove(r, prefetch);
        r->options.prefetch = (unsigned)value;
    }
    if (what == PST_SWEEP_BATCH && batch != DRAFT_NONE)
        draft_set(r, batch, "batch %llu", (unsigned long long)value);
    else if (what == PST_SWEEP_BATCH)
        draft_insert(r, r->count, "batch %llu", (unsigned long long)value);
}

static size_t values_for(const struct pst_doctor *d, uint64_t *value)
{
    size_t n = 0;
    uint64_t most = d->options.sweep == PST_SWEEP_BATCH ? 512 : d->options.sweep == PST_SWEEP_WORKERS ? 4 * (uint64_t)d->limits.cores : 32;
    for (uint64_t v = d->options.sweep == PST_SWEEP_BATCH ? 8 : 1; v <= most && n < 12; v *= 2)
        value[n++] = v;
    return n;
}

/* The smallest value that comes within 3 % of the best rate. */
static void recommend(struct pst_doctor *d)
{
    static const char *const names[] = {"", "batches of", "workers:", "prefetch"};
    char rate[32];
    double best = 0;
    for (size_t i = 0; i < d->sweeps; i++)
        best = d->sweep[i].rate > best ? d->sweep[i].rate : best;
    for (size_t i = 0; i < d->sweeps; i++)
        if (d->sweep[i].rate >= 0.97 * best) {
            d->sweep_choice = d->sweep[i].value;
            snprintf(d->sweep_reason, sizeof(d->sweep_reason), "%s %llu: the smallest value within 3 %% of the best rate, %s samples/s",
                     names[d->options.sweep], (unsigned long long)d->sweep_choice, doctor_figure(rate, sizeof(rate), best));
            return;
        }
}

/* Samples per second that storage delivers; INFINITY: it does not limit the rate. */
static double storage_rate(const struct pst_doctor *d)
{
    return d->costs.read_bytes > 0 ? predict_storage(d, &d->costs) / d->costs.read_bytes : INFINITY;
}

/* Whether the rates of a sweep are those of trials: with the steps of a model, or of the pipeline by itself. */
static bool is_plain_sweep(const struct pst_doctor *d)
{
    bool batch = d->options.sweep == PST_SWEEP_BATCH, given = d->step.rate > 0 && isfinite(d->step.rate);
    return d->step.model || !given || (batch && d->options.step_ms > 0);
}

/* What the rates of a sweep are: with a model those of real steps; otherwise of the pipeline by itself, or of the slower of pipeline and step. */
static void choose_basis(struct pst_doctor *d)
{
    bool batch = d->options.sweep == PST_SWEEP_BATCH, given = d->step.rate > 0 && isfinite(d->step.rate), bounded = isfinite(storage_rate(d));
    const char *basis = d->step.model ? "rates of the pipeline with steps of the model"
                     : !given ? "rates of the pipeline by itself"
                     : batch && d->options.step_ms > 0
                         ? "rates of the pipeline by itself: how long a step takes with other batches is not known; --model measures it"
                     : batch ? "computed: the slower of the measured pipeline and the given rate of steps, taken to be the same for all batches"
                             : "computed: the slower of the measured pipeline and the given step";
    d->sweep_measured = is_plain_sweep(d) && !bounded;
    snprintf(d->sweep_basis, sizeof(d->sweep_basis), "%s%s", basis, bounded ? "; bounded by the storage" : d->cold_unknown ? "; of data in memory" : "");
}

/* The pipeline with real steps on its batches. */
static pst_status sweep_model(struct pst_doctor *d, const struct draft *r, struct trial *ret, pst_error *reterr)
{
    struct bench b = {0};
    double seconds = fmax(doctor_span(d, 0.2, 0.5), 4e-3 * d->step.ms);
    pst_status st = bench_open_on(r, d->step.model, PST_MIXED_NONE, &b, reterr);
    if (st == PST_OK) {
        struct trial_request q = {.draft = r, .seconds = seconds, .warmup = 0.2 * seconds, .trainer = b.trainer, .fields = &b.fields, .stop = doctor_stopped,
                                  .user = d};
        st = trial_run(&q, ret, reterr);
    }
    bench_finish(&b);
    return st;
}

/* A rate of data in memory, as it is with the step and the storage of the real data. */
static double real_rate(const struct pst_doctor *d, double rate)
{
    return fmin(is_plain_sweep(d) ? rate : predict_together(d, rate), storage_rate(d));
}

static pst_status measure_point(struct pst_doctor *d, uint64_t value, struct sweep_point *ret, pst_error *reterr)
{
    struct draft r;
    struct trial t = {0};
    draft_copy(&r, &d->now);
    set(&r, d->options.sweep, value);
    pst_status st = d->step.model ? sweep_model(d, &r, &t, reterr) : doctor_trial(d, &r, doctor_span(d, 0.2, 0.5), false, &t, reterr);
    draft_finish(&r);
    if (st < 0)
        return st;
    *ret = (struct sweep_point){.value = value, .rate = real_rate(d, t.rate), .low = real_rate(d, t.low), .high = real_rate(d, t.high),
                                .ram = t.ram_planned, .pipeline = d->step.model ? NAN : t.rate};
    ret->epoch_seconds = d->epoch_samples > 0 && ret->rate > 0 ? d->epoch_samples / ret->rate : NAN;
    return PST_OK;
}

/* Measures a value once more and keeps the better rate. A value that does not run, such as a batch without room in memory, has none. */
static pst_status try_value(struct pst_doctor *d, uint64_t value, struct sweep_point *best, pst_error *reterr)
{
    struct sweep_point p = {0};
    pst_error error = {0};
    pst_status st = measure_point(d, value, &p, &error);
    if (st == PST_OK && p.rate > best->rate)
        *best = p;
    if (st != PST_ECANCELLED)
        return PST_OK;
    if (reterr)
        *reterr = error;
    return st;
}

static void drop_empty_points(struct pst_doctor *d, size_t count)
{
    d->sweeps = 0;
    for (size_t i = 0; i < count; i++)
        if (d->sweep[i].rate > 0)
            d->sweep[d->sweeps++] = d->sweep[i];
}

pst_status doctor_sweep(struct pst_doctor *d, pst_error *reterr)
{
    uint64_t value[12];
    pst_status st = doctor_tick(d, "sweeping", reterr);
    size_t n = values_for(d, value);
    choose_basis(d);
    for (int round = 0; round < 2 && st == PST_OK; round++) /* in turns: the better of two rounds */
        for (size_t i = 0; i < n && st == PST_OK; i++)
            if (round == 0 || d->sweep[i].rate > 0)
                st = try_value(d, value[i], &d->sweep[i], reterr);
    drop_empty_points(d, st == PST_OK ? n : 0);
    recommend(d);
    return st;
}
