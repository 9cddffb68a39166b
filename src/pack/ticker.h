/* ticker.h: progress for the caller, at most ten times a second, on the caller's own thread. */
#ifndef PACK_TICKER_H
#define PACK_TICKER_H

#include <penstock/base.h>

struct pack_ticker {
    pst_progress_fn fn; /* NULL: no progress is reported */
    void *user;
    uint64_t next_ns;
};

/* Calls the caller's function when it is due, or `now`. PST_ECANCELLED when the caller wants to stop. */
pst_status pack_ticker_tell(struct pack_ticker *t, const char *stage, uint64_t done, uint64_t total, uint64_t bytes, bool now,
                            pst_error *reterr);

#endif
