/* arena_plan.h: where buffers with known lifetimes lie in one block of memory, so that those that never live together share it. */
#ifndef MODEL_ARENA_PLAN_H
#define MODEL_ARENA_PLAN_H

#include <stdbool.h>
#include <stddef.h>

struct arena_item {
    size_t *ret;   /* its offset */
    size_t number; /* of the call that added it */
    size_t bytes, begin, end; /* lives from time `begin` to `end`, both included */
    size_t offset;
};

struct arena_plan { /* zeroed at first */
    struct arena_item *items;
    size_t count, capacity;
};

/* False: out of memory. */
bool arena_plan_add(struct arena_plan *p, size_t *ret_offset, size_t bytes, size_t begin, size_t end);
/* Sets all offsets, multiples of 64, and the size of the block. The largest buffers are placed first, those of
 * one size in the order in which they were added, each as low as it fits. */
bool arena_plan_solve(struct arena_plan *p, size_t *ret_bytes);
void arena_plan_finish(struct arena_plan *p);

#endif
