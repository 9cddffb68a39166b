/* tune_workers.h: chooses the number of workers and of prefetched batches, and records why. Pure arithmetic on measurements. */
#ifndef FLOW_TUNE_WORKERS_H
#define FLOW_TUNE_WORKERS_H

#include "flow/plan.h"

#define TUNE_MAX_DEPTH   64
#define TUNE_INTERVAL_NS 100000000u /* between two updates */

/* Totals since the start. */
struct tune_sample {
    uint64_t now_ns;
    uint64_t consumer_wait_ns, worker_wait_ns, worker_busy_ns;
    uint64_t probed_ns, blocked_ns; /* of some slices: total time, and time blocked in reads */
    uint64_t batch_bytes;           /* measured memory of one batch */
};

struct tuner {
    unsigned cores;
    unsigned workers, most_workers;
    size_t depth, most_depth;
    bool workers_given, depth_given;
    uint64_t ram; /* available for batches */
    char workers_reason[160], depth_reason[160];
    struct tune_sample last;
};

void tune_init(struct tuner *t, const struct pipeline_plan *plan, const pst_pipeline_options *options, unsigned cores);
/* Evaluates the time since the last update, TUNE_INTERVAL_NS ago or more; true: workers or depth have changed. */
bool tune_update(struct tuner *t, const struct tune_sample *now);

/* Returns the planned memory per worker. */
uint64_t tune_worker_bytes(const struct pipeline_plan *plan);
/* Returns the total memory that `t` plans for if a batch takes `measured` bytes (0: not measured yet). */
uint64_t tune_planned(const struct tuner *t, const struct pipeline_plan *plan, uint64_t measured);

#endif
