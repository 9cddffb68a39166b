/* record_copies.h: copies of the small records that a filter keeps, side by side in memory.
 *
 * Records that lie far apart cost more than their bytes: each needs a page of the address space, an entry of the index on a line of its
 * own, and parts of its neighbours' lines. Copied when they are first read, they cost as much as if they were packed alone. */
#ifndef SOURCE_RECORD_COPIES_H
#define SOURCE_RECORD_COPIES_H

#include "base/bitmap.h"
#include "source/shard_set.h"

struct record_copy {
    uint32_t unit;           /* where it begins */
    _Atomic uint32_t length; /* of its payload, and whether it is there */
};

struct record_copies { /* zeroed: none */
    const struct bitmap *only; /* the records that are used */
    struct record_copy *all;   /* one for each of them */
    uint8_t *bytes;
};

/* Prepares for the records of `only`, which lives as long as the copies, if they are small, few of all, and fit into `ram` bytes.
 * Returns the bytes of memory; 0: there will be no copies. */
uint64_t record_copies_init(struct record_copies *c, const struct shard_set *s, const struct bitmap *only, uint64_t ram);
void record_copies_finish(struct record_copies *c);

/* Returns the number of record `index` among those that are used, for record_copies_find, and brings what that needs into the
 * processor's caches. */
#define COPY_UNUSED UINT64_MAX
uint64_t record_copies_number(const struct record_copies *c, uint64_t index);
/* Returns the frame of the record if it was copied, and sets the length of its payload; NULL: it was not. */
const uint8_t *record_copies_find(const struct record_copies *c, uint64_t number, uint64_t *ret_length);
/* Copies a sound frame with a payload of `length` bytes. */
void record_copies_put(struct record_copies *c, uint64_t index, const uint8_t *frame, uint64_t length);

#endif
