/* doctor.c: one examination from beginning to end, its budget of time, and the public functions. */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/remote/object.h"

#include <math.h>
#include <string.h>

#define WHOLE        30.0 /* seconds that an examination takes… */
#define BUDGET       27.0 /* …and of these, what writing and starting leave */
#define QUICK        10.0
#define QUICK_BUDGET 7.5
#define LEAST        0.5 /* seconds that can be asked for */
#define MOST         1e5

/* ---- Time ---- */

double doctor_elapsed(const struct pst_doctor *d)
{
    return (double)(clock_ns() - d->begun) * 1e-9;
}

double doctor_span(const struct pst_doctor *d, double quick, double whole)
{
    return d->pace * (d->options.quick ? quick : whole);
}

/* Where other programs have the cores, everything takes longer. */
static double budget(const struct pst_doctor *d)
{
    double free = 1 - d->run.delay;
    return doctor_span(d, QUICK_BUDGET, BUDGET) / (free > 0.33 ? free : 0.33);
}

bool doctor_has_time(const struct pst_doctor *d, double seconds)
{
    double most = d->urgent ? 2.5 * budget(d) : budget(d);
    return doctor_elapsed(d) + doctor_span(d, 0.3 * seconds, seconds) < most;
}

bool doctor_hurries(const struct pst_doctor *d)
{
    return doctor_elapsed(d) > budget(d) - doctor_span(d, 3, 3);
}

static bool report(struct pst_doctor *d)
{
    uint64_t done = (uint64_t)(10 * doctor_elapsed(d)), total = (uint64_t)(10 * budget(d));
    pst_progress p = {.stage = d->doing, .done = done < total ? done : total, .total = total};
    return d->options.progress && d->options.progress(d->options.user, &p) != 0;
}

pst_status doctor_tick(struct pst_doctor *d, const char *stage, pst_error *reterr)
{
    d->doing = stage;
    d->ticked = clock_ns();
    return report(d) ? pst_fail(reterr, PST_ECANCELLED, "the examination was stopped") : PST_OK;
}

bool doctor_stopped(void *doctor)
{
    struct pst_doctor *d = doctor;
    uint64_t t = clock_ns();
    if (t - d->ticked < 100000000)
        return false;
    d->ticked = t;
    return report(d);
}

pst_status doctor_trial(struct pst_doctor *d, const struct draft *r, double seconds, bool warm_epoch, struct trial *ret,
                        pst_error *reterr)
{
    struct trial_request q = {.draft = r, .seconds = seconds, .warmup = seconds < 1 ? 0.2 * seconds : 0.3, .whole_epoch = warm_epoch,
                              .stop = doctor_stopped, .user = d};
    return trial_run(&q, ret, reterr);
}

#define LONG 4 /* a trial takes no more than about this many times as long as it should */

void doctor_shorten(const struct pst_doctor *d, struct draft *r, double seconds)
{
    size_t at = draft_find(r, "batch", 0), now = draft_find(&d->now, "batch", 0);
    double fit = fmax(1, d->run.rate * seconds);
    bool same = at != DRAFT_NONE && now != DRAFT_NONE && strcmp(r->stage[at].text, d->now.stage[now].text) == 0;
    if (same && d->run.rate > 0 && (double)d->facts.batch > LONG * fit)
        draft_set(r, at, "batch %.0f", fit);
}

/* ---- An examination ---- */

static void copy_options(struct pst_doctor *d, const pst_doctor_options *options)
{
    if (options) {
        size_t size = options->size < sizeof(d->options) ? options->size : sizeof(d->options);
        memcpy(&d->options, options, size);
    }
    d->options.size = sizeof(d->options);
    double seconds = d->options.seconds;
    d->options.quick |= seconds > 0 && seconds <= QUICK;
    d->pace = !(seconds > 0) ? 1 : seconds / (d->options.quick ? QUICK : WHOLE);
}

