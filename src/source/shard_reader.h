/* shard_reader.h: one worker's way to the records of a shard set. */
#ifndef SOURCE_SHARD_READER_H
#define SOURCE_SHARD_READER_H

#include "io/cold.h"
#include "source/direct_reader.h"
#include "source/read_order.h"

struct shard_reader {     /* zeroed at first */
    struct record_place *places; /* what comes soon… */
    size_t count, capacity;
    size_t next; /* …and the first of it that has not come */
    bool direct; /* it is read past the page cache */
    struct direct_reader direct_reader;
    struct read_order order;
    struct cold_watch cold;
    uint8_t *buffer; /* a record that is read by itself */
    size_t buffer_size;
};

void shard_reader_finish(struct shard_reader *r);

/* These records come soon, in this order. `ram` is what the worker's buffers may take, about. */
void shard_reader_ahead(struct shard_reader *r, struct shard_set *s, uint64_t ram, const uint64_t *index, size_t count);
/* A view, valid until the next load. PST_ECORRUPT names shard, record and offset. */
pst_status shard_reader_load(struct shard_reader *r, struct shard_set *s, uint64_t index, pst_bytes *ret, pst_error *reterr);

#endif
