/* remedy_consumer.c: remedies outside of the pipeline's text and data: functions of the program, and the training step as a whole. */
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
    bool reading = !s && d->read_share > 0.5; /* the library that reads the format takes the lock */
    r->flaw = true;
    r->cause = s ? "python-function" : reading ? "slow-format" : "lock-contention";
    snprintf(r->title, sizeof(r->title), "%s",
             s         ? "run the Python function in several processes, each with an interpreter of its own"
             : reading ? "read in several processes: what reads this format allows one call at a time"
                       : "run the operation that takes a lock in several processes, or without the lock");
    snprintf(r->basis, sizeof(r->basis), "CPU time per sample divided among all cores");
    snprintf(r->price, sizeof(r->price), "memory of one process per core; results are copied between processes");
    return PST_OK;
}

/* ---- The step ---- */

static pst_status find_faster_step(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    char rate[32];
    (void)reterr;
    if (!(d->step.rate > 0) || !isfinite(d->step.rate) || d->pipe_rate <= d->step.rate)
        return PST_SKIP;
    r->model_gain = d->pipe_rate / d->step.rate;
    r->upper = true;
    snprintf(r->title, sizeof(r->title), "make the training step faster: data for %s samples/s is there", doctor_figure(rate, sizeof(rate), d->pipe_rate));
    snprintf(r->basis, sizeof(r->basis), "the rate of the pipeline by itself: an upper bound");
    return PST_OK;
}

const struct remedy_class remedy_consumer[] = {
    {"native-op", 4, find_native_op, GROUP_NONE},
    {"processes", 2, find_processes, GROUP_NONE},
    {"faster-step", 4, find_faster_step, GROUP_NONE},
    {0},
};
