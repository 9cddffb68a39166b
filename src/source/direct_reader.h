/* direct_reader.h: the records of a slice, read past the page cache, many reads at a time. */
#ifndef SOURCE_DIRECT_READER_H
#define SOURCE_DIRECT_READER_H

#include "io/reads.h"
#include "source/read_order.h"

struct direct_window;

struct direct_reader { /* zeroed at first */
    struct reads *reads;
    struct direct_window *windows[2]; /* one is used while the other is read */
    unsigned current;
    struct shard_set *set;
    const struct record_place *places; /* of the slice; the caller's */
    size_t count;
    size_t planned; /* places below are in a window, or were */
    size_t bytes;   /* of a window, about */
    struct read_order order;
};

void direct_reader_finish(struct direct_reader *d);

/* Starts on a slice and forgets the one before. `bytes` of memory will do, about. Returns false when out of memory. */
bool direct_reader_begin(struct direct_reader *d, struct shard_set *s, const struct record_place *places, size_t count,
                         uint64_t bytes);
/* The frame of place `i`, once it is there; valid until a place that is not of the same window is asked for. `i` rises from
 * call to call. */
pst_status direct_reader_frame(struct direct_reader *d, size_t i, const uint8_t **ret, pst_error *reterr);
size_t direct_reader_memory(const struct direct_reader *d); /* bytes that its windows hold */

#endif
