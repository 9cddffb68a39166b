/* lane.h: the state of one worker for one program of the tree: its tensors, its workspace, the states of its operations, and
 * the elements of the present slice.
 *
 * The lane of a join has a lane per branch. A slice is resolved from the root to the sources before its elements are computed:
 * every lane then knows the number of each of its elements in its source and the pass. */
#ifndef FLOW_LANE_H
#define FLOW_LANE_H

#include "flow/order.h"
#include "flow/program.h"

struct lane {
    const struct program *program;
    pst_tensor **tensors; /* tensors[i]: the fields after step i - 1; [0] are those of the source */
    pst_tensor *all_tensors;
    uint8_t *workspace;
    void **states;  /* states of the steps */
    size_t started; /* steps whose start was called */
    void *source_state;
    bool source_started;

    /* Elements of the slice, by their place in this lane. */
    uint64_t *index, *pass; /* number in the source, or position in the join; pass over it */
    uint64_t *numbers;      /* of elements (ORDER_NUMBER): number k of element i at [k * capacity + i] */
    uint8_t *kept;          /* set for elements that need not be read; NULL: no program of the tree has a cache */
    uint64_t *ahead;        /* a list for the source; NULL: no cache */
    size_t capacity;

    /* Of a join. */
    struct lane *branches;
    struct order_state *orders; /* one per branch */
    void *memo;
    uint32_t *choice; /* branch of each element; NULL: all of them (together) */
    uint32_t *place;  /* its place in the lane of the branch; the same in all branches where they are together */
    uint64_t *at;
    size_t *filled; /* elements that each branch has */

    uint64_t ran, fetched, fetched_bytes; /* since they were last counted: elements, and those that were not in the cache */
};

/* For slices of up to `capacity` elements. */
pst_status lane_init(struct lane *l, const struct program *p, size_t capacity, bool caches, pst_error *reterr);
void lane_finish(struct lane *l); /* half-built and zeroed ok */

/* Resolves the first `n` elements of a lane whose index and pass are set, and announces them to the sources. */
void lane_slice(struct lane *l, size_t n);
/* Returns the number of element `i` in the whole tree below the lane, and the pass over its source. */
uint64_t lane_sample(const struct lane *l, size_t i);
uint64_t lane_pass(const struct lane *l, size_t i);
/* Returns the key of element `i` in the cache of the lane's program. */
uint64_t lane_key(const struct lane *l, size_t i);

#endif