static pst_status check_options(const pst_doctor_options *o, pst_error *reterr)
{
    if (!(o->step_ms >= 0) || !(o->step_rate >= 0) || !(o->epoch_hours >= 0) || isinf(o->step_ms) || isinf(o->step_rate))
        return pst_fail(reterr, PST_EINVAL, "step_ms, step_rate and epoch_hours are numbers of at least 0");
    if (!(o->wish_rate >= 0) || !(o->link_rate >= 0) || isinf(o->wish_rate) || isinf(o->link_rate))
        return pst_fail(reterr, PST_EINVAL, "wish_rate and link_rate are numbers of at least 0");
    if (o->seconds != 0 && !(o->seconds >= LEAST && o->seconds <= MOST))
        return pst_fail(reterr, PST_EINVAL, "seconds is 0, or a number from %g to %g", LEAST, MOST);
    if ((o->step_ms > 0) + (o->step_rate > 0) + (o->model != NULL) > 1)
        return pst_fail(reterr, PST_EINVAL, "step_ms, step_rate and model exclude each other: each says how long a step takes");
    return PST_OK;
}

/* The size of the data set, as given, planned or counted. */
static void count_samples(struct pst_doctor *d)
{
    const struct facts *f = &d->facts;
    uint64_t n = d->options.samples ? d->options.samples
                 : f->epoch != PST_NOWHERE ? f->epoch
                 : f->elements != PST_NOWHERE ? f->elements
                                              : d->run.epoch_samples;
    d->epoch_samples = n > 0 ? (double)n : NAN;
    bool repeated = !d->options.samples && f->elements != PST_NOWHERE && f->elements < n;
    d->distinct_samples = repeated ? (double)f->elements : d->epoch_samples;
}

/* Does the real data set fit into the page cache? What waits for storage now? */
static void judge_storage(struct pst_doctor *d)
{
    double memory = (double)(d->options.memory ? d->options.memory : d->limits.memory_available);
    double each = d->run.read_bytes > 0 ? d->run.read_bytes : d->survey.mean_bytes;
    d->data_bytes = d->distinct_samples > 0 ? d->distinct_samples * each : NAN;
    d->cold = d->data_bytes > 0.9 * memory;
    double warm = d->pipe_rate;
    if (d->remote.known) {
        d->cold = false; /* the page cache matters later */
        d->remote.cached = d->remote.kept > 0 && object_downloaded() == d->remote.downloaded; /* a full cache stays as it is, too */
        d->remote.binds = each > 0 && d->remote.present / each < warm && !d->remote.cached;
    }
    d->pipe_rate = predict_rate(d, &d->costs);
    double bytes = predict_storage(d, &d->costs);
    if (isfinite(bytes) && d->costs.read_bytes > 0 && bytes / d->costs.read_bytes < warm) {
        d->pipe_rate = bytes / d->costs.read_bytes;
        d->cold_binds = !d->remote.binds;
    }
    d->cold_unknown = d->cold && d->costs.read_bytes > 0 && !isfinite(bytes);
    const struct stage_cost *read = d->stages ? &d->stage[0] : NULL;
    d->read_share = read && strcmp(read->kind, "read") == 0 ? read->share : 0;
    double all = d->costs.cpu_us + d->costs.blocked_us;
    if (read && strcmp(read->kind, "read") == 0 && all > 0 && read->us > 0.6 * d->costs.blocked_us)
        d->read_blocked = d->costs.blocked_us / all;
}

static pst_status prepare(struct pst_doctor *d, const char *target, pst_error *reterr)
{
    pst_status st = doctor_tick(d, "planning", reterr);
    if (st == PST_OK)
        st = check_options(&d->options, reterr);
    if (st == PST_OK)
        st = (d->subject = mem_strdup(target)) ? PST_OK : fail_memory(reterr, "starting the examination");
    if (st == PST_OK)
        st = target_text(&d->text, &d->written, target, d->options.customs != NULL, reterr);
    d->remote.kept = remote_kept();
    d->remote.downloaded = object_downloaded();
    if (st == PST_OK)
        st = draft_parse(&d->now, d->text, d->options.pipeline, d->options.customs, reterr);
    if (st == PST_OK)
        st = facts_read(&d->facts, &d->now, reterr);
    return st;
}

