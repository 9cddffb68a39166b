/* fetch.h: single records of an uncompressed shard, by number, into a buffer that is kept. One thread at a time. */
#ifndef INSPECT_FETCH_H
#define INSPECT_FETCH_H

#include <penstock/record.h>

struct fetch {
    const pst_shard *shard;
    pst_shard *opened; /* the same, if it is ours to close */
    uint64_t max_record_bytes;
    uint8_t *buffer;
    size_t capacity;
};

/* Zero-initialise `f` first; fetch_finish in any case. Damage of the shard as a whole is not reported again. */
pst_status fetch_open(struct fetch *f, const char *path, const char *cache_dir, uint64_t max_record_bytes, pst_error *reterr);
void fetch_borrow(struct fetch *f, const pst_shard *shard, uint64_t max_record_bytes);
/* `ret->data` is valid until the next call. Even if the record is damaged, `ret` is filled, except for the data. */
pst_status fetch_record(struct fetch *f, uint64_t i, pst_record *ret, pst_error *reterr);
void fetch_finish(struct fetch *f);

#endif
