/* fetch.c: see fetch.h. */
#include "inspect/fetch.h"

#include "base/memory.h"

pst_status fetch_open(struct fetch *f, const char *path, const char *cache_dir, uint64_t max_record_bytes, pst_error *reterr)
{
    static const pst_policy tolerant = {.skip = true};
    pst_damage_log *unheard;
    pst_status st = pst_damage_log_create(&unheard, &tolerant, reterr);
    if (st < 0)
        return st;
    pst_shard_options options = {
        .size = sizeof(options), .cache_dir = cache_dir, .max_record_bytes = max_record_bytes, .damage = unheard};
    st = pst_shard_open(&f->opened, path, &options, reterr);
    pst_damage_log_destroy(unheard);
    fetch_borrow(f, f->opened, max_record_bytes);
    return st;
}

void fetch_borrow(struct fetch *f, const pst_shard *shard, uint64_t max_record_bytes)
{
    f->shard = shard;
    f->max_record_bytes = max_record_bytes ? max_record_bytes : PST_MAX_RECORD_BYTES;
}

pst_status fetch_record(struct fetch *f, uint64_t i, pst_record *ret, pst_error *reterr)
{
    uint64_t offset, length;
    if (i >= pst_shard_count(f->shard))
        return pst_fail_at(reterr, PST_ESTALE, pst_shard_path(f->shard), i, PST_NOWHERE,
                           "the shard has changed: it has no such record any more");
    pst_shard_locate(f->shard, i, &offset, &length);
    *ret = (pst_record){.length = (size_t)length, .record = i, .offset = offset};
    if (length <= f->max_record_bytes && mem_grow((void **)&f->buffer, &f->capacity, (size_t)length + 1, 1))
        return pst_fail_at(reterr, PST_ENOMEM, pst_shard_path(f->shard), i, offset, "out of memory for its %zu bytes",
                           (size_t)length);
    size_t got;
    pst_status st = pst_shard_read(f->shard, i, f->buffer, f->capacity, &got, reterr);
    ret->data = f->buffer;
    return st;
}

void fetch_finish(struct fetch *f)
{
    pst_shard_close(f->opened);
    mem_free(f->buffer);
    *f = (struct fetch){0};
}
