/* cold.c: a thread's page faults and block reads, as the kernel counts them. Both are counted when a read is started,
 * whichever thread waits for it later, so that data fetched ahead of its use still counts as cold. */
#include "io/cold.h"

#include "base/clock.h"

#include <sys/resource.h>

#define RENEW_NS 2000000u

bool cold_watch_look(struct cold_watch *w, bool *ret_renewed)
{
    struct rusage usage;
    uint64_t now = clock_ns();
    bool due = now >= w->asked_ns + RENEW_NS;
    if (ret_renewed)
        *ret_renewed = due;
    if (!due || getrusage(RUSAGE_THREAD, &usage) < 0)
        return w->cold;
    uint64_t reads = (uint64_t)usage.ru_majflt + (uint64_t)usage.ru_inblock;
    w->cold = w->asked_ns != 0 && reads != w->reads; /* what came before the first look is not about this data */
    w->asked_ns = now;
    w->reads = reads;
    return w->cold;
}
