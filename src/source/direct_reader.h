/* direct_reader.h: the records of a slice, read past the page cache, many reads at a time. */
#ifndef SOURCE_DIRECT_READER_H
#define SOURCE_DIRECT_READER_H

#include "io/reads.h"
#include "source/read_order.h"

struct direct_window;

struct direct_reader { /* zero-initialised by the caller */
    struct reads *reads;
    struct direct_window *windows[2]; /* one is used while the other is read */
    unsigned current;
    struct shard_set *set;
    const struct record_place *places; /* places of the slice; owned by the caller */
    size_t count;
    size_t planned; /* places below this number are or were in a window */
    size_t bytes;   /* approximate size of a window */
    struct read_order order;
};

void direct_reader_finish(struct direct_reader *d);

/* Starts a slice and drops the previous one. Uses about `bytes` bytes of memory. Returns false when out of memory. */
bool direct_reader_begin(struct direct_reader *d, struct shard_set *s, const struct record_place *places, size_t count,
                         uint64_t bytes);
/* Waits for the frame of place `i` and returns it; valid until a place in another window is requested. `i` increases from
 * call to call. */
pst_status direct_reader_frame(struct direct_reader *d, size_t i, const uint8_t **ret, pst_error *reterr);
size_t direct_reader_memory(const struct direct_reader *d); /* bytes that its windows hold */

#endif