static pst_status examine(struct pst_doctor *d, const char *target, pst_error *reterr)
{
    pst_status st = prepare(d, target, reterr);
    if (st == PST_OK)
        st = limits_measure(d, reterr);
    if (st == PST_OK)
        st = doctor_survey(d, reterr);
    if (st == PST_OK)
        st = storage_measure(d, reterr);
    if (st == PST_OK)
        st = payload_measure(d, reterr);
    if (st == PST_OK)
        st = costs_measure(d, reterr);
    if (st < 0)
        return st;
    count_samples(d);
    judge_storage(d);
    st = doctor_step_measure(d, reterr);
    if (st == PST_OK)
        st = doctor_sample_make(d, reterr);
    if (st == PST_OK)
        st = remedies_find(d, reterr);
    if (st == PST_OK)
        st = cuts_measure(d, reterr);
    if (st == PST_OK && d->options.verify)
        st = remedies_verify(d, reterr);
    if (st == PST_OK && d->options.sweep)
        st = doctor_sweep(d, reterr);
    if (st < 0)
        return st;
    doctor_judge(d);
    d->seconds = doctor_elapsed(d);
    st = result_json(d, reterr);
    return st < 0 ? st : result_answer(d, reterr);
}

pst_status pst_doctor_run(pst_doctor **ret, const char *target, const pst_doctor_options *options, pst_error *reterr)
{
    struct pst_doctor *d = mem_zalloc(sizeof(*d));
    if (!d)
        return fail_memory(reterr, "starting the examination");
    d->begun = clock_ns();
    d->step.ms = d->step.rate = d->step.wait_share = NAN;
    copy_options(d, options);
    pst_status st = examine(d, target, reterr);
    if (st < 0) {
        pst_doctor_destroy(d);
        return st;
    }
    *ret = d;
    return PST_OK;
}

pst_doctor *pst_doctor_destroy(pst_doctor *d)
{
    if (!d)
        return NULL;
    draft_finish(&d->now);
    for (size_t i = 0; i < d->remedies; i++)
        doctor_remedy_finish(&d->remedy[i]);
    draft_finish(&d->sampled);
    doctor_sample_finish(&d->sample);
    doctor_survey_finish(&d->survey);
    doctor_step_finish(&d->step);
    mem_free(d->text);
    mem_free(d->subject);
    mem_free(d->json);
    mem_free(d->answer);
    mem_free(d);
    return NULL;
}

/* ---- The result ---- */

const char *pst_doctor_json(const pst_doctor *d)
{
    return d->json;
}

const char *pst_doctor_answer(const pst_doctor *d)
{
    return d->answer;
}

const char *pst_doctor_pipeline(const pst_doctor *d)
{
    return d->text;
}

void pst_doctor_verdict(const pst_doctor *d, pst_verdict *ret)
{
    pst_verdict v = {.size = ret->size, .class_name = d->class_name, .bottleneck = d->bottleneck, .cause = d->cause,
                     .stage = d->verdict_stage, .sentence = d->sentence, .wait_share = d->wait_share, .samples_per_s = d->pipe_rate};
    memcpy(ret, &v, v.size < sizeof(v) ? v.size : sizeof(v));
}

bool pst_doctor_remedy_at(const pst_doctor *d, size_t i, pst_remedy *ret)
{
    if (i >= d->remedies)
        return false;
    const struct remedy *r = &d->remedy[i];
    bool text = r->pipeline && !r->packed && r->available;
    pst_remedy out = {.size = ret->size, .id = r->id, .title = r->title, .command = r->command, .pipeline = r->pipeline,
                      .available = r->available, .applies = r->in_place || r->out[0] || text,
                      .out = r->in_place ? NULL : r->out[0] ? r->out : "pipeline.pst", .predicted = r->rate, .measured = r->measured, .gain = r->gain};
    memcpy(ret, &out, out.size < sizeof(out) ? out.size : sizeof(out));
    return true;
}
