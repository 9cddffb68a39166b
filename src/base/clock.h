/* clock.h: the monotonic clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void); /* monotonic */

#endif
