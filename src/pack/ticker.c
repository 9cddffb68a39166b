/* ticker.c: see ticker.h. */
#include "pack/ticker.h"

#include "base/clock.h"

#define INTERVAL_NS UINT64_C(100000000)

pst_status pack_ticker_tell(struct pack_ticker *t, const char *stage, uint64_t done, uint64_t total, uint64_t bytes, bool now,
                            pst_error *reterr)
{
    if (!t->fn)
        return PST_OK;
    uint64_t clock = clock_ns();
    if (!now && clock < t->next_ns)
        return PST_OK;
    t->next_ns = clock + INTERVAL_NS;
    pst_progress progress = {.stage = stage, .done = done, .total = total, .bytes = bytes};
    if (t->fn(t->user, &progress))
        return pst_fail(reterr, PST_ECANCELLED, "stopped while %s, at %llu; run the same command again to resume", stage,
                        (unsigned long long)done);
    return PST_OK;
}
