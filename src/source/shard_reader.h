/* shard_reader.h: reads the records of a shard set for one worker. */
#ifndef SOURCE_SHARD_READER_H
#define SOURCE_SHARD_READER_H

#include "io/cold.h"
#include "source/direct_reader.h"
#include "source/read_order.h"
#include "source/record_copies.h"

struct shard_reader {     /* zero-initialised by the caller */
    struct record_place *places; /* records that are needed soon… */
    size_t count, capacity;
    size_t next; /* …and the first of them that was not loaded yet */
    bool direct; /* reads bypass the page cache */
    struct direct_reader direct_reader;
    struct read_order order;
    struct cold_watch cold;
    const struct source_room *room; /* for records that have to be read, of the elements announced last; NULL: none */
    struct record_copies *copies; /* set by the caller; NULL: none */
    uint8_t *buffer; /* buffer for a record that is read separately */
    size_t buffer_size;
};

void shard_reader_finish(struct shard_reader *r);

/* Announces the next records, in this order. `ram` is about the memory that the worker's buffers may use. */
void shard_reader_ahead(struct shard_reader *r, struct shard_set *s, uint64_t ram, const uint64_t *index, size_t count);
/* Returns a view, valid until the next load. PST_ECORRUPT names shard, record and offset. */
pst_status shard_reader_load(struct shard_reader *r, struct shard_set *s, uint64_t index, pst_bytes *ret, pst_error *reterr);

#endif
