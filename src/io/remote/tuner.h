/* tuner.h: over how many connections, and in requests of which size, data are fetched ahead. Connections are added as long as that brings more bytes; requests
 * grow until their latency hardly matters, within the memory for blocks. */
#ifndef IO_REMOTE_TUNER_H
#define IO_REMOTE_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#define TUNER_LEAST 8u
#define TUNER_MOST  32u

#define TUNER_PART       ((uint64_t)8 << 20) /* bytes of a request, until latency or memory demand another size */
#define TUNER_PART_LEAST ((uint64_t)1 << 20)
#define TUNER_PART_MOST  ((uint64_t)32 << 20)

struct tuner { /* zeroed at first */
    unsigned now, before;
    double rate;           /* with `before` connections, bytes per second */
    uint64_t began, bytes; /* of the present window */
    bool settled;
    double each;              /* bytes per second of one request after its first byte, smoothed; 0: none has ended yet */
    double least, last_least; /* the shortest latency of the present set of requests, and of the set before; seconds, 0: none */
    unsigned seen;            /* requests of the present set */
};

/* Returns the number of connections from now on, at most `most` (≥ TUNER_LEAST). Called whenever a request has ended; `bytes` have arrived since the beginning
 * of the process, `busy`: all connections were used, and there is more to fetch. */
unsigned tuner_step(struct tuner *t, uint64_t now, uint64_t bytes, bool busy, unsigned most);

/* Notes a request that has ended: seconds until the first byte of the answer, seconds from there to the last, and bytes. */
void tuner_note(struct tuner *t, double latency, double transfer, uint64_t bytes);
/* Returns the size of requests, a power of two: so large that a request waits for at most an eighth of its time. */
uint64_t tuner_part(const struct tuner *t);
/* Returns the largest size up to `part` of which `connections` take at most half of `memory`, but at least TUNER_PART_LEAST. */
uint64_t tuner_part_within(uint64_t part, unsigned connections, uint64_t memory);

#endif
