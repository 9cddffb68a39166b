/* tuner.h: how many connections fetch data ahead: more of them as long as that brings more bytes. */
#ifndef IO_REMOTE_TUNER_H
#define IO_REMOTE_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#define TUNER_LEAST 8u
#define TUNER_MOST  32u

struct tuner { /* zeroed at first */
    unsigned now, before;
    double rate;           /* with `before` connections, bytes per second */
    uint64_t began, bytes; /* of the present window */
    bool settled;
};

/* The number of connections from now on, at most `most` (≥ TUNER_LEAST). Called whenever a request has ended; `bytes` have arrived since the beginning of the
 * process, `busy`: all connections were used, and there is more to fetch. */
unsigned tuner_step(struct tuner *t, uint64_t now, uint64_t bytes, bool busy, unsigned most);

#endif
