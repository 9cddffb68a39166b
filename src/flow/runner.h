/* runner.h: the state of one worker that runs the programs of the tree: a lane for each, and what all of them share: scratch
 * memory, the element's identity, the clock. */
#ifndef FLOW_RUNNER_H
#define FLOW_RUNNER_H

#include "flow/lane.h"
#include "flow/stats.h"
#include "ops/ctx.h"

struct runner {
    const struct program *program; /* of the root */
    unsigned worker;               /* number */
    struct cell *cell;
    pst_ctx ctx;
    struct lane root;

    const void *scratch_block; /* the block that the scratch arena is expected to stay within… */
    size_t scratch_size;       /* …and its size */

    unsigned until_timed, period; /* every period-th element is timed stage by stage */
    bool is_timed;                /* the present element is; never, where runner_begin is not called */
    uint64_t lap_began;             /* in ticks (base/ticks.h) */
    uint64_t timed[PST_MAX_STAGES]; /* in ticks */
    uint64_t untold_ns; /* total time of slices that was not yet divided among the stages (see `timed`) */

    bool offers;             /* the source's elements go into the batch as they are… */
    struct source_room room; /* …and may be read into this memory of it */
};

/* Stores the number of the source's element that is worked on, or that a failure is about: for errors and for statistics. */
static inline void runner_at(struct runner *r, uint64_t number)
{
    atomic_store_explicit(&r->cell->sample, number, memory_order_relaxed);
}

/* Returns the number of the element that the last failure is about. */
static inline uint64_t runner_failed(const struct runner *r)
{
    return cell_get(&r->cell->sample);
}

pst_status runner_init(struct runner *r, const struct program *p, unsigned worker, uint64_t seed, struct cell *cell,
                       pst_error *reterr);
void runner_finish(struct runner *r); /* half-built and zeroed ok */

/* Begins a slice of `count` elements, whose numbers and passes are in `r->root.index` and `r->root.pass` and whose data goes into `memory`: finds their
 * sources and announces what will be read. */
void runner_slice(struct runner *r, size_t count, struct batch_memory *memory);

struct item;

struct runner_target {
    pst_batch *batch;
    size_t slice, at;
};

/* Clears an error before an operation runs, so that a failure without a message is detected. */
static inline void runner_clear_error(pst_error *e)
{
    e->status = PST_OK;
    e->sys_errno = 0;
    e->op[0] = e->path[0] = e->message[0] = '\0';
    e->record = e->offset = PST_NOWHERE;
}

/* Decides whether the next elements are timed. Returns for how many of the next `count` that holds: at least one where elements are counted. */
size_t runner_begin(struct runner *r, size_t count);

/* Processes element `i` of the slice (or `item`, an element of a stream) into its place in the batch. `reterr` is not NULL and
 * clear. On failure it names the operation and the element, `runner_failed` is the element's number, and `*ret_cause` is the cause
 * of damage it would count as; PST_CAUSES: the failure is not caused by the data. */
pst_status runner_run(struct runner *r, size_t i, const struct item *item, const struct runner_target *to, pst_cause *ret_cause,
                      pst_error *reterr);

/* The parts of runner_run, for elements that are computed together (group.c). */
#define RUNNER_FETCH SIZE_MAX
/* Runs the steps `from` to `until`, without the latter; RUNNER_FETCH: gets the element first; `until` after the last step: stores
 * it in its place in the batch. Its fields before `from` are in `r->root.tensors[from]`. */
pst_status runner_part(struct runner *r, size_t i, const struct item *item, size_t from, size_t until,
                       const struct runner_target *to, pst_cause *ret_cause, pst_error *reterr);
/* Hands the element's fields before step `s` to its operation, as number `place` of a group. */
pst_status runner_prepare(struct runner *r, size_t i, const struct item *item, size_t s, size_t place, pst_cause *ret_cause,
                          pst_error *reterr);
/* Releases the scratch memory; returns the final status of an element whose last part returned `st`. */
pst_status runner_end(struct runner *r, size_t i, pst_status st, pst_cause *ret_cause, pst_error *reterr);

/* Divides the time `ns` that `count` elements took among the stages. */
void runner_account(struct runner *r, size_t count, uint64_t ns);

#endif
