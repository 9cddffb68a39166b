/* resync.h: finds the next valid record after a length that cannot be trusted. */
#ifndef RECORD_RESYNC_H
#define RECORD_RESYNC_H

#include "record/byte_window.h"

/* The work done so far for one stream; zeroed at first. */
struct resync {
    uint64_t scanned; /* bytes checked as a possible header */
    uint64_t wasted;  /* bytes of payloads that a header announced but whose CRC did not match */
};

/* Moves the window to the next valid record at or after its start: a length that matches its CRC and is at most
 * `max_record_bytes`, with data that match their CRC. PST_END: there is none and the stream is at its end. */
pst_status resync_find(struct resync *r, struct source *s, uint64_t max_record_bytes, pst_error *reterr);

#endif
