/* ticks.h: the counter of the processor. Reading it takes a few nanoseconds, where clock_ns takes hundreds if other work has evicted from the caches what the
 * system keeps for it. The unit is unknown: ticks serve for shares, or are scaled by work that clock_ns timed as well. */
#ifndef BASE_TICKS_H
#define BASE_TICKS_H

#include "base/clock.h"

/* Returns the counter, some instructions early or late: waiting for those before it would cost more than all the rest. */
static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    return clock_ns();
#endif
}

/* Returns the ticks from `begin` to `end`; 0 if the counters of two processors disagree. */
static inline uint64_t ticks_between(uint64_t begin, uint64_t end)
{
    return end > begin ? end - begin : 0;
}

#endif
