/* deliver.c: the consumer's side of an entry: its damage is judged, then the batch, the end of the epoch or the failure is
 * handed out. */
#include "flow/pipeline.h"

static void count_delivery(struct delivery *d, const pst_batch *b, size_t left_out)
{
    cell_add(&d->batches, 1);
    cell_add(&d->samples, b->size);
    cell_add(&d->bytes, b->bytes);
    cell_add(&d->skipped, left_out);
}

/* Several ranks would fall out of step. */
bool pipeline_batch_is_empty(const pst_pipeline *p, const struct entry *e)
{
    return e->status == PST_OK && !e->ends_epoch && e->batch->size == 0 && p->plan->split.world == 1;
}

pst_status pipeline_deliver(pst_pipeline *p, struct entry *e, pst_batch **ret, bool *ret_again, pst_error *reterr)
{
    *ret_again = false;
    pthread_mutex_lock(&p->judging);
    pst_status st = damage_judge(&p->damage, e, reterr);
    if (st >= 0 && e->ends_epoch)
        st = pst_damage_log_finish(p->damage.log, reterr);
    pthread_mutex_unlock(&p->judging);
    if (st < 0)
        return st;
    if (e->ends_epoch) {
        p->epoch = e->epoch + 1;
        p->next = 0;
        return PST_END;
    }
    *ret_again = pipeline_batch_is_empty(p, e);
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
