/* feed.h: which batch comes next on this rank: opens the ring's entries one after the other, epoch after epoch. */
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
    struct order_state state;      /* of an index */
    struct element_stream *stream; /* of a stream; NULL: there is an index */
    uint64_t epoch, base;          /* base: batches of this epoch that others or we had delivered before the start */
    uint64_t step;                 /* next one, counted from `base` */
    bool begun, ended;             /* a stream: the epoch is open; its last batch has been pulled */
    _Atomic unsigned workers;      /* that share a batch */
    _Atomic uint64_t element_ns;   /* measured; 0: not yet */
};

/* Starts in front of batch `next` of the epoch. The feed is opened by one worker at a time. */
pst_status feed_init(struct feed *f, const struct order *o, const struct program *p, const struct split *split,
                     struct batch_pool *pool, uint64_t seed, uint64_t epoch, uint64_t next, const _Atomic bool *stopped,
                     pst_error *reterr);
void feed_finish(struct feed *f); /* accepts half-built and zeroed ones */

/* Fills the entry; see ring_open_fn. */
void feed_open(struct feed *f, struct entry *e);
/* Gives back what an entry holds besides its batch. From any thread. */
void feed_release(struct feed *f, struct entry *e);
/* Steps of this rank in an epoch that begins at `base`; ORDER_ENDLESS, ORDER_UNKNOWN. */
uint64_t feed_steps(const struct order *o, const struct split *split, uint64_t base);

#endif
