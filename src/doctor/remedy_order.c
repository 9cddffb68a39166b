/* remedy_order.c: `reorder`: stages that decide which samples come, and when, before those that compute pixels; in chains and in trees. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"
#include "doctor/tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A stream keeps what it shuffles in memory: encoded, if the shuffle comes first. The work per sample stays the same. Brief runs would mislead:
 * at the end of an epoch a buffer of decoded samples is emptied faster than samples can be decoded. */
static pst_status judge_shuffle(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct facts after;
    pst_error error = {0};
    pst_status st = facts_read(&after, &r->variant, &error);
    if (st == PST_ENOMEM && reterr)
        *reterr = error;
    if (st < 0)
        return st == PST_ENOMEM ? st : PST_SKIP;
    remedy_costs(d, r, &d->costs);
    r->has_variant = true;
    snprintf(r->basis, sizeof(r->basis), "the same work per sample; the buffer is smaller and filled sooner");
    double saved = (double)d->facts.ram_planned - (double)after.ram_planned;
    double epoch = d->epoch_samples > 0 ? d->epoch_samples / d->run.rate : INFINITY;
    r->flaw = (saved > 64e6 && saved > (double)after.ram_planned) || d->run.first_batch > 0.25 * epoch;
    r->cause = "shuffle-after-decode";
    r->least = 0.95;
    snprintf(r->title, sizeof(r->title), "shuffle before the samples are decoded: the buffer then holds encoded samples");
    snprintf(r->price, sizeof(r->price), saved > 0 ? "none; saves %.0f MB of memory" : "none", saved / 1e6);
    return PST_OK;
}

/* Samples that are left out later need not be computed. */
static pst_status judge_choice(struct pst_doctor *d, struct remedy *r, const struct tree_moves *m, pst_error *reterr)
{
    pst_status st = remedy_probe(d, r, reterr);
    if (st != PST_OK)
        return st;
    r->flaw = true;
    r->cause = "late-filter";
    snprintf(r->title, sizeof(r->title), "%s earlier%s: what it leaves out is then not computed", m->first,
             m->hoisted ? ", which the branches leave to the stages after the join" : "");
    snprintf(r->price, sizeof(r->price), "none");
    snprintf(r->risk, sizeof(r->risk), "random operations draw other numbers%s", m->hoisted ? " after the join than in the branches" : "");
    return PST_OK;
}

static bool has_flag(const struct draft_stage *s, unsigned flags)
{
    const pst_op_class *op = s->custom ? NULL : pst_op_find(s->name);
    return op && op->flags & flags;
}

/* Whether a conversion of images to floats comes before an operation that makes them smaller; `*ret_from` and `*ret_to`: where it is, and after what it would
 * be better. */
static bool converts_early(const struct draft *r, size_t *ret_from, size_t *ret_to)
{
    size_t decode = draft_find(r, "decode", 0), from = decode;
    while (from < r->count && strcmp(r->stage[from].name, "normalize") != 0)
        from++;
    if (decode == DRAFT_NONE || from >= r->count)
        return false;
    *ret_from = *ret_to = from;
    for (size_t i = from + 1; i < r->count && r->stage[i].kind == PST_OP_SAMPLE && has_flag(&r->stage[i], PST_OP_CUTS | PST_OP_SIZES); i++)
        *ret_to = i;
    return *ret_to > from;
}

/* Pixels of a byte that are resized before they become floats of four. */
static pst_status find_late_floats(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    size_t from, to;
    if (!converts_early(&d->now, &from, &to))
        return PST_SKIP;
    draft_copy(&r->variant, &d->now);
    draft_insert(&r->variant, to + 1, "%s", d->now.stage[from].text);
    draft_remove(&r->variant, from);
    pst_status st = remedy_probe(d, r, reterr);
    if (st != PST_OK)
        return st;
    if (!(r->warm_gain >= 1.02)) { /* another order may bring more */
        r->probed = (struct tally){0};
        return PST_SKIP;
    }
    r->flaw = true;
    r->cause = "early-floats";
    snprintf(r->title, sizeof(r->title), "\"%.40s\" after \"%.40s\": images become floats when they are small", d->now.stage[from].text, d->now.stage[to].text);
    snprintf(r->price, sizeof(r->price), "pixels are rounded to 8 bits after resizing");
    snprintf(r->risk, sizeof(r->risk), "a border that a crop adds is black then, instead of zero");
    remedy_text(d, r, &r->variant);
    return r->pipeline ? PST_OK : fail_memory(reterr, "describing a remedy");
}

static pst_status find_reorder(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct tree_moves m;
    pst_status st = find_late_floats(d, r, reterr);
    if (st != PST_SKIP)
        return st;
    draft_finish(&r->variant);
    if (d->facts.indexed)
        return PST_SKIP; /* by an index, nothing is computed that is not delivered */
    draft_copy(&r->variant, &d->now);
    tree_reorder(&r->variant, &m);
    if (m.shuffles + m.choices == 0)
        return r->variant.failed ? fail_memory(reterr, "trying a remedy") : PST_SKIP;
    st = m.choices ? judge_choice(d, r, &m, reterr) : judge_shuffle(d, r, reterr);
    if (st != PST_OK)
        return st;
    remedy_text(d, r, &r->variant);
    return r->pipeline ? PST_OK : fail_memory(reterr, "describing a remedy");
}

const struct remedy_class remedy_order[] = {
    {"reorder", 2, find_reorder, GROUP_ORDER},
    {0},
};
