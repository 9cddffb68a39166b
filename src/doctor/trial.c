/* trial.c: see trial.h. */
#include "doctor/trial.h"

#include "base/clock.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Totals at a moment. */
struct moment {
    double time, cpu, delay; /* seconds */
    double step;             /* seconds of the consumer's own work */
    pst_stats stats;
};

#define TRIAL_QUARTERS 4
#define SLOW           1.0 /* seconds of a batch */
#define TRACE_EVENTS   1000000

struct course {
    const struct trial_request *q;
    pst_pipeline *pipeline;
    struct moment begin, end;
    uint64_t since_epoch; /* samples of the present epoch */
    double step;
    double owed; /* seconds that steps of a given length took too long, because the system woke the consumer late */
    double opened, mark;  /* seconds; the beginning of the present window */
    bool partial;         /* the warm-up did not reach the end of the epoch */
    uint64_t mark_samples, samples;
    pst_stats quarter[TRIAL_QUARTERS + 1]; /* at the beginning, and after every few windows */
    size_t quarters;
};

static double now(void)
{
    return (double)clock_ns() * 1e-9;
}

static double cpu_seconds(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

/* The time that threads of this process were ready to run and did not; 0 where the system does not say. */
static double run_delay(void)
{
    DIR *tasks = opendir("/proc/self/task");
    double sum = 0;
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        char path[300];
        unsigned long long run, delay;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%llu %llu", &run, &delay) == 2)
            sum += 1e-9 * (double)delay;
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

static void look(struct course *c, struct moment *m)
{
    m->stats.size = sizeof(m->stats);
    pst_pipeline_stats(c->pipeline, &m->stats, NULL); /* the size is right: it cannot fail */
    m->delay = run_delay();
    m->cpu = cpu_seconds();
    m->step = c->step;
    m->time = now();
}

static void sleep_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * fmod(seconds, 1))};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

/* The consumer's work on a batch. */
static pst_status use(struct course *c, const pst_batch *batch, pst_error *reterr)
{
    const struct trial_request *q = c->q;
    double begin = now();
    pst_status st = PST_OK;
    if (q->step > c->owed)
        sleep_for(q->step - c->owed); /* what one step took too long, the next ones are shorter */
    if (q->trainer) {
        pst_samples s = {.size = sizeof(s), .input = pst_batch_get(batch, q->fields->input),
                         .target = q->fields->target[0] ? pst_batch_get(batch, q->fields->target) : NULL};
        st = pst_trainer_step(q->trainer, &s, NULL, reterr);
        st = st == PST_ETYPE ? PST_OK : st; /* a loss that is not finite takes as long */
    }
    double took = now() - begin;
    c->owed = q->step > 0 ? fmin(fmax(c->owed + took - q->step, 0), 4 * q->step) : 0;
    c->step += took;
    return st;
}

static bool stopped(const struct course *c)
{
    return c->q->stop && c->q->stop(c->q->user);
}

static pst_status cancelled(pst_error *reterr)
{
    return pst_fail(reterr, PST_ECANCELLED, "the measurement was stopped");
}

static void note_quarter(struct course *c)
{
    pst_stats *s = &c->quarter[c->quarters];
    if (c->quarters > TRIAL_QUARTERS)
        return;
    s->size = sizeof(*s);
    pst_pipeline_stats(c->pipeline, s, NULL);
    c->quarters++;
}

/* On a busy machine a measurement takes longer, so that it rests on enough work. */
static bool has_enough(const struct course *c, double t)
{
    double wanted = 0.5 * c->q->seconds, passed = t - c->begin.time;
    return c->q->step > 0 || c->q->trainer || passed > 4 * c->q->seconds || cpu_seconds() - c->begin.cpu >= wanted ||
           run_delay() - c->begin.delay < 0.3 * passed;
}

/* Takes batches until `until`. `ret`: windows are noted there; NULL: this is the warm-up, which also ends with the first epoch
 * if `epoch`. */
