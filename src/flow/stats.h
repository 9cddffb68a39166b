/* stats.h: what workers count while they work. A cell belongs to one worker, which alone writes it, without locked
 * instructions; whoever asks adds the cells up. */
#ifndef FLOW_STATS_H
#define FLOW_STATS_H

#include <penstock/pipeline.h>
#include <stdatomic.h>

struct stage_cell {
    _Atomic uint64_t calls, bytes, ns;
};

struct cell {
    _Alignas(128) _Atomic uint64_t samples;
    _Atomic uint64_t read_bytes, cache_hits;
    _Atomic uint64_t busy_ns, wait_ns;      /* in slices and openings; for room in the ring */
    _Atomic uint64_t probed_ns, blocked_ns; /* of the slices that were looked at closely: all their time, and asleep in reads */
    _Atomic uint64_t since;                 /* when the work at hand began; 0: none */
    _Atomic uint64_t sample;                /* at hand */
    _Atomic unsigned stage;                 /* at hand */
    struct stage_cell stages[PST_MAX_STAGES];
};

static inline void cell_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline uint64_t cell_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
