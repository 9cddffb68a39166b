/* feed.h: determines the next batch of this rank: opens the ring's entries one after the other, epoch after epoch. */
#ifndef FLOW_FEED_H
#define FLOW_FEED_H

#include "flow/ring.h"
#include "flow/split.h"
#include "flow/stream_filters.h"

struct feed {
    const struct order *order;
    const struct program *program;
    struct split split;
    struct batch_pool *pool;
    struct order_state state;      /* state for a source with an index */
    struct element_stream *stream; /* for a stream; NULL: the source has an index */
    uint64_t epoch, base;          /* base: batches of this epoch that any rank had delivered before the start */
    uint64_t step;                 /* next one, counted from `base` */
    uint64_t until;                /* epochs from this one on are empty: nothing is read for them; UINT64_MAX: none is */
    bool begun, ended;             /* a stream: the epoch is open; its last batch has been pulled */
    _Atomic unsigned workers;      /* number of workers that share a batch */
    _Atomic uint64_t element_ns;   /* measured; 0: not yet */
};

/* Starts before batch `next` of the epoch. One worker at a time opens entries. */
pst_status feed_init(struct feed *f, const struct order *o, const struct program *p, const struct split *split,
                     struct batch_pool *pool, uint64_t seed, uint64_t epoch, uint64_t next, const _Atomic bool *stopped,
                     pst_error *reterr);
void feed_finish(struct feed *f); /* half-built and zeroed ok */

/* Fills the entry; see ring_open_fn. */
void feed_open(struct feed *f, struct entry *e);
/* Releases everything that an entry holds besides its batch. Any thread may call it. */
void feed_release(struct feed *f, struct entry *e);
/* Returns the number of steps of this rank in an epoch that begins at `base`, or ORDER_ENDLESS or ORDER_UNKNOWN. */
uint64_t feed_steps(const struct order *o, const struct split *split, uint64_t base);

#endif
