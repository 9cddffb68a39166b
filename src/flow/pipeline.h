/* pipeline.h: the pipeline from the inside: who owns what, and which thread may touch it. */
#ifndef FLOW_PIPELINE_H
#define FLOW_PIPELINE_H

#include "base/arena.h"
#include "flow/damage.h"
#include "flow/plan.h"
#include "flow/ring.h"
#include "flow/tune.h"
#include "flow/worker.h"
#include "io/walk.h"

/* What the consumer counts; any thread may read it. */
struct delivery {
    _Atomic uint64_t batches, samples, bytes, skipped;
    _Atomic uint64_t wait_ns, calls, ready; /* of `next`; sum of the batches that were ready when it came */
};

struct pst_pipeline {
    pst_pipeline_options options;
    char *cache_dir;
    struct chain chain;
    struct path_list class_names; /* once they were asked for */
    bool has_class_names;
    struct arena names; /* of arrays in memory, with their shapes; paths and labels of files */
    struct ring ring;
    _Atomic bool cancelled;
    struct delivery delivery;

    /* Written by the consumer under the ring's lock, so that pst_pipeline_stats may read them from anywhere. */
    struct pipeline_plan *plan; /* NULL: not planned yet */
    struct batch_pool *pool;
    struct cell *cells; /* one a thread; they outlive the crew */
    struct crew *crew;  /* NULL: no worker is running */
    struct tuner tuner;

    /* The consumer's alone. */
    uint64_t epoch, next; /* where the cursor stands */
    pst_status failed;    /* < 0: every further `next` fails alike */
    pst_error failure;
    struct damage_account damage; /* its log may be read from anywhere */
};

/* A source by its class; it need not be in the table. `config` is copied. */
pst_status pipeline_add_source(pst_pipeline *p, const struct source_class *source, const void *config, pst_error *reterr);

/* cursor.c: PST_ESTALE says what differs. */
pst_status cursor_check(const struct pipeline_plan *p, uint64_t seed, const pst_position *at, pst_error *reterr);

/* deliver.c: what happens to an entry when its turn has come. Again: it was passed over. */
pst_status pipeline_deliver(pst_pipeline *p, struct entry *e, pst_batch **ret, bool *ret_again, pst_error *reterr);
bool pipeline_passes_over(const pst_pipeline *p, const struct entry *e); /* nothing sound is left of its batch */

#endif
