/* tfrecord_stream.c: one pst_reader per shard. Damage is reported in every pass; a pipe can be read only once. */
#include "source/tfrecord_stream.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

struct tfrecord_stream {
    const struct shard_set *set;
    bool *begun;
    bool no_verify;
    pst_damage_log *damage;
    size_t at; /* shard */
    pst_reader *reader;
    pst_bytes value;
    struct source_place place; /* of `value` */
};

pst_status tfrecord_stream_open(struct tfrecord_stream **ret, const struct shard_set *set, bool *begun, bool no_verify,
                                pst_damage_log *damage, pst_error *reterr)
{
    struct tfrecord_stream *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "opening the stream of shards");
    *t = (struct tfrecord_stream){.set = set, .begun = begun, .no_verify = no_verify, .damage = damage};
    *ret = t;
    return PST_OK;
}

void tfrecord_stream_close(struct tfrecord_stream *t)
{
    if (!t)
        return;
    pst_reader_close(t->reader);
    mem_free(t);
}

static pst_status open_reader(struct tfrecord_stream *t, pst_error *reterr)
{
    const char *path = t->set->paths.paths[t->at];
    pst_reader_options options = {.size = sizeof(options),
                                  .no_verify = t->no_verify,
                                  .max_record_bytes = t->set->max_record_bytes,
                                  .damage = t->damage,
                                  .stop = t->set->stop.asked,
                                  .stop_user = t->set->stop.user};
    struct file_info info;
    pst_status st = file_stat(path, &info, reterr);
    if (st == PST_OK && !info.is_regular && t->begun[t->at])
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                         "a pipe can be read only once, and a part of it is gone; save it to a file first");
    if (st == PST_OK)
        st = pst_reader_open(&t->reader, path, &options, reterr);
    t->begun[t->at] |= st == PST_OK;
    return st;
}

pst_status tfrecord_stream_next(struct tfrecord_stream *t, const pst_bytes **ret, pst_error *reterr)
{
    pst_record record;
    for (; t->at < t->set->paths.count; t->at++) {
        pst_status st = t->reader ? PST_OK : open_reader(t, reterr);
        if (st == PST_OK)
            st = pst_reader_next(t->reader, &record, reterr);
        if (st < 0)
            return st;
        if (st == PST_OK) {
            t->value = (pst_bytes){.data = record.data, .length = record.length};
            t->place = (struct source_place){t->set->paths.paths[t->at], record.record, record.offset};
            *ret = &t->value;
            return PST_OK;
        }
        t->reader = pst_reader_close(t->reader);
    }
    return PST_END;
}

void tfrecord_stream_locate(const struct tfrecord_stream *t, struct source_place *ret)
{
    *ret = t->place;
}
