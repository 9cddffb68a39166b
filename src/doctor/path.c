/* path.c: remedies one after the other: what they bring together.
 *
 * The trial of each remedy says how much of every kind of work it leaves. Together they leave of each kind as little as the
 * best of them, never less, and a further remedy never brings more than it brings alone: what two remedies save twice counts
 * once. Of remedies that exclude each other the first in the ranking is taken. Only options and commands count, not bounds,
 * code or money. */
#include "doctor/doctor.h"

#include <math.h>
#include <string.h>

#define LEAST_GAIN  1.05 /* of a further remedy */
#define MOST_EFFORT 3

static const char *const kinds[WORKS] = {"read",    "parse",   "decode",   "resize", "augment",
                                         "convert", "collate", "function", "python", "other"};

/* What has been done so far. */
struct course {
    double left[WORKS]; /* microseconds of each kind of work per sample */
    struct costs costs;
    double pipe, step; /* samples per second of the pipeline and of the step, each by itself */
    double now;        /* of both */
    unsigned groups;
};

static size_t kind_at(const char *kind)
{
    size_t i = 0;
    while (i + 1 < WORKS && strcmp(kinds[i], kind) != 0)
        i++;
    return i;
}

/* CPU time and waits by kind; what no stage accounts for counts as "other". */
static void work_of(const struct pst_doctor *d, const struct trial *t, double *work)
{
    double rest = t->cpu_us + t->blocked_us;
    memset(work, 0, WORKS * sizeof(*work));
    for (size_t i = 0; i < t->stages; i++) {
        double us = t->stage[i].us * t->own;
        work[kind_at(stage_kind(d, t->stage[i].name))] += us;
        rest -= us;
    }
    work[WORKS - 1] += rest > 0 ? rest : 0;
}

static double sum(const double *work)
{
    double s = 0;
    for (size_t i = 0; i < WORKS; i++)
        s += work[i];
    return s;
}

void path_note(const struct pst_doctor *d, struct remedy *r, const struct trial *before, const struct trial *after)
{
    double was[WORKS], is[WORKS], present[WORKS];
    work_of(d, before, was);
    work_of(d, after, is);
    work_of(d, &d->run, present);
    double scale = sum(was) > 0 ? sum(present) / sum(was) : 1;
    for (size_t i = 0; i < WORKS; i++)
        r->left[i] = was[i] > 0 && present[i] > 0 ? present[i] * is[i] / was[i] : scale * is[i];
    r->left_known = true;
}

static double together(const struct pst_doctor *d, double pipe, double step)
{
    if (!(step > 0) || !isfinite(step))
        return pipe;
    return d->step.shared ? 1 / (1 / pipe + 1 / step) : fmin(pipe, step);
}

/* The costs after the remedies of the course and `r`. */
static void combine(const struct pst_doctor *d, struct course *c, const struct remedy *r)
{
    double present[WORKS];
    work_of(d, &d->run, present);
    for (size_t i = 0; i < WORKS; i++) /* new work adds up, such as parsing that files did not need */
        c->left[i] = i == WORKS - 1             ? (c->groups ? fmax(c->left[i], r->left[i]) : r->left[i]) /* what no stage accounts for: reading a cache, too */
                     : r->left[i] >= present[i] ? c->left[i] + (r->left[i] - present[i]) : fmin(c->left[i], r->left[i]);
    c->costs.cpu_us = d->costs.cpu_us * sum(c->left) / sum(present);
    c->costs.blocked_us = fmin(c->costs.blocked_us, r->costs.blocked_us);
    c->costs.serial_us = fmin(c->costs.serial_us, r->costs.serial_us);
    c->costs.read_bytes = fmin(c->costs.read_bytes, r->costs.read_bytes);
    c->costs.file_per_element = c->costs.file_per_element && !r->packed;
    c->costs.workers = fmax(c->costs.workers, r->costs.workers);
}

/* The step alone, from what it is with the pipeline after the remedy. */
static double step_after(const struct pst_doctor *d, const struct remedy *r)
{
    double rate = together(d, d->pipe_rate, d->step.rate) * r->model_gain;
    return d->step.shared ? 1 / (1 / rate - 1 / d->pipe_rate) : rate;
}

static bool add_pipeline_remedy(const struct pst_doctor *d, struct course *c, const struct remedy *r, bool first)
{
    double before = predict_rate(d, &c->costs), alone = r->rate / d->pipe_rate;
    if (!r->left_known || !(before > 0) || !isfinite(alone))
        return false;
    combine(d, c, r);
    c->pipe *= first ? alone : fmin(predict_rate(d, &c->costs) / before, alone);
    return true;
}

/* Whether `r` can be added and brings something; `c` is then what it leads to. */
static bool add(const struct pst_doctor *d, struct course *c, const struct remedy *r, bool first)
{
    struct course next = *c;
    if (!r->group || c->groups & r->group || !r->available || r->upper || r->effort > MOST_EFFORT || !(r->gain >= LEAST_GAIN))
        return false;
    if (r->model_gain > 0)
        next.step = step_after(d, r);
    else if (!add_pipeline_remedy(d, &next, r, first))
        return false;
    next.now = first ? d->now_rate * r->gain : c->now * together(d, next.pipe, next.step) / together(d, c->pipe, c->step);
    next.groups |= r->group;
    if (!(next.now >= LEAST_GAIN * c->now))
        return false;
    *c = next;
    return true;
}

void doctor_find_path(struct pst_doctor *d)
{
    struct course c = {.costs = d->costs, .pipe = d->pipe_rate, .step = d->step.rate, .now = d->now_rate};
    work_of(d, &d->run, c.left);
    d->path_steps = 0;
    for (size_t i = 0; i < d->remedies && d->path_steps < MOST_PATH; i++)
        if (add(d, &c, &d->remedy[i], d->path_steps == 0))
            d->path[d->path_steps++] = (struct path_step){.remedy = &d->remedy[i], .rate = c.now};
    if (d->path_steps < 2)
        d->path_steps = 0;
}
