/* runner.h: the state of one worker that runs the program: its tensors, workspace, scratch memory and the states of the
 * operations. */
#ifndef FLOW_RUNNER_H
#define FLOW_RUNNER_H

#include "flow/program.h"
#include "flow/stats.h"
#include "ops/ctx.h"

struct runner {
    const struct program *program;
    unsigned worker; /* number */
    struct cell *cell;
    pst_ctx ctx;
    pst_tensor **tensors; /* tensors[i]: the fields after step i - 1; [0] are those of the source */
    pst_tensor *all_tensors;
    uint8_t *workspace;
    void **states;  /* states of the steps */
    size_t started; /* steps whose start was called */
    void *source_state;
    bool source_started;

    const void *scratch_block; /* the block that the scratch arena is expected to stay within… */
    size_t scratch_size;       /* …and its size */

    unsigned until_timed, period; /* every period-th element is timed stage by stage */
    uint64_t timed_ns[PST_MAX_STAGES];
    uint64_t fetched, fetched_bytes; /* in the current slice: elements that were not in the cache */
    uint64_t untold_ns;              /* total time of slices that was not yet divided among the stages (see `timed_ns`) */
};

pst_status runner_init(struct runner *r, const struct program *p, unsigned worker, uint64_t seed, struct cell *cell,
                       pst_error *reterr);
void runner_finish(struct runner *r); /* half-built and zeroed ok */

/* Announces elements of the source that will be needed soon. */
void runner_ahead(struct runner *r, uint64_t *index, size_t count);

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

/* Processes one element from the source (or from `item`, an element of a stream) into its place in the batch. `reterr` is
 * not NULL and clear. On failure it names the operation and the element, and `*ret_cause` is the cause of damage it would
 * count as; PST_CAUSES: the failure is not caused by the data. */
pst_status runner_run(struct runner *r, uint64_t index, uint64_t pass, const struct item *item, const struct runner_target *to,
                      pst_cause *ret_cause, pst_error *reterr);
/* Divides the time `ns` that `count` elements took among the stages. */
void runner_account(struct runner *r, size_t count, uint64_t ns);

#endif
