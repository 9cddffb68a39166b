/* deliver.c: the consumer's side of an entry: damage is counted in the order of the samples, so that a spent budget fails at
 * the same batch for any number of workers; then the batch, the end of the epoch or the failure is handed out. */
#include "base/hash.h"
#include "flow/pipeline.h"
#include "record/damage.h"

#include <stdlib.h>
#include <string.h>

static int compare_notes(const void *a, const void *b)
{
    const struct damage_note *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void sort_notes(struct entry *e)
{
    if (e->note_count > 1)
        qsort(e->notes, e->note_count, sizeof(*e->notes), compare_notes);
}

/* Counts damage that is not known yet by its number. A spent budget stays spent: also for one who seeks and meets it again. */
static pst_status count_damage(pst_pipeline *p, uint64_t number, const pst_damage *d, const char *op, const char *why,
                               pst_error *reterr)
{
    bool is_new;
    pst_status st = number_set_add(&p->known, number, &is_new);
    if (st < 0)
        return pst_fail(reterr, st, "noting damage: out of memory");
    if (is_new)
        st = pst_damage_log_add(p->damage, d, why, reterr);
    else if (damage_spent(p->damage))
        st = pst_fail_at(reterr, PST_ECORRUPT, d->path, d->record, d->offset, "the budget for damage is spent: %s", why);
    if (st < 0 && reterr)
        program_fit_name(reterr->op, sizeof(reterr->op), op);
    return st;
}

/* Damage of a stream's own, by its place: it has no number. Numbers of samples do not reach so high. */
static uint64_t place_number(const pst_damage *d)
{
    uint64_t place[] = {d->record, d->offset};
    return hash_bytes(d->path, strlen(d->path), hash_bytes(place, sizeof(place), 0)) | UINT64_C(1) << 63;
}

/* What the stream met on the way to this batch. */
static pst_status count_met(pst_pipeline *p, const struct entry *e, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (e->met > p->met) {
        pst_damage_log_seen(p->damage, e->met - p->met);
        p->met = e->met;
    }
    for (size_t i = 0; i < e->damage_count && st == PST_OK; i++) {
        const pst_damage *d = &e->damage[i];
        if (p->options.bad.skip)
            st = count_damage(p, place_number(d), d, p->plan->source_class->op.name, "`penstock inspect --verify` lists it",
                              reterr);
        else /* the entry has failed by it, and says more */
            (void)pst_damage_log_add(p->damage, d, "", NULL);
    }
    return st;
}

static pst_status count_notes(pst_pipeline *p, struct entry *e, pst_error *reterr)
{
    pst_status st = PST_OK;
    sort_notes(e);
    for (size_t i = 0; i < e->note_count && st == PST_OK; i++) {
        const struct damage_note *n = &e->notes[i];
        pst_damage d = {.cause = n->cause, .path = n->error.path, .record = n->error.record, .offset = n->error.offset};
        st = count_damage(p, n->sample, &d, n->error.op, n->error.message, reterr);
    }
    return st;
}

/* The budget may be spent by an element before the one that failed. */
static pst_status fail_entry(pst_pipeline *p, struct entry *e, pst_error *reterr)
{
    size_t notes = 0;
    sort_notes(e);
    while (notes < e->note_count && e->notes[notes].at < e->failed_at)
        notes++;
    e->note_count = notes;
    pst_status st = count_notes(p, e, reterr);
    if (st < 0)
        return st;
    if (e->cause < PST_CAUSES) { /* not tolerated, but on record */
        pst_damage d = {.cause = e->cause, .path = e->error.path, .record = e->error.record, .offset = e->error.offset};
        (void)pst_damage_log_add(p->damage, &d, "", NULL);
    }
    if (reterr)
        *reterr = e->error;
    return e->status;
}

static void count_delivery(struct delivery *d, const pst_batch *b, size_t left_out)
{
    cell_add(&d->batches, 1);
    cell_add(&d->samples, b->size);
    cell_add(&d->bytes, b->bytes);
    cell_add(&d->skipped, left_out);
}

/* Several ranks would fall out of step. */
bool pipeline_passes_over(const pst_pipeline *p, const struct entry *e)
{
    return e->status == PST_OK && !e->ends_epoch && e->batch->size == 0 && p->plan->split.world == 1;
}

pst_status pipeline_deliver(pst_pipeline *p, struct entry *e, pst_batch **ret, bool *ret_again, pst_error *reterr)
{
    *ret_again = false;
    pst_status st = count_met(p, e, reterr);
    if (st < 0)
        return st;
    if (e->status < 0)
        return fail_entry(p, e, reterr);
    if (e->ends_epoch) {
        st = pst_damage_log_finish(p->damage, reterr);
        if (st < 0)
            return st;
        p->epoch = e->epoch + 1;
        p->next = 0;
        return PST_END;
    }
    st = count_notes(p, e, reterr);
    if (st < 0)
        return st;
    *ret_again = pipeline_passes_over(p, e);
    pst_batch *b = e->batch;
    e->batch = NULL;
    p->next = e->after;
    count_delivery(&p->delivery, b, e->left_out);
    if (*ret_again)
        pst_batch_unref(b);
    else
        *ret = b;
    return PST_OK;
}
