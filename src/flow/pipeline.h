/* pipeline.h: internals of the pipeline: ownership, and which thread may access what. */
#ifndef FLOW_PIPELINE_H
#define FLOW_PIPELINE_H

#include "base/arena.h"
#include "flow/damage_judge.h"
#include "flow/monitor.h"
#include "flow/plan.h"
#include "flow/ring.h"
#include "flow/trace.h"
#include "flow/tune_workers.h"
#include "flow/worker.h"
#include "io/walk.h"
#include <penstock/base.h>

/* Counters of the consumer; any thread may read them. */
struct delivery {
    _Atomic uint64_t batches, samples, bytes, skipped;
    _Atomic uint64_t wait_ns, calls, ready; /* time and number of calls of `next`; sum of the batches that were ready at each
                                               call */
};

struct pst_pipeline {
    pst_pipeline_options options;
    char *cache_dir, *monitor_dir;
    struct chain chain;
    struct field_choice choice; /* of the fields of batches; its memory is in `names` */
    bool once;          /* one epoch is wanted: nothing is read ahead for the next */
    bool borrows_chain; /* a segment: the outer pipeline owns the nodes */
    struct path_list class_names; /* once they were asked for */
    bool has_class_names;
    struct arena names; /* names and shapes of arrays in memory; paths and labels of files */
    struct pst_pipeline **parts; /* pipelines that became branches: empty, but for memory that the chain refers to */
    size_t part_count, part_capacity;
    struct ring ring;
    _Atomic bool cancelled;
    struct delivery delivery;

    /* Written by the consumer under the ring's lock, so that pst_pipeline_stats may read them on any thread. */
    struct pipeline_plan *plan; /* NULL: not planned yet */
    struct batch_pool *pool;
    struct cell *cells; /* one per thread; they outlive the crew */
    struct crew *crew;  /* NULL: no worker is running */
    struct tuner tuner;
    struct access *access; /* not NULL once it is planned */
    struct flow_trace *trace;     /* NULL: not traced */
    struct monitor *monitor; /* NULL: none */

    /* Used by the consumer only. */
    uint64_t epoch, next; /* position of the cursor */
    pst_status failed;    /* < 0: every further `next` fails with the same error */
    pst_error failure;
    struct damage_account damage; /* under `judging`; any thread may read its log */
    pthread_mutex_t judging;
};

/* Adds a source by its class, which need not be in the table. `config` is copied. */
pst_status pipeline_add_source(pst_pipeline *p, const struct source_class *source, const void *config, pst_error *reterr);

/* cursor.c: fails with PST_ESTALE and names the difference. */
pst_status cursor_check(const struct pipeline_plan *p, uint64_t seed, const pst_position *at, pst_error *reterr);

/* deliver.c: delivers an entry in its turn. `*ret_again`: it was skipped. */
pst_status pipeline_deliver(pst_pipeline *p, struct entry *e, pst_batch **ret, bool *ret_again, pst_error *reterr);
bool pipeline_batch_is_empty(const pst_pipeline *p, const struct entry *e); /* no valid element is left in its batch */

/* Readers that compute single batches on the threads of callers (pst_pipeline_at). */

struct access; /* the readers of a pipeline; any thread may use them */

/* Up to `readers` calls run at once; further ones wait. */
pst_status access_create(struct access **ret, unsigned readers, pst_error *reterr);
struct access *access_destroy(struct access *a); /* NULL ok; returns NULL. No call may be running. */

#endif
