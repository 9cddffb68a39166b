/* clock.c: the monotonic clock, and stage counters over it. */
#include "base/clock.h"

#include <time.h>

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void stage_counter_add(struct stage_counter *c, uint64_t ns, uint64_t bytes)
{
    atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->ns, ns, memory_order_relaxed);
}
