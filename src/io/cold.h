/* cold.h: detects whether this thread waits for storage. It asks the system, because a caller cannot know what is in the
 * page cache. */
#ifndef IO_COLD_H
#define IO_COLD_H

#include <stdbool.h>
#include <stdint.h>

/* One per thread, zeroed at first. */
struct cold_watch {
    uint64_t asked_ns;
    uint64_t reads; /* reads from storage by this thread at the last check */
    bool cold;
};

/* Returns true when the thread has recently caused reads from storage. The answer is updated every few milliseconds; other
 * calls only read the clock. `*ret_renewed` is true if it was updated (NULL ok). */
bool cold_watch_look(struct cold_watch *w, bool *ret_renewed);

#endif
