/* source_tfrecord.c: `tfrecord`: the records of TFRecord shards. Random access by their indexes; shards that have none are
 * a stream. The work is done by shard_set.c, shard_reader.c and tfrecord_stream.c. */
#include "source/source.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "record/find.h"
#include "record/label_names.h"
#include "source/shard_reader.h"
#include "source/tfrecord_stream.h"

#include <stdio.h>

struct config {
    pst_strings paths;
    int io; /* enum shard_io */
    uint64_t max_record;
    int missing; /* number within missing_names */
};

static const char *const io_names[] = {"auto", "map", "read", "direct", NULL}; /* as enum shard_io */

static const char *const missing_names[] = {"error", "allow", NULL};

static const pst_param params[] = {
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL, "folders, files or patterns"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, io_names,
     "map: records are views of the mapped files; read: one system call per record, for files that "
     "another program may truncate while they are read; direct: bypasses the page cache, for one pass "
     "over data that is not in memory; auto: map, or direct for data that is not in memory if the whole "
     "set does not fit into memory"},
    {"max_record", PST_PARAM_BYTES, offsetof(struct config, max_record), "1GiB", 0, 0, NULL, "a longer record is an error"},
    {"missing", PST_PARAM_CHOICE, offsetof(struct config, missing), "error", 0, 0, missing_names,
     "if a shard of a set such as x-00000-of-00008 is missing in a folder or pattern: error refuses the "
     "set, allow reads the other shards"},
    {0},
};

struct tfrecord {
    struct shard_set set;
    uint64_t ram; /* of a worker's buffers */
    bool no_verify;
    pst_damage_log *damage; /* of streams */
    bool *begun;            /* of streams: shards that were read from */
    struct record_copies copies;
};

struct worker {
    pst_bytes record;
    struct shard_reader reader;
};

static void tfrecord_close(void *source)
{
    struct tfrecord *t = source;
    if (!t)
        return;
    record_copies_finish(&t->copies);
    shard_set_close(&t->set);
    mem_free(t->begun);
    mem_free(t);
}

static pst_status tfrecord_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct tfrecord *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "opening the shards");
    t->ram = env->ram / (2 * cpu_cores()); /* workers there can be */
    t->no_verify = env->no_verify;
    t->damage = env->met;
    pst_status st = shard_set_open(&t->set, &c->paths, (enum shard_io)c->io,
                                   c->max_record ? c->max_record : PST_MAX_RECORD_BYTES, env, reterr);
    if (st == PST_OK && !c->missing)
        st = find_missing(&t->set.paths, c->paths.value, c->paths.count, "missing=allow reads the others", reterr);
    if (st == PST_OK) {
        t->begun = mem_array(t->set.paths.count, sizeof(*t->begun));
        st = t->begun ? PST_OK : fail_memory(reterr, "opening the shards");
    }
    if (st < 0) {
        tfrecord_close(t);
        return st;
    }
    *ret = t;
    return PST_OK;
}

static void tfrecord_spec(const void *source, pst_spec *ret)
{
    static const pst_field record = {.name = "record", .dtype = PST_DTYPE_BYTES, .alias = -1};
    (void)source;
    *ret = (pst_spec){.count = 1, .field = &record};
}

static pst_status tfrecord_class_names(const void *source, struct path_list *ret, pst_error *reterr)
{
    const struct path_list *shards = &((const struct tfrecord *)source)->set.paths;
    struct label_names names = {0};
    pst_status st = label_names_read(&names, shards->paths, shards->count, "label", reterr);
    for (size_t i = 0; i < names.count && st == PST_OK; i++)
        st = path_list_add(ret, names.names[i], reterr);
    label_names_finish(&names);
    return st;
}

static uint64_t tfrecord_count(const void *source)
{
    const struct tfrecord *t = source;
    return t->set.shards ? t->set.records : SOURCE_STREAM;
}

static uint64_t tfrecord_fingerprint(const void *source)
{
    return ((const struct tfrecord *)source)->set.fingerprint;
}

static void tfrecord_describe(const void *source, char *buffer, size_t size)
{
    shard_set_describe(&((const struct tfrecord *)source)->set, buffer, size);
}

static void tfrecord_part(void *source, uint64_t first, uint64_t end)
{
    struct shard_set *s = &((struct tfrecord *)source)->set;
    s->part_first = first;
    s->part_end = end;
}

