/* remedy_consumer.c: remedies outside of the pipeline's text and data: functions of the program, storage, the training step,
 * more machines; and those that need operations which do not exist yet. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct stage_cost *python_stage(const struct pst_doctor *d)
{
    double total = 0;
    const struct stage_cost *most = NULL;
    for (size_t i = 0; i < d->stages; i++) {
        total += d->stage[i].us;
        if (d->stage[i].python && (!most || d->stage[i].us > most->us))
            most = &d->stage[i];
    }
    return most && most->us > 0.3 * total ? most : NULL;
}

/* ---- Functions ---- */

static pst_status find_native_op(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    const struct stage_cost *s = python_stage(d);
    (void)reterr;
    if (!s)
        return PST_SKIP;
    struct costs c = d->costs;
    double all = c.cpu_us + c.blocked_us, share = s->us / (all > s->us ? all : s->us), rest = 1 - (share < 0.98 ? share : 0.98);
    c.cpu_us *= rest;
    c.blocked_us *= rest;
    c.serial_us = d->contended ? 0 : c.serial_us;
    remedy_costs(d, r, &c);
    r->upper = true;
    bool parallel = !d->contended && d->costs.blocked_us < 0.5 * s->us && d->run.workers > 1;
    r->flaw = !parallel; /* a function that computes in parallel is heavy, not held back by Python */
    r->cause = "python-function";
    snprintf(r->title, sizeof(r->title),
             "replace the Python function \"%.40s\" by built-in operations or a custom operation in C", s->name);
    snprintf(r->basis, sizeof(r->basis), "the costs without the function: an upper bound");
    snprintf(r->risk, sizeof(r->risk), "the results of the function must be matched");
    return PST_OK;
}

/* One interpreter per process: no common lock. */
static pst_status find_processes(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    const struct stage_cost *s = python_stage(d);
    (void)reterr;
    if ((!s && !d->contended) || d->limits.cores < 2)
        return PST_SKIP;
    if (s && !d->contended && d->run.workers > 1)
        return PST_SKIP; /* its workers run in parallel already */
    struct costs c = d->costs;
    c.serial_us = 0;
    c.workers = d->limits.cores;
    remedy_costs(d, r, &c);
    r->flaw = true;
    r->cause = s ? "python-function" : "lock-contention";
    snprintf(r->title, sizeof(r->title),
             s ? "run the Python function in several processes, each with an interpreter of its own"
               : "run the operation that takes a lock in several processes, or without the lock");
    snprintf(r->basis, sizeof(r->basis), "CPU time per sample divided among all cores");
    snprintf(r->price, sizeof(r->price), "memory of one process per core; results are copied between processes");
    return PST_OK;
}

/* ---- Storage ---- */

static pst_status find_faster_storage(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    (void)reterr;
    if (d->read_blocked < 0.3 && !d->cold_binds)
        return PST_SKIP;
    struct costs c = d->costs;
    bool cold = d->cold;
    c.blocked_us = 0;
    if (d->run.streamed && d->read_blocked > 0.3)
        c.serial_us *= 1 - d->read_blocked;
    d->cold = false; /* as if reading cost nothing */
    remedy_costs(d, r, &c);
    d->cold = cold;
    r->warm_gain = r->rate / d->pipe_rate;
    r->upper = true;
    r->flaw = true;
    r->cause = d->cold_binds ? "page-cache" : "slow-storage";
    double need = r->rate * d->costs.read_bytes;
    snprintf(r->title, sizeof(r->title), "put the data on storage that delivers %.3g MB/s, such as a local NVMe drive",
             need / 1e6);
    snprintf(r->basis, sizeof(r->basis), "the costs without waits for storage: an upper bound");
    snprintf(r->price, sizeof(r->price), "faster storage, and the time to copy the data");
    return PST_OK;
}

/* ---- The step ---- */

