/* trace.h: what workers and consumer did when, for pst_pipeline_trace.
 *
 * One track per worker and one for the consumer, each with one writer and room for a fixed number of events; when it is full,
 * later events are counted as dropped. A pipeline that is not traced has no trace: each place then tests one pointer. */
#ifndef FLOW_TRACE_H
#define FLOW_TRACE_H

#include "flow/stats.h"

#include "base/clock.h"

enum trace_kind { /* besides the numbers of stages */
                  TRACE_SLICE = 1000,
                  TRACE_WAIT,  /* a worker waits for room, the consumer for a batch */
                  TRACE_OPEN,  /* a worker opens batches */
                  TRACE_STEP,  /* the consumer's time between two batches */
                  TRACE_READY, /* a number: batches ready at `begin`, in `batch` */
};

/* The number of a batch in a trace: grows with the epoch and with the batch of the epoch. */
#define TRACE_BATCH(epoch, after) ((uint64_t)(epoch) << 32 | ((after)&0xFFFFFFFFu))

struct trace_event {
    uint64_t begin, end; /* of clock_ns */
    uint64_t batch;
    unsigned kind;
};

struct trace_lane {
    _Alignas(128) struct trace_event *events;
    size_t capacity;
    _Atomic size_t count;
    _Atomic uint64_t dropped;
};

struct flow_trace {
    unsigned workers;
    struct trace_lane *lanes; /* workers, then the consumer */
    uint64_t start;           /* of clock_ns */
    uint64_t left;            /* when the consumer took its last batch; 0: none yet */
};

/* `events`: the number of events in all lanes together. */
pst_status trace_create(struct flow_trace **ret, unsigned workers, uint64_t events, pst_error *reterr);
struct flow_trace *trace_destroy(struct flow_trace *t); /* NULL ok; returns NULL */

/* A worker's counters before a slice. */
struct trace_mark {
    uint64_t begin;
    uint64_t ns[PST_MAX_STAGES];
};
void trace_slice_begin(const struct cell *cell, size_t stages, struct trace_mark *ret);
/* Records the slice with its stages one after the other, and before it the pause. */
void trace_slice_end(struct flow_trace *t, unsigned worker, const struct cell *cell, size_t stages, const struct trace_mark *mark,
                     uint64_t batch, uint64_t waited_ns, uint64_t opened_ns);
/* The consumer asked at `asked` and has a batch now. */
void trace_taken(struct flow_trace *t, uint64_t asked, uint64_t batch, size_t ready);

#endif
