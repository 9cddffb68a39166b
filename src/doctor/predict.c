/* predict.c: the model of a pipeline. A sample needs CPU time, waits, a turn in what only one thread can do, and bytes from storage;
 * the rate is that of whichever is slowest. The measured rate of the present pipeline calibrates it: what the model leaves out
 * then affects both sides of a comparison alike. */
#include "doctor/doctor.h"

#include <math.h>
#include <string.h>

/* The CPU time of a process on this many workers, in cores. */
static double cores_used(const struct pst_doctor *d, double workers)
{
    double cores = d->limits.cores > 0 ? d->limits.cores : 1;
    double used = workers < cores ? workers : cores;
    double scaling = d->limits.scaling > 0 ? d->limits.scaling : cores;
    /* Cores that share their parts give less than their number. */
    return used <= 1 || cores <= 1 ? used : 1 + (scaling - 1) * (used - 1) / (cores - 1);
}

double predict_storage(const struct pst_doctor *d, const struct costs *c)
{
    const struct limits *l = &d->limits;
    if (d->remote.binds && c->read_bytes > 0)
        return d->remote.present;
    if (!d->cold || c->read_bytes <= 0)
        return INFINITY;
    double random = l->random_cold_deep > l->random_cold ? l->random_cold_deep : l->random_cold;
    double rate = c->random > 0 || c->file_per_element ? random : l->sequential_cold;
    return rate > 0 ? rate : INFINITY;
}

double predict_rate(const struct pst_doctor *d, const struct costs *c)
{
    double workers = c->workers > 0 ? c->workers : 1;
    double cpu = c->cpu_us / cores_used(d, workers);
    double worker = (c->cpu_us + c->blocked_us) / workers; /* a worker that waits computes nothing */
    double t = cpu > worker ? cpu : worker;
    t = c->serial_us > t ? c->serial_us : t;
    double bytes = predict_storage(d, c), storage = isfinite(bytes) ? 1e6 * c->read_bytes / bytes : 0;
    t = storage > t ? storage : t;
    double efficiency = d->efficiency > 0 ? d->efficiency : 1;
    return t > 0 ? efficiency * 1e6 / t : 0;
}

double predict_together(const struct pst_doctor *d, double pipe)
{
    double step = d->step.rate;
    if (!(step > 0) || !isfinite(step))
        return pipe;
    if (d->step.shared) /* both compute on the same cores: their times add up */
        return pipe > 0 ? 1 / (1 / pipe + 1 / step) : 0;
    return pipe < step ? pipe : step;
}

struct costs costs_of(const struct pst_doctor *d, const struct trial *t, const struct draft *r)
{
    struct costs c = {.cpu_us = t->cpu_us, .blocked_us = t->blocked_us, .read_bytes = t->read_bytes, .workers = t->workers,
                      .cores = d->limits.cores, .file_per_element = d->survey.file_per_element};
    c.random = draft_find(r, "shuffle", 0) != DRAFT_NONE;
    if (t->streamed && t->stages > 0) {
        c.serial_us = t->stage[0].us * t->own;
        c.random = 0;
        c.file_per_element = false;
    }
    return c;
}
