/* place.h: where the records of a slice lie, and in which order storage likes them. */
#ifndef OPS_PLACE_H
#define OPS_PLACE_H

#include "ops/shard_set.h"
#include "record/frame.h"

struct place {
    uint64_t index;
    uint64_t offset, length;
    size_t shard;
    const uint8_t *frame; /* in the mapping; NULL: it must be read */
};

static inline uint64_t place_end(const struct place *p)
{
    return p->offset + p->length + FRAME_BYTES;
}

/* A stretch of one shard that is worth one request. */
struct place_run {
    size_t shard;
    uint64_t begin, end;
    size_t first, last; /* of place_order.places, one behind the last */
};

struct place_order {
    const struct place **places; /* by shard and offset */
    size_t capacity;
    struct place_run *runs;
    size_t run_count, run_capacity;
};

/* Sorts places and joins neighbours: a gap of up to `gap` bytes is read through. Returns false when out of memory. */
bool place_order_make(struct place_order *o, const struct place *places, size_t count, uint64_t gap);
void place_order_finish(struct place_order *o);

#endif
