/* split.h: which batches of the global order each rank gets, such that all ranks take the same number of steps. */
#ifndef FLOW_SPLIT_H
#define FLOW_SPLIT_H

#include <penstock/pipeline.h>

#define SPLIT_ENDLESS UINT64_MAX

struct split {
    unsigned rank, world; /* the rank as it takes turns; with parts for hosts, not the one that the user gave */
    pst_uneven uneven;
};

/* Returns where rank `rank` takes its turn, such that the ranks of one host, which are numbered one after the other, take the turns of one part. */
unsigned split_turn(unsigned rank, unsigned world, unsigned hosts);
/* Returns the number of steps that this rank takes through the `batches` of an epoch when `base` of them have been delivered
 * already, by any number of ranks. Step s of all ranks together covers the batches base + s * world … base + (s + 1) * world
 * - 1. */
uint64_t split_steps(const struct split *s, uint64_t batches, uint64_t base);
/* Returns the batch of this rank's step; `step` < split_steps. */
uint64_t split_batch(const struct split *s, uint64_t batches, uint64_t base, uint64_t step);
/* Returns the value of a cursor's `next` when `step` steps are done. */
uint64_t split_after(const struct split *s, uint64_t batches, uint64_t base, uint64_t step);

#endif
