/* clock.h: time and counters that are cheap enough to be always on. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

uint64_t clock_ns(void); /* monotonic */

/* What one stage has done; relaxed atomics, one writer a field is not required. */
struct stage_counter {
    _Atomic uint64_t calls, bytes, ns, wait_in_ns, wait_out_ns;
};

void stage_counter_add(struct stage_counter *c, uint64_t ns, uint64_t bytes);

#endif
