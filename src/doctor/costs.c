/* costs.c: the present pipeline, measured: as it is, with one worker, and cut after each stage.
 *
 * The timers of the stages divide the workers' time. The cuts divide it in another way, by differences, so that costs which no
 * timer sees (memory traffic, cache misses, work that one stage causes in another) appear as well. */
#include "doctor/doctor.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool costs_has_op(const char *name, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = name; *s; s += *s == '+') {
        size_t m = strcspn(s, "+");
        if (m == n && strncmp(s, word, n) == 0)
            return true;
        s += m;
    }
    return false;
}

/* The flags of all operations in the name of a stage, those of random ones apart. */
static uint32_t flags_in(const char *name, uint32_t *ret_random)
{
    const pst_op_class *op;
    uint32_t flags = 0;
    *ret_random = 0;
    for (size_t i = 0; (op = pst_op_at(i)) != NULL; i++)
        if (op->flags && costs_has_op(name, op->name))
            *(op->flags & PST_OP_RANDOM ? ret_random : &flags) |= op->flags;
    return flags;
}

static const struct draft_stage *custom_in(const struct pst_doctor *d, const char *name)
{
    for (size_t i = 0; i < d->now.count; i++)
        if (d->now.stage[i].custom && costs_has_op(name, d->now.stage[i].name))
            return &d->now.stage[i];
    return NULL;
}

const char *stage_kind(const struct pst_doctor *d, const char *name)
{
    uint32_t random, flags = flags_in(name, &random);
    const struct draft_stage *custom = custom_in(d, name);
    if (custom)
        return custom == d->now.stage ? "read" : custom->python ? "python" : "function";
    if (strcmp(name, "read") == 0)
        return "read";
    if (strcmp(name, "batch") == 0)
        return "collate";
    if (flags & PST_OP_PARSES)
        return "parse";
    if (flags & PST_OP_DECODES)
        return "decode";
    if (flags & (PST_OP_CUTS | PST_OP_SIZES))
        return "resize";
    if (random)
        return "augment";
    return flags & PST_OP_CONVERTS ? "convert" : "other";
}

static void add_stage(struct pst_doctor *d, const struct trial_stage *t, double total)
{
    struct stage_cost *s = &d->stage[d->stages++];
    double own = d->run.own;
    *s = (struct stage_cost){.us = t->us * own, .low = t->low * own, .high = t->high * own, .bytes = t->bytes, .alone_us = NAN,
                             .difference_us = NAN};
    snprintf(s->name, sizeof(s->name), "%s", t->name);
    const struct draft_stage *custom = custom_in(d, t->name);
    s->kind = stage_kind(d, t->name);
    s->custom = custom != NULL;
    s->python = custom && custom->python;
    s->share = total > 0 ? t->us / total : 0;
    s->cores = s->us * d->run.rate * 1e-6;
    for (size_t i = 0; i < d->alone.stages; i++)
        if (strcmp(d->alone.stage[i].name, t->name) == 0)
            s->alone_us = d->alone.stage[i].us * d->alone.own;
}

/* ---- Cuts ---- */

static bool in_stage(const struct stage_cost *s, const char *op)
{
    return costs_has_op(s->name, op) || (strcmp(s->kind, "read") == 0 && pst_op_find(op) && pst_op_kind_of(pst_op_find(op)) == PST_OP_SOURCE);
}

static void add_cut(struct pst_doctor *d, const char *name, double us)
{
    struct cut_cost *c = &d->cut[d->cuts];
    double before = d->cuts ? d->cut[d->cuts - 1].us : 0;
    *c = (struct cut_cost){.us = us, .difference_us = us - before};
    snprintf(c->name, sizeof(c->name), "%s", name);
    d->cuts++;
    for (size_t i = 0; i < d->stages; i++)
        if (in_stage(&d->stage[i], name) || (d->cuts == 1 && strcmp(d->stage[i].kind, "read") == 0))
            d->stage[i].difference_us = (isnan(d->stage[i].difference_us) ? 0 : d->stage[i].difference_us) + c->difference_us;
}