static pst_status take(struct course *c, double until, bool epoch, struct trial *ret, uint64_t *ret_epoch, pst_error *reterr)
{
    double window = ret ? c->q->seconds / TRIAL_WINDOWS : 0;
    uint64_t batches = 0, at_epoch = UINT64_MAX;
    for (;;) {
        pst_batch *batch = NULL;
        pst_status st = pst_pipeline_next(c->pipeline, &batch, reterr);
        if (st < 0)
            return st;
        if (st == PST_END) {
            if (!*ret_epoch)
                *ret_epoch = c->since_epoch;
            c->since_epoch = 0;
            if (at_epoch == batches) /* an empty epoch: there is no data */
                return PST_END;
            at_epoch = batches;
            if (epoch && batches)
                return PST_OK;
            continue;
        }
        c->samples += pst_batch_size(batch);
        c->since_epoch += pst_batch_size(batch);
        batches++;
        st = use(c, batch, reterr);
        pst_batch_unref(batch);
        if (st < 0)
            return st;
        double t = now();
        if (ret && t - c->mark >= window && ret->windows < TRIAL_WINDOWS && c->samples > c->mark_samples) {
            ret->window[ret->windows++] = (double)(c->samples - c->mark_samples) / (t - c->mark);
            c->mark = t;
            c->mark_samples = c->samples;
            if (ret->windows % (TRIAL_WINDOWS / TRIAL_QUARTERS) == 0)
                note_quarter(c);
        }
        bool late = t - c->opened > (c->q->patience > 0 ? c->q->patience : 4 * c->q->seconds + 1);
        if (t >= until && (ret ? has_enough(c, t) : !epoch || late)) {
            c->partial |= !ret && epoch;
            return PST_OK;
        }
        if (stopped(c))
            return cancelled(reterr);
    }
}

void trial_range(const double *value, size_t count, double *ret_mean, double *ret_low, double *ret_high)
{
    static const double t95[] = {0, 12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12};
    double sum = 0, squares = 0, mean;
    for (size_t i = 0; i < count; i++)
        sum += value[i];
    mean = count ? sum / (double)count : 0;
    for (size_t i = 0; i < count; i++)
        squares += (value[i] - mean) * (value[i] - mean);
    double t = count < 2 ? 0 : t95[count - 1 < 16 ? count - 1 : 16];
    double half = count < 2 ? mean / 2 : t * sqrt(squares / (double)(count - 1) / (double)count);
    *ret_mean = mean;
    *ret_low = mean > half ? mean - half : 0;
    *ret_high = mean + half;
}

static double stage_us(const pst_stats *a, const pst_stats *b, size_t i)
{
    double samples = (double)(b->samples - a->samples);
    return samples > 0 ? 1e-3 * (double)(b->stage[i].ns - a->stage[i].ns) / samples : 0;
}

static void add_stages(const struct course *c, struct trial *r, const pst_stats *a, const pst_stats *b, double samples)
{
    r->stages = b->stages;
    for (size_t i = 0; i < b->stages; i++) {
        struct trial_stage *s = &r->stage[i];
        snprintf(s->name, sizeof(s->name), "%s", b->stage[i].name);
        s->us = stage_us(a, b, i);
        double part[TRIAL_QUARTERS], mean;
        size_t n = 0;
        for (size_t q = 1; q < c->quarters; q++)
            part[n++] = stage_us(&c->quarter[q - 1], &c->quarter[q], i);
        trial_range(part, n, &mean, &s->low, &s->high);
        double centre = mean > 0 ? s->us / mean : 1; /* the range is that of the quarters, around the mean of the whole */
        s->low = n > 1 && mean > 0 ? s->low * centre : s->us / 2;
        s->high = n > 1 && mean > 0 ? s->high * centre : s->us * 1.5;
        s->bytes = (double)(b->stage[i].bytes - a->stage[i].bytes) / samples;
    }
}

