/* resync.h: the way back into a stream behind a length that cannot be trusted. */
#ifndef RECORD_RESYNC_H
#define RECORD_RESYNC_H

#include "record/byte_window.h"

/* The work done so far for one stream; zeroed at first. */
struct resync {
    uint64_t scanned; /* bytes looked at as a possible header */
    uint64_t wasted;  /* bytes of payloads that a header spoke of and a CRC denied */
};

/* Moves the window to the next sound record at or behind its start: a length that matches its CRC and is at most
 * `max_record_bytes`, with data that match theirs. PST_END: there is none, the stream is used up. */
pst_status resync_find(struct resync *r, struct source *s, uint64_t max_record_bytes, pst_error *reterr);

#endif