static uint64_t tfrecord_keep(void *source, const struct bitmap *only, uint64_t ram)
{
    struct tfrecord *t = source;
    return t->set.shards ? record_copies_init(&t->copies, &t->set, only, ram) : 0;
}

static pst_status tfrecord_worker_start(void *source, void *worker, pst_error *reterr)
{
    struct tfrecord *t = source;
    (void)reterr;
    ((struct worker *)worker)->reader.copies = t->copies.only ? &t->copies : NULL;
    return PST_OK;
}

static void tfrecord_worker_stop(void *source, void *worker)
{
    (void)source;
    shard_reader_finish(&((struct worker *)worker)->reader);
}

static void tfrecord_ahead(void *source, void *worker, const uint64_t *index, size_t count)
{
    struct tfrecord *t = source;
    shard_reader_ahead(&((struct worker *)worker)->reader, &t->set, t->ram, index, count);
}

static void tfrecord_offer(void *worker, const struct source_room *room)
{
    ((struct worker *)worker)->reader.room = room;
}

static pst_status tfrecord_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct tfrecord *t = source;
    struct worker *w = worker;
    (void)ctx;
    out[0].data = &w->record;
    return shard_reader_load(&w->reader, &t->set, index, &w->record, reterr);
}

static pst_status tfrecord_intact(void *source, uint64_t index, pst_error *reterr)
{
    return shard_set_intact(&((struct tfrecord *)source)->set, index, reterr);
}

static uint64_t tfrecord_bytes_of(const void *source, uint64_t index)
{
    const struct shard_set *s = &((const struct tfrecord *)source)->set;
    const struct set_shard *shard = &s->shards[shard_set_find(s, index)];
    return shard->entries[index - shard->first].length + FRAME_BYTES;
}

static void tfrecord_locate(const void *source, uint64_t index, size_t field, struct source_place *ret)
{
    const struct shard_set *s = &((const struct tfrecord *)source)->set;
    const struct set_shard *shard = &s->shards[shard_set_find(s, index)];
    uint64_t record = index - shard->first;
    (void)field;
    *ret =
        (struct source_place){.path = pst_shard_path(shard->shard), .record = record, .offset = shard->entries[record].offset};
}

static bool tfrecord_entropy(const void *source, uint64_t index, struct entropy_home *ret)
{
    return shard_set_entropy(&((const struct tfrecord *)source)->set, index, ret);
}

static pst_status stream_open(void *source, void **ret, pst_error *reterr)
{
    struct tfrecord *t = source;
    struct tfrecord_stream *stream = NULL;
    pst_status st = tfrecord_stream_open(&stream, &t->set, t->begun, t->no_verify, t->damage, reterr);
    if (st == PST_OK)
        *ret = stream;
    return st;
}

static pst_status stream_next(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    const pst_bytes *record;
    (void)ctx;
    pst_status st = tfrecord_stream_next(stream, &record, reterr);
    if (st == PST_OK)
        out[0].data = (void *)(uintptr_t)record;
    return st;
}

static void stream_locate(const void *stream, struct source_place *ret)
{
    tfrecord_stream_locate(stream, ret);
}

static void stream_close(void *stream)
{
    tfrecord_stream_close(stream);
}

const struct source_class source_tfrecord = {
    .op = {.size = sizeof(pst_op_class),
           .name = "tfrecord",
           .doc = "The records of TFRecord files, one element per record, in the field record. Files with an index "
                  "(created on first use) are read in any order; if one file is compressed or a pipe, all files are "
                  "read from beginning to end. Checksums are verified when a record is read for the first time.",
           .example = "tfrecord shards/ | shuffle | example | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = tfrecord_open,
    .close = tfrecord_close,
    .spec = tfrecord_spec,
    .class_names = tfrecord_class_names,
    .count = tfrecord_count,
    .fingerprint = tfrecord_fingerprint,
    .describe = tfrecord_describe,
    .keep = tfrecord_keep,
    .part = tfrecord_part,
    .worker_size = sizeof(struct worker),
    .worker_start = tfrecord_worker_start,
    .worker_stop = tfrecord_worker_stop,
    .ahead = tfrecord_ahead,
    .offer = tfrecord_offer,
    .load = tfrecord_load,
    .intact = tfrecord_intact,
    .cause = PST_CAUSE_DATA_CRC,
    .bytes_of = tfrecord_bytes_of,
    .entropy = tfrecord_entropy,
    .locate = tfrecord_locate,
    .stream_open = stream_open,
    .stream_next = stream_next,
    .stream_locate = stream_locate,
    .stream_close = stream_close,
};