static void evaluate(const struct course *c, struct trial *r)
{
    const struct moment *a = &c->begin, *b = &c->end;
    const pst_stats *s = &b->stats, *t = &a->stats;
    double samples = (double)(s->samples - t->samples), seconds = b->time - a->time, mean;
    r->samples = s->samples - t->samples;
    r->batches = s->batches - t->batches;
    r->seconds = seconds;
    if (samples < 1 || seconds <= 0)
        return;
    r->rate = samples / seconds;
    trial_range(r->window, r->windows, &mean, &r->low, &r->high);
    if (mean > 0) { /* the range is that of the windows, around the rate of the whole */
        r->low *= r->rate / mean;
        r->high *= r->rate / mean;
    }
    if (r->windows < 2) {
        r->low = r->rate / 2;
        r->high = r->rate * 1.5;
    }
    double cpu = b->cpu - a->cpu, delay = b->delay - a->delay;
    double busy = 1e-9 * (double)(s->worker_busy_ns - t->worker_busy_ns);
    double own = c->q->trainer ? b->step - a->step : 0; /* a step computes in this process, too */
    r->cpu_us = 1e6 * (cpu - own > 0.1 * cpu ? cpu - own : 0.1 * cpu) / samples;
    r->busy_us = 1e6 * busy / samples;
    double blocked = busy - cpu - delay;
    r->blocked_us = blocked > 0.02 * busy ? 1e6 * blocked / samples : 0;
    r->own = busy > 0 ? (cpu + (blocked > 0 ? blocked : 0)) / busy : 1;
    r->own = r->own < 1 ? r->own : 1;
    r->delay = cpu + delay > 0 ? delay / (cpu + delay) : 0;
    r->wait_share = 1e-9 * (double)(s->consumer_wait_ns - t->consumer_wait_ns) / seconds;
    r->worker_wait = s->workers ? 1e-9 * (double)(s->worker_wait_ns - t->worker_wait_ns) / (seconds * s->workers) : 0;
    r->step_seconds = r->batches ? (b->step - a->step) / (double)r->batches : 0;
    r->read_bytes = (double)(s->read_bytes - t->read_bytes) / samples;
    r->out_bytes = (double)(s->bytes - t->bytes) / samples;
    r->skipped = (double)s->skipped / (double)(s->skipped + s->samples);
    r->ready = s->ready_mean;
    r->workers = s->workers;
    r->prefetch = s->prefetch;
    snprintf(r->prefetch_reason, sizeof(r->prefetch_reason), "%s", s->prefetch_reason);
    r->ram_planned = s->ram_planned;
    r->ram_used = s->ram_used;
    add_stages(c, r, t, s, samples);
}

/* Whether the source is read from front to back, one thread at a time. */
static bool is_stream(pst_pipeline *p)
{
    char *json = NULL;
    bool stream = pst_pipeline_describe(p, true, &json, NULL) == PST_OK && strstr(json, "\"indexed\": false");
    pst_free(json);
    return stream;
}

static pst_status measure(struct course *c, struct trial *r, pst_error *reterr)
{
    const struct trial_request *q = c->q;
    c->opened = now();
    pst_status st = pst_pipeline_wait(c->pipeline, 0.05, reterr);
    while (st == PST_TIMEOUT && !stopped(c))
        st = pst_pipeline_wait(c->pipeline, 0.1, reterr);
    if (st == PST_TIMEOUT)
        return cancelled(reterr);
    if (st < 0)
        return st;
    r->first_batch = now() - c->opened;
    r->batch_size = pst_pipeline_batch_size(c->pipeline);
    r->streamed = is_stream(c->pipeline);
    double warmup = r->first_batch > SLOW ? 0 : q->warmup; /* the first batch is enough where each takes long */
    st = take(c, now() + warmup, q->whole_epoch, NULL, &r->epoch_samples, reterr);
    if (st == PST_OK) {
        look(c, &c->begin);
        c->mark = c->begin.time;
        c->mark_samples = c->samples;
        note_quarter(c);
        st = take(c, c->begin.time + q->seconds, false, r, &r->epoch_samples, reterr);
    }
    if (st < 0)
        return st;
    look(c, &c->end);
    if (st == PST_END)
        return pst_fail(reterr, PST_EINVAL, "the pipeline delivers no samples");
    r->partial = c->partial;
    evaluate(c, r);
    return PST_OK;
}

/* A trace is read when no thread works on it any more. */
static pst_status write_trace(pst_pipeline *p, const char *path, pst_error *reterr)
{
    if (pst_pipeline_halt(p, 60) < 0)
        return pst_fail(reterr, PST_EIO, "the pipeline does not stop");
    return pst_pipeline_trace(p, path, true, reterr);
}

pst_status trial_run(const struct trial_request *q, struct trial *ret, pst_error *reterr)
{
    struct course *c = mem_zalloc(sizeof(*c));
    struct trial *r = mem_zalloc(sizeof(*r));
    pst_status st = c && r ? PST_OK : pst_fail(reterr, PST_ENOMEM, "measuring a pipeline: out of memory");
    if (st == PST_OK) {
        struct draft traced = *q->draft; /* shares the stages */
        traced.options.trace = q->trace ? TRACE_EVENTS : traced.options.trace;
        c->q = q;
        st = draft_open(&traced, &c->pipeline, reterr);
    }
    if (st == PST_OK)
        st = measure(c, r, reterr);
    if (st == PST_OK && q->trace)
        st = write_trace(c->pipeline, q->trace, reterr);
    if (st == PST_OK)
        *ret = *r;
    if (c)
        pst_pipeline_destroy(c->pipeline);
    mem_free(c);
    mem_free(r);
    return st;
}
