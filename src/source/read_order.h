/* read_order.h: where the records of a slice are stored, sorted by storage position. */
#ifndef SOURCE_READ_ORDER_H
#define SOURCE_READ_ORDER_H

#include "source/shard_set.h"
#include "record/frame.h"

struct record_place {
    uint64_t index;
    uint64_t offset, length;
    size_t shard;
    const uint8_t *frame; /* in the mapping; NULL: it must be read */
    bool copied;          /* `frame` is a copy that was checked before */
};

static inline uint64_t record_place_end(const struct record_place *p)
{
    return p->offset + p->length + FRAME_BYTES;
}

/* A range of one shard that is read in one request. */
struct read_run {
    size_t shard;
    uint64_t begin, end;
    size_t first, last; /* range of places in read_order.places; `last` is one past the end */
};

struct read_order {
    const struct record_place **places; /* by shard and offset */
    size_t capacity;
    struct read_run *runs;
    size_t run_count, run_capacity;
};

/* Sorts places and joins neighbours: a gap of up to `gap` bytes is read through. Returns false when out of memory. */
bool read_order_make(struct read_order *o, const struct record_place *places, size_t count, uint64_t gap);
void read_order_finish(struct read_order *o);

#endif
