/* tune.h: how many workers, how many batches ahead, and why. Pure arithmetic on measurements. */
#ifndef FLOW_TUNE_H
#define FLOW_TUNE_H

#include "flow/plan.h"

#define TUNE_MAX_DEPTH   64
#define TUNE_INTERVAL_NS 100000000u /* between two looks */

/* Sums since the start. */
struct tune_sample {
    uint64_t now_ns;
    uint64_t consumer_wait_ns, worker_wait_ns, worker_busy_ns;
    uint64_t probed_ns, blocked_ns; /* of some slices: all their time, and asleep in reads */
    uint64_t batch_bytes;           /* memory of one, as seen */
};

struct tuner {
    unsigned cores;
    unsigned workers, most_workers;
    size_t depth, most_depth;
    bool workers_given, depth_given;
    uint64_t ram; /* left for batches */
    char workers_reason[160], depth_reason[160];
    struct tune_sample last;
};

void tune_init(struct tuner *t, const struct pipeline_plan *plan, const pst_pipeline_options *options, unsigned cores);
/* Judges the time since the last look, TUNE_INTERVAL_NS ago or more; true: workers or depth have changed. */
bool tune_update(struct tuner *t, const struct tune_sample *now);

/* Memory a worker needs, as planned. */
uint64_t tune_worker_bytes(const struct pipeline_plan *plan);
/* Memory that `t` plans for altogether, where a batch takes `measured` bytes (0: nothing measured yet). */
uint64_t tune_planned(const struct tuner *t, const struct pipeline_plan *plan, uint64_t measured);

#endif
