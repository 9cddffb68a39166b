/* trace.c: records what happens when, and writes it as a trace. See trace.h. */
#include "flow/trace.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "flow/pipeline.h"
#include "io/publish.h"
#include "report/trace_writer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEAST_EVENTS 1024 /* per lane */

pst_status trace_create(struct flow_trace **ret, unsigned workers, uint64_t events, pst_error *reterr)
{
    struct flow_trace *t = mem_zalloc(sizeof(*t));
    uint64_t each = events / (workers + 1);
    each = each < LEAST_EVENTS ? LEAST_EVENTS : each;
    if (t) {
        t->workers = workers;
        t->start = clock_ns();
        t->lanes = mem_aligned((workers + 1) * sizeof(*t->lanes) + 128);
    }
    if (!t || !t->lanes) {
        trace_destroy(t);
        return fail_memory(reterr, "starting a trace");
    }
    memset(t->lanes, 0, (workers + 1) * sizeof(*t->lanes));
    for (unsigned i = 0; i <= workers; i++) {
        t->lanes[i].events = mem_array((size_t)each, sizeof(*t->lanes[i].events));
        t->lanes[i].capacity = (size_t)each;
        if (!t->lanes[i].events) {
            trace_destroy(t);
            return fail_memory(reterr, "starting a trace");
        }
    }
    *ret = t;
    return PST_OK;
}

struct flow_trace *trace_destroy(struct flow_trace *t)
{
    for (unsigned i = 0; t && t->lanes && i <= t->workers; i++)
        mem_free(t->lanes[i].events);
    if (t)
        mem_free(t->lanes);
    mem_free(t);
    return NULL;
}

/* ---- Recording ---- */

static void add(struct trace_lane *lane, unsigned kind, uint64_t begin, uint64_t end, uint64_t batch)
{
    size_t n = atomic_load_explicit(&lane->count, memory_order_relaxed);
    if (n == lane->capacity) {
        cell_add(&lane->dropped, 1);
        return;
    }
    lane->events[n] = (struct trace_event){begin, end, batch, kind};
    atomic_store_explicit(&lane->count, n + 1, memory_order_release);
}

void trace_slice_begin(const struct cell *cell, size_t stages, struct trace_mark *ret)
{
    for (size_t i = 0; i < stages; i++)
        ret->ns[i] = cell_get(&cell->stages[i].ns);
    ret->begin = clock_ns();
}

void trace_slice_end(struct flow_trace *t, unsigned worker, const struct cell *cell, size_t stages, const struct trace_mark *mark,
                     uint64_t batch, uint64_t waited_ns, uint64_t opened_ns)
{
    struct trace_lane *lane = &t->lanes[worker];
    uint64_t end = clock_ns(), at = mark->begin;
    if (waited_ns)
        add(lane, TRACE_WAIT, mark->begin - waited_ns - opened_ns, mark->begin - opened_ns, TRACE_NO_BATCH);
    if (opened_ns)
        add(lane, TRACE_OPEN, mark->begin - opened_ns, mark->begin, batch);
    add(lane, TRACE_SLICE, mark->begin, end, batch);
    for (size_t i = 0; i < stages && at < end; i++) {
        uint64_t ns = cell_get(&cell->stages[i].ns) - mark->ns[i], until = at + ns < end ? at + ns : end;
        if (ns)
            add(lane, (unsigned)i, at, until, batch);
        at = until;
    }
}

void trace_taken(struct flow_trace *t, uint64_t asked, uint64_t batch, size_t ready)
{
    struct trace_lane *lane = &t->lanes[t->workers];
    uint64_t now = clock_ns();
    if (t->left)
        add(lane, TRACE_STEP, t->left, asked, batch ? batch - 1 : batch);
    add(lane, TRACE_WAIT, asked, now, batch);
    add(lane, TRACE_READY, asked, asked, ready);
    t->left = now;
}

/* ---- Writing ---- */

static double micro(const struct flow_trace *t, uint64_t at)
{
    return at > t->start ? (double)(at - t->start) * 1e-3 : 0;
}

static const char *name_of(const struct program *p, unsigned kind, bool consumer)
{
    switch (kind) {
    case TRACE_SLICE:
        return "slice";
    case TRACE_WAIT:
        return consumer ? "wait for a batch" : "wait for room";
    case TRACE_OPEN:
        return "open";
    case TRACE_STEP:
        return "step";
    default:
        return kind < p->stages ? p->stage_name[kind] : "other";
    }
}

static void write_lane(struct trace_writer *w, const struct flow_trace *t, unsigned number, const struct program *p)
{
    const struct trace_lane *lane = &t->lanes[number];
    bool consumer = number == t->workers;
    size_t count = atomic_load_explicit(&lane->count, memory_order_acquire);
    char name[32];
    snprintf(name, sizeof(name), consumer ? "consumer" : "worker %u", number);
    trace_track(w, consumer ? 1 : number + 2, name);
    for (size_t i = 0; i < count; i++) {
        const struct trace_event *e = &lane->events[i];
        if (e->kind == TRACE_READY)
            trace_counter(w, "batches ready", micro(t, e->begin), (double)e->batch);
        else
            trace_span(w, consumer ? 1 : number + 2,
                       consumer                ? "consumer"
                       : e->kind < TRACE_SLICE ? "stage"
                                               : "worker",
                       name_of(p, e->kind, consumer), micro(t, e->begin), (double)(e->end - e->begin) * 1e-3, e->batch);
    }
}

/* A batch lasts from the first slice of it until the consumer has it; slices are searched from the last batch's on. */
static void write_batches(struct trace_writer *w, const struct flow_trace *t)
{
    const struct trace_lane *taken = &t->lanes[t->workers];
    size_t *at = mem_array(t->workers + 1, sizeof(*at));
    for (size_t i = 0; at && i < atomic_load_explicit(&taken->count, memory_order_acquire); i++) {
        const struct trace_event *e = &taken->events[i];
        uint64_t first = UINT64_MAX;
        if (e->kind != TRACE_WAIT)
            continue;
        for (unsigned k = 0; k < t->workers; k++) {
            const struct trace_lane *lane = &t->lanes[k];
            size_t count = atomic_load_explicit(&lane->count, memory_order_acquire);
            while (at[k] < count && (lane->events[at[k]].kind != TRACE_SLICE || lane->events[at[k]].batch < e->batch))
                at[k]++;
            if (at[k] < count && lane->events[at[k]].batch == e->batch && lane->events[at[k]].begin < first)
                first = lane->events[at[k]].begin;
        }
        if (first != UINT64_MAX && first <= e->end)
            trace_async(w, "batch", "batch", e->batch, micro(t, first), micro(t, e->end));
    }
    mem_free(at);
}

pst_status pst_pipeline_trace(pst_pipeline *p, const char *path, bool overwrite, pst_error *reterr)
{
    struct text text = {0};
    struct trace_writer w;
    if (!p->trace)
        return pst_fail(reterr, PST_EINVAL,
                        "the pipeline records no trace; set options.trace to the number of events before it starts");
    trace_begin(&w, &text, (uint64_t)getpid(), "penstock");
    for (unsigned i = 0; i <= p->trace->workers; i++)
        write_lane(&w, p->trace, i, &p->plan->program);
    write_batches(&w, p->trace);
    trace_end(&w);
    pst_status st = text.failed ? fail_memory(reterr, "writing a trace")
                                : publish_bytes(path, text.data, text.length, overwrite, false, reterr);
    text_finish(&text);
    return st;
}
