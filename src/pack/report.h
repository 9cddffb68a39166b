/* report.h: the report of pack for its caller: totals, skipped items, notes. One thread at a time. */
#ifndef PACK_REPORT_H
#define PACK_REPORT_H

#include "base/arena.h"
#include <penstock/pack.h>

struct pack_report {
    pst_pack_report public; /* first: the caller's pointer is a pointer to this struct */
    struct arena arena;
    pst_pack_skip *skips;
    size_t skip_capacity;
    const char **notes;
    size_t note_capacity;
    pst_pack_split *splits;
};

pst_status pack_report_create(struct pack_report **ret, pst_error *reterr);
pst_status pack_report_note(struct pack_report *r, pst_error *reterr, const char *format, ...) PST_PRINTF(3, 4);
/* Copies both. */
pst_status pack_report_skip(struct pack_report *r, const char *key, size_t key_length, const char *why, size_t why_length,
                            pst_error *reterr);
struct pack_report *pack_report_destroy(struct pack_report *r);

/* Progress for the caller, up to ten times per second, on the caller's own thread. */
struct pack_ticker {
    pst_progress_fn fn; /* NULL: no progress is reported */
    void *user;
    uint64_t next_ns;
};

/* Calls the caller's function when it is due, or `now`. PST_ECANCELLED when the caller wants to stop. */
pst_status pack_ticker_tell(struct pack_ticker *t, const char *stage, uint64_t done, uint64_t total, uint64_t bytes, bool now,
                            pst_error *reterr);

#endif
