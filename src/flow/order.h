/* order.h: the order operations of a chain as functions on indices.
 *
 * Without stepping through what lies before it, batch k of an epoch is a range of elements, and every element is a number of
 * the source and of the pass over it. */
#ifndef FLOW_ORDER_H
#define FLOW_ORDER_H

#include "base/random.h"
#include "ops/order_step.h"
#include <penstock/base.h>

#define ORDER_ENDLESS UINT64_MAX
#define ORDER_UNKNOWN (UINT64_MAX - 1) /* of a stream that has not been read to its end */

/* Steps in the order of the chain. Exactly one is a batch: those behind it work on whole batches. */
struct order {
    struct order_step *steps;
    size_t count, capacity;
    size_t batch;      /* which step */
    uint64_t source;   /* elements of the source; ORDER_UNKNOWN for a stream */
    uint64_t elements; /* that the batch step takes in */
    uint64_t batches;  /* an epoch; ORDER_ENDLESS, ORDER_UNKNOWN */
};

void order_init(struct order *o, uint64_t source);
/* Appends a step, its lengths computed. */
pst_status order_push(struct order *o, const struct order_step *step, pst_error *reterr);
void order_finish(struct order *o);
/* How many elements of the source any epoch may bring, each counted once. */
uint64_t order_reach(const struct order *o);

/* What one thread remembers of the permutations it uses. */
struct order_memo {
    uint64_t pass, window;
    bool has_pass, has_window;
    struct permutation all;    /* of the elements, or of the chunks */
    struct permutation within; /* of a window */
    uint64_t short_slot;       /* where the chunk that is shorter than the others comes */
};
struct order_state {
    struct order_memo *memos; /* one a step */
};
pst_status order_state_init(struct order_state *s, const struct order *o, pst_error *reterr);
void order_state_finish(struct order_state *s);

/* Where a batch lies in the order that the steps in front of `batch` make. */
struct order_batch {
    uint64_t pass;  /* over those steps */
    uint64_t begin; /* element */
    uint64_t size;
};
/* Batch `k` of an epoch; k < batches. */
struct order_batch order_open(const struct order *o, struct order_state *s, uint64_t epoch, uint64_t k);
/* The `count` elements of the batch from its `first`: numbers of the source, and the pass over it that each belongs to. */
void order_elements(const struct order *o, struct order_state *s, const struct order_batch *batch, uint64_t first, size_t count,
                    uint64_t *ret_index, uint64_t *ret_pass);

#endif
