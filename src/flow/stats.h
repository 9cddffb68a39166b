/* stats.h: counters of the workers. Each cell is written by one worker only, without locked instructions; readers add up the
 * cells. */
#ifndef FLOW_STATS_H
#define FLOW_STATS_H

#include "base/ticks.h"
#include <penstock/pipeline.h>
#include <stdatomic.h>

struct stage_cell {
    _Atomic uint64_t calls, bytes, ns;
};

struct cell {
    _Alignas(128) _Atomic uint64_t samples;
    _Atomic uint64_t read_bytes, cache_hits;
    _Atomic uint64_t busy_ns, wait_ns;      /* time in slices and openings; time waiting for room in the ring */
    _Atomic uint64_t probed_ns, blocked_ns; /* of the sampled slices: total time, and time blocked in reads */
    _Atomic uint64_t since;                 /* when the current work began; 0: none */
    _Atomic uint64_t sample;                /* current; see runner_at */
    _Atomic uint64_t stage;                 /* current */
    struct stage_cell stages[PST_MAX_STAGES];
};

/* FLOW_NO_COUNTERS leaves the counting out, with the counters of the processor that only it reads: only a benchmark of its cost is built so. */
#ifdef FLOW_NO_COUNTERS
#define CELL_COUNTS 0
#else
#define CELL_COUNTS 1
#endif

static inline void cell_add(_Atomic uint64_t *counter, uint64_t n)
{
    if (CELL_COUNTS)
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void cell_set(_Atomic uint64_t *to, uint64_t value)
{
    if (CELL_COUNTS)
        atomic_store_explicit(to, value, memory_order_relaxed);
}

static inline uint64_t cell_ticks(void)
{
    return CELL_COUNTS ? ticks_now() : 0;
}

static inline uint64_t cell_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
