/* worker.h: the group of workers ("crew") that fills the ring. */
#ifndef FLOW_WORKER_H
#define FLOW_WORKER_H

#include "flow/feed.h"
#include "flow/plan.h"
#include "flow/ring.h"
#include "flow/trace.h"

struct crew;

struct crew_order {
    struct ring *ring;
    const struct pipeline_plan *plan;
    struct batch_pool *pool;
    struct cell *cells; /* one per thread of the plan */
    struct flow_trace *trace; /* NULL: none */
    uint64_t seed;
    bool once;            /* only the epoch where it starts */
    bool tolerant;        /* damage is recorded and is not an error */
    uint64_t epoch, next; /* where to start */
    unsigned sharing;     /* number of workers that share a batch */
};

/* Starts the plan's threads on the ring, which must have been reset. Borrows everything. */
pst_status crew_start(struct crew **ret, const struct crew_order *order, pst_error *reterr);
/* Waits for the workers of a ring that was stopped. Returns whether all of them have ended in time. */
bool crew_wait(struct crew *c, uint32_t milliseconds);
/* Stops the ring, joins, and empties the ring. NULL ok; returns NULL. */
struct crew *crew_stop(struct crew *c);
void crew_share(struct crew *c, unsigned workers); /* sets how many workers share a batch from now on */
uint64_t crew_stream_bytes(const struct crew *c);  /* bytes in shuffle buffers */

#endif
