/* order.h: the order operations of a chain as functions on indices.
 *
 * Batch k of an epoch is a range of elements that is computed without stepping through the batches before it; every element
 * is given by its number in the source and the number of the pass over the source. */
#ifndef FLOW_ORDER_H
#define FLOW_ORDER_H

#include "base/random.h"
#include "ops/order_step.h"
#include <penstock/base.h>

#define ORDER_ENDLESS UINT64_MAX
#define ORDER_MAX_NUMBERS 4 /* steps of kind ORDER_NUMBER in a chain */
#define ORDER_UNKNOWN (UINT64_MAX - 1) /* length of a stream that has not been read to its end */

/* Steps in the order of the chain. In the chain of a pipeline exactly one is a batch step: the steps after it work on whole
 * batches. A branch has none; its `batches` are elements. */
struct order {
    struct order_step *steps;
    size_t count, capacity;
    size_t batch;      /* index of the batch step; SIZE_MAX: there is none */
    bool streamed;     /* the source is a stream */
    unsigned numbers;  /* steps of kind ORDER_NUMBER */
    uint64_t source;   /* elements of the source; ORDER_UNKNOWN for a stream */
    uint64_t elements; /* input elements of the batch step */
    uint64_t batches;  /* per epoch; ORDER_ENDLESS, ORDER_UNKNOWN */
};

/* `source` is the number of elements of the source; ORDER_UNKNOWN: it is a stream. */
void order_init(struct order *o, uint64_t source);
/* Appends a step and computes its lengths. */
pst_status order_push(struct order *o, const struct order_step *step, pst_error *reterr);
void order_finish(struct order *o);
/* Divides the elements into `parts` parts of neighbours: the shuffle stays within each, and batch k has elements of part
 * k % parts, except for the last batches (fewer than `parts`) where the parts have not the same number. Fails where other steps
 * make that impossible. */
pst_status order_divide(struct order *o, uint64_t parts, pst_error *reterr);
/* The elements of part `h` of a divided order. */
void order_part(const struct order *o, uint64_t h, uint64_t *ret_first, uint64_t *ret_end);
/* Returns how many elements of the source the epochs may deliver, each counted once. */
uint64_t order_reach(const struct order *o);

/* Permutations that one thread uses, kept between calls. */
struct order_memo {
    uint64_t pass, window, part;
    bool has_pass, has_window;
    struct permutation all;    /* permutation of the elements, or of the chunks */
    struct permutation within; /* permutation within a window */
    uint64_t short_slot;       /* position of the chunk that is shorter than the others */
};
/* Where the numbers of elements (ORDER_NUMBER) are stored: number k of element i at [k * stride + i]. NULL `at`: nowhere. */
struct order_numbers {
    uint64_t *at;
    size_t stride;
};
struct order_state {
    struct order_memo *memos;     /* one per step */
    struct order_numbers numbers; /* set by the owner */
};
pst_status order_state_init(struct order_state *s, const struct order *o, pst_error *reterr);
void order_state_finish(struct order_state *s);

/* Position of a batch in the order that the steps before `batch` define. */
struct order_batch {
    uint64_t pass;  /* number of the pass over those steps */
    uint64_t begin; /* first element */
    uint64_t size;
    uint64_t stride; /* from one element to the next */
};
/* Returns batch `k` of an epoch; k < batches. */
struct order_batch order_open(const struct order *o, struct order_state *s, uint64_t epoch, uint64_t k);
/* Stores the `count` elements of the batch from its `first`: their numbers in the source, and the pass that each belongs to. */
void order_elements(const struct order *o, struct order_state *s, const struct order_batch *batch, uint64_t first, size_t count,
                    uint64_t *ret_index, uint64_t *ret_pass);
/* Maps `count` positions and passes after all steps of a branch to numbers in its source and their passes. */
void order_back(const struct order *o, struct order_state *s, size_t count, uint64_t *index, uint64_t *pass);
/* Returns whether the element at a position is the same in every pass. */
bool order_is_fixed(const struct order *o);

#endif