/* Runs the pipeline up to each stage that computes, with the same batches and one worker. */
pst_status cuts_measure(struct pst_doctor *d, pst_error *reterr)
{
    size_t batch = draft_find(&d->now, "batch", 0);
    for (size_t i = 0; i < d->now.count && d->cuts + 1 < PST_MAX_STAGES; i++) {
        struct draft r;
        struct trial t;
        if (d->now.stage[i].kind != PST_OP_SOURCE && d->now.stage[i].kind != PST_OP_SAMPLE)
            continue;
        if (!doctor_has_time(d, 1))
            break;
        draft_copy(&r, &d->now);
        draft_truncate(&r, i + 1);
        if (batch != DRAFT_NONE && batch > i)
            draft_insert(&r, r.count, "%s", d->now.stage[batch].text);
        r.options.workers = 1;
        doctor_shorten(d, &r, doctor_span(d, 0.12, 0.3));
        pst_error error = {0};
        pst_status st = doctor_trial(d, &r, doctor_span(d, 0.12, 0.3), false, &t, &error);
        draft_finish(&r);
        if (st == PST_ECANCELLED || st == PST_ENOMEM) {
            if (reterr)
                *reterr = error;
            return st;
        }
        if (st == PST_OK) /* a stage that cannot be the last one has no cut */
            add_cut(d, d->now.stage[i].name, t.cpu_us + t.blocked_us);
    }
    return PST_OK;
}

/* ---- The whole ---- */

static bool reads_most(const struct pst_doctor *d)
{
    for (size_t i = 0; i < d->stages; i++)
        if (strcmp(d->stage[i].name, d->verdict_stage) == 0)
            return strcmp(d->stage[i].kind, "read") == 0;
    return false;
}

/* Workers that wait for each other: with one worker there is no such wait. Reads wait for storage, which is another matter. */
static void find_contention(struct pst_doctor *d)
{
    const struct trial *w = &d->run, *one = &d->alone;
    if (w->workers < 2 || one->rate <= 0 || w->streamed)
        return;
    double extra = w->blocked_us - one->blocked_us;
    /* In a queue before a lock, each waits for about all others; that is so on a busy machine, too, where rates say little. */
    bool queue = extra > 0.5 * (w->workers - 1) * one->cpu_us && !reads_most(d);
    bool idle = w->cpu_us * w->rate * 1e-6 < 0.75 * (w->workers < d->limits.cores ? w->workers : d->limits.cores);
    if (queue || (extra > 0.25 * w->busy_us && extra > w->blocked_us / 2 && idle && w->rate < 1.35 * one->rate)) {
        d->costs.serial_us = one->cpu_us;
        d->costs.blocked_us = one->blocked_us;
        d->contended = true;
    }
}

static void choose_stage(struct pst_doctor *d)
{
    const struct stage_cost *most = NULL;
    for (size_t i = 0; i < d->stages; i++)
        if (!most || d->stage[i].us > most->us)
            most = &d->stage[i];
    snprintf(d->verdict_stage, sizeof(d->verdict_stage), "%s", most ? most->name : "");
}

pst_status costs_measure(struct pst_doctor *d, pst_error *reterr)
{
    double seconds = doctor_span(d, 1.1, 4);
    pst_status st = doctor_tick(d, "running the pipeline", reterr);
    if (st == PST_OK)
        st = doctor_trial(d, &d->now, seconds, false, &d->run, reterr);
    if (st == PST_OK)
        st = doctor_tick(d, "measuring the stages", reterr);
    if (st == PST_OK) {
        struct draft one;
        draft_copy(&one, &d->now);
        one.options.workers = 1;
        doctor_shorten(d, &one, doctor_span(d, 0.4, 1.5));
        st = doctor_trial(d, &one, doctor_span(d, 0.4, 1.5), false, &d->alone, reterr);
        draft_finish(&one);
    }
    if (st < 0)
        return st;
    double total = 0;
    for (size_t i = 0; i < d->run.stages; i++)
        total += d->run.stage[i].us;
    for (size_t i = 0; i < d->run.stages; i++)
        add_stage(d, &d->run.stage[i], total);
    choose_stage(d);
    d->costs = costs_of(d, &d->run, &d->now);
    find_contention(d);
    d->efficiency = 1;
    bool cold = d->cold;
    d->cold = false; /* the run had its data in memory */
    double model = predict_rate(d, &d->costs);
    d->cold = cold;
    d->efficiency = model > 0 ? d->run.rate / model : 1;
    d->pipe_rate = predict_rate(d, &d->costs);
    return PST_OK;
}
