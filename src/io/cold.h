/* cold.h: does this thread wait for storage? Asked of the system, as no caller can know what lies in its cache. */
#ifndef IO_COLD_H
#define IO_COLD_H

#include <stdbool.h>
#include <stdint.h>

/* One a thread, zeroed at first. */
struct cold_watch {
    uint64_t asked_ns;
    uint64_t reads; /* from storage, by this thread, as of then */
    bool cold;
};

/* True when the thread has lately caused reads from storage. The answer is renewed every few milliseconds: otherwise the call
 * only looks at the clock. `*ret_renewed` tells (NULL ok). */
bool cold_watch_look(struct cold_watch *w, bool *ret_renewed);

#endif
