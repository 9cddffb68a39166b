/* group.h: elements of a slice that are computed together, where an operation has `prepare`: all of them up to that operation, then
 * all of them from it on. The order of the results is that of the elements, as without groups. */
#ifndef FLOW_GROUP_H
#define FLOW_GROUP_H

#include "flow/runner.h"

#define GROUP_MOST 64 /* elements; a batch has one slice per worker then (feed.c), so that groups are large */

struct group_member {
    pst_status status;
    pst_cause cause;
    uint64_t failed; /* as in the runner */
    void *block;     /* its fields before the next operation of the group, until then */
    pst_error error;
};

struct group {
    size_t *steps; /* those whose operations have `prepare` */
    size_t count;  /* 0: the program has none of them, and nothing was allocated */
    struct group_member *members;
    struct arena held; /* the blocks */
};

pst_status group_init(struct group *g, const struct program *p, pst_error *reterr);
void group_finish(struct group *g); /* half-built and zeroed ok */

/* Computes up to `count` elements of the slice from element `i`, the first of them into `to`, and sets as many members. Returns
 * how many; 0: stopped. */
size_t group_run(struct group *g, struct runner *r, size_t i, size_t count, struct item *const *items,
                 const struct runner_target *to, const _Atomic bool *stopped);

#endif