static pst_status find_faster_step(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    (void)reterr;
    if (!(d->step.rate > 0) || !isfinite(d->step.rate) || d->pipe_rate <= d->step.rate)
        return PST_SKIP;
    r->model_gain = d->pipe_rate / d->step.rate;
    r->upper = true;
    snprintf(r->title, sizeof(r->title), "make the training step faster: data for %.3g samples/s is there", d->pipe_rate);
    snprintf(r->basis, sizeof(r->basis), "the rate of the pipeline by itself: an upper bound");
    return PST_OK;
}

/* Convolutions from the second on, as depthwise and pointwise ones. mem_free it; NULL: there are none. */
static char *separable(const char *model)
{
    struct text t = {0};
    size_t convolutions = 0, changed = 0;
    for (const char *s = model; *s;) {
        size_t n = strcspn(s, "|"), skip = strspn(s, " \t\n(");
        bool convolution = strncmp(s + skip, "conv ", 5) == 0 && strcmp(s + skip, "conv ") != 0;
        if (convolution && convolutions++ > 0) {
            text_add_n(&t, s, skip);
            text_add(&t, "sep");
            text_add_n(&t, s + skip, n - skip);
            changed++;
        } else {
            text_add_n(&t, s, n);
        }
        s += n;
        if (*s == '|')
            text_add_n(&t, s++, 1);
    }
    if (t.failed || !changed)
        text_finish(&t);
    return t.data;
}

static pst_status find_separable(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    char *text = d->step.model ? separable(d->step.model) : NULL;
    double ms = NAN;
    if (!text)
        return PST_SKIP;
    pst_status st = doctor_step_time(d, text, d->options.quick ? 0.3 : 1, &ms, reterr);
    if (st == PST_OK && ms > 0) {
        double before = isfinite(d->step.together) ? d->step.together : predict_together(d, d->pipe_rate),
               step = 1e3 * (double)d->facts.batch / ms;
        r->model_gain = before > 0 ? 1 / (1 / d->pipe_rate + 1 / step) / before : 0;
        snprintf(r->title, sizeof(r->title), "use separable convolutions: a step of %.3g ms instead of %.3g", ms, d->step.ms);
        snprintf(r->basis, sizeof(r->basis), "measured steps of the changed model");
        snprintf(r->risk, sizeof(r->risk), "fewer parameters: accuracy may differ");
        r->command = mem_format("--model \"%s\"", text);
        st = r->command ? PST_OK : fail_memory(reterr, "describing a remedy");
    } else if (st < 0 && st != PST_ENOMEM && st != PST_ECANCELLED) {
        st = PST_SKIP;
    }
    mem_free(text);
    return st;
}

static pst_status find_smaller_model(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    (void)reterr;
    if (!d->step.model)
        return PST_SKIP;
    snprintf(r->title, sizeof(r->title),
             "train a smaller model: fewer channels or layers; `penstock doctor --model` measures its step");
    return PST_OK;
}

/* ---- Not there yet ---- */

static pst_status unavailable(struct remedy *r, const char *title)
{
    r->available = false;
    snprintf(r->title, sizeof(r->title), "%s", title);
    return PST_OK;
}

static pst_status find_more_machines(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    (void)d;
    (void)reterr;
    return unavailable(r, "prepare the data on several machines");
}

static pst_status find_mixed_precision(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    (void)reterr;
    return d->step.model ? unavailable(r, "compute the step in float16 or bfloat16") : PST_SKIP;
}

static pst_status find_compress(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    (void)d;
    (void)reterr;
    return unavailable(r, "prune, quantize or distil the model");
}

const struct remedy_class remedy_consumer[] = {
    {"native-op", 4, find_native_op},
    {"processes", 2, find_processes},
    {"faster-storage", 5, find_faster_storage},
    {"faster-step", 4, find_faster_step},
    {"separable-convolutions", 3, find_separable},
    {"smaller-model", 4, find_smaller_model},
    {"mixed-precision", 2, find_mixed_precision},
    {"more-machines", 5, find_more_machines},
    {"compress", 4, find_compress},
    {0},
};
