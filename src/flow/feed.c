/* feed.c: from the order and the ranks to the next batch.
 *
 * With an index a batch is a few numbers. A stream is pulled here: every rank reads all of it, keeps its own batch of each
 * step and drops the others. The end of an epoch is an entry like any other, so that workers fill batches of the next epoch
 * while the consumer still processes the last ones of this epoch. */
#include "flow/feed.h"

#include "base/error.h"
#include "base/memory.h"

#define SLICE_NS 100000u /* a slice should take about this long: below, taking tickets would show */

pst_status feed_init(struct feed *f, const struct order *o, const struct program *p, const struct split *split,
                     struct batch_pool *pool, uint64_t seed, uint64_t epoch, uint64_t next, const _Atomic bool *stopped,
                     pst_error *reterr)
{
    *f = (struct feed){
        .order = o, .program = p, .split = *split, .pool = pool, .epoch = epoch, .base = next, .until = UINT64_MAX, .workers = 1};
    return p->streamed ? element_stream_create(&f->stream, p, o, seed, stopped, reterr)
                       : order_state_init(&f->state, o, reterr);
}

void feed_finish(struct feed *f)
{
    order_state_finish(&f->state);
    f->stream = element_stream_destroy(f->stream);
}

uint64_t feed_steps(const struct order *o, const struct split *split, uint64_t base)
{
    return o->batches == ORDER_UNKNOWN ? ORDER_UNKNOWN : split_steps(split, o->batches, base);
}

static void next_epoch(struct feed *f, struct entry *e)
{
    e->ends_epoch = true;
    e->after = 0;
    f->epoch++;
    f->base = f->step = 0;
    f->begun = f->ended = false;
}

static void fail_entry(struct entry *e, pst_status st)
{
    e->status = st;
    e->error.status = st;
    e->failed_at = 0;
}

/* Divides the batch so that every worker has a part, but none of them less than is worth a ticket. */
static void cut_slices(struct feed *f, struct entry *e)
{
    uint64_t element_ns = atomic_load_explicit(&f->element_ns, memory_order_relaxed);
    unsigned workers = atomic_load_explicit(&f->workers, memory_order_relaxed);
    unsigned per_worker = program_grouped(f->program, 0, NULL) > 0 ? 1 : 2; /* one large group (group.h), or a better balance */
    size_t parts = workers > 1 ? per_worker * workers : 1;
    size_t slice = e->count / parts + (e->count % parts > 0), least = e->count / BATCH_MAX_SLICES + 1;
    if (element_ns && slice < SLICE_NS / element_ns)
        slice = SLICE_NS / element_ns;
    if (slice < least)
        slice = least;
    e->slice = slice < e->count ? slice : e->count;
    e->slices = (e->count + e->slice - 1) / e->slice;
}

static void open_indexed(struct feed *f, struct entry *e)
{
    if (f->step == split_steps(&f->split, f->order->batches, f->base)) {
        next_epoch(f, e);
        return;
    }
    uint64_t k = split_batch(&f->split, f->order->batches, f->base, f->step++);
    e->where = order_open(f->order, &f->state, f->epoch, k);
    e->count = (size_t)e->where.size;
    e->after = split_after(&f->split, f->order->batches, f->base, f->step);
}

/* Lets `count` batches go. OK, END or < 0. */
static pst_status pass_over(struct feed *f, uint64_t count, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (uint64_t i = 0; i < count && st == PST_OK; i++) {
        struct item *items = NULL;
        st = element_stream_next(f->stream, &items, reterr);
        element_stream_release(f->stream, items);
    }
    return st;
}

/* The stream is at its end, `total` batches long, in the middle of a step, before this rank had a batch: it gets one of the
 * first ones again. */
static pst_status pad(struct feed *f, uint64_t wanted, uint64_t total, struct item **ret, pst_error *reterr)
{
    element_stream_begin(f->stream, f->epoch);
    pst_status st = pass_over(f, (wanted - total) % total, reterr);
    return st == PST_OK ? element_stream_next(f->stream, ret, reterr) : st;
}

/* One step of all ranks: `*ret` is the batch of this one, or NULL when it has none (PST_END). */
static pst_status pull_step(struct feed *f, struct item **ret, uint64_t *ret_after, pst_error *reterr)
{
    uint64_t first = f->base + f->step * f->split.world;
    struct item *mine = NULL;
    pst_status st = PST_OK;
    unsigned got = 0;
    while (got < f->split.world) {
        struct item *items = NULL;
        st = element_stream_next(f->stream, &items, reterr);
        if (st != PST_OK)
            break;
        if (got++ == f->split.rank)
            mine = items;
        else
            element_stream_release(f->stream, items);
    }
    f->ended = st == PST_END;
    *ret_after = first + got;
    if (f->ended && got > 0 && f->split.uneven == PST_UNEVEN_PAD && !mine)
        st = pad(f, first + f->split.rank, first + got, &mine, reterr);
    if (st < 0 || (f->ended && f->split.uneven == PST_UNEVEN_DROP)) {
        element_stream_release(f->stream, mine);
        mine = NULL;
    }
    f->step++;
    *ret = mine;
    return st < 0 ? st : mine ? PST_OK : PST_END;
}

static pst_status hold_items(struct feed *f, struct entry *e, struct item *items, pst_error *reterr)
{
    if (!e->items)
        e->items = mem_array(f->program->layout.capacity, sizeof(struct item *));
    if (!e->items) {
        element_stream_release(f->stream, items);
        return fail_memory(reterr, "batch");
    }
    for (; items; items = items->next)
        e->items[e->count++] = items;
    e->held = e->count;
    return PST_OK;
}

static pst_status open_streamed(struct feed *f, struct entry *e)
{
    pst_status st = PST_OK;
    if (!f->begun) {
        element_stream_begin(f->stream, f->epoch);
        st = pass_over(f, f->base, &e->error);
        f->begun = true;
        f->ended = st == PST_END;
    }
    struct item *items = NULL;
    if (st == PST_OK && !f->ended)
        st = pull_step(f, &items, &e->after, &e->error);
    if (st < 0)
        return st;
    if (items)
        return hold_items(f, e, items, &e->error);
    next_epoch(f, e);
    return PST_OK;
}

void feed_open(struct feed *f, struct entry *e)
{
    pst_status st = PST_OK;
    e->epoch = f->epoch;
    if (f->epoch >= f->until) {
        next_epoch(f, e);
    } else if (f->stream) {
        st = open_streamed(f, e);
        e->met = element_stream_met(f->stream);
        damage_intake_hand_over(f->program->intake, e); /* what was found meanwhile */
    } else {
        open_indexed(f, e);
    }
    if (st == PST_OK && e->count > 0)
        st = batch_pool_take(f->pool, &e->batch, &e->error);
    if (st < 0)
        fail_entry(e, st);
    else if (e->count > 0)
        cut_slices(f, e);
}

void feed_release(struct feed *f, struct entry *e)
{
    if (e->held == 0)
        return;
    for (size_t i = 1; i < e->held; i++)
        e->items[i - 1]->next = e->items[i];
    element_stream_release(f->stream, e->items[0]);
    e->held = 0;
}
