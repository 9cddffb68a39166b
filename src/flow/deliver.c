/* deliver.c: the consumer's side of an entry: damage is counted in the order of the samples, so that a spent budget fails at
 * the same batch for any number of workers; then the batch, the end of the epoch or the failure is handed out. */
#include "base/memory.h"
#include "flow/pipeline.h"

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

/* Remembers the sample; `*ret_new` is false when it was known. */
static pst_status remember(pst_pipeline *p, uint64_t sample, bool *ret_new, pst_error *reterr)
{
    size_t low = 0, high = p->known_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->known[middle] < sample)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_new = low == p->known_count || p->known[low] != sample;
    if (!*ret_new)
        return PST_OK;
    if (mem_grow((void **)&p->known, &p->known_room, p->known_count + 1, sizeof(*p->known)) < 0)
        return pst_fail(reterr, PST_ENOMEM, "noting a damaged element: out of memory");
    memmove(p->known + low + 1, p->known + low, (p->known_count++ - low) * sizeof(*p->known));
    p->known[low] = sample;
    return PST_OK;
}

static pst_status count_damage(pst_pipeline *p, pst_cause cause, const pst_error *e, pst_error *reterr)
{
    pst_damage d = {.cause = cause, .path = e->path, .record = e->record, .offset = e->offset};
    return pst_damage_log_add(p->damage, &d, e->message, reterr);
}

static pst_status count_notes(pst_pipeline *p, struct entry *e, pst_error *reterr)
{
    pst_status st = PST_OK;
    sort_notes(e);
    for (size_t i = 0; i < e->note_count && st == PST_OK; i++) {
        bool is_new;
        st = remember(p, e->notes[i].sample, &is_new, reterr);
        if (st == PST_OK && is_new) {
            st = count_damage(p, e->notes[i].cause, &e->notes[i].error, reterr);
            if (st < 0 && reterr)
                memcpy(reterr->op, e->notes[i].error.op, sizeof(reterr->op));
        }
    }
    if (!p->plan->program.streamed) /* a stream's reader counts for itself */
        pst_damage_log_seen(p->damage, e->count);
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
    pst_status st = notes ? count_notes(p, e, reterr) : PST_OK;
    if (st < 0)
        return st;
    if (e->status == PST_ECORRUPT && e->cause < PST_CAUSES)
        (void)count_damage(p, e->cause, &e->error, NULL); /* not tolerated, but on record */
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

pst_status pipeline_deliver(pst_pipeline *p, struct entry *e, pst_batch **ret, bool *ret_again, pst_error *reterr)
{
    *ret_again = false;
    if (e->status < 0)
        return fail_entry(p, e, reterr);
    if (e->ends_epoch) {
        pst_status st = pst_damage_log_finish(p->damage, reterr);
        if (st < 0)
            return st;
        p->epoch = e->epoch + 1;
        p->next = 0;
        return PST_END;
    }
    pst_status st = count_notes(p, e, reterr);
    if (st < 0)
        return st;
    pst_batch *b = e->batch;
    e->batch = NULL;
    p->next = e->after;
    count_delivery(&p->delivery, b, e->left_out);
    if (b->size == 0 && p->plan->split.world == 1) { /* nothing left of it; several ranks would fall out of step */
        pst_batch_unref(b);
        *ret_again = true;
        return PST_OK;
    }
    *ret = b;
    return PST_OK;
}
