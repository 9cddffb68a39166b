/* tfrecord.c: TFRecord files that exist already: their records pass through untouched, to be resharded, shuffled, split,
 * recompressed or freed of damage. The files that describe them (features.json, labels) are copied. */
#include "pack/sources/spool.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/walk.h"
#include "pack/report.h"
#include "record/find.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_CARRIED ((size_t)16 << 20) /* bytes of a features.json */

struct record_file {
    pst_shard *shard;
    const char *path, *name; /* as the caller knows them */
    uint64_t first;
};

struct tfrecords {
    struct record_file *files;
    size_t count, capacity;
    struct spools spools;
    pst_damage_log *damage;
};

static pst_status find_one(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    (void)folder_fd, (void)reterr;
    *(bool *)user |= entry->d_type != DT_DIR && find_is_shard(entry->d_name);
    return PST_OK;
}

static pst_status tfrecord_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    if (info && info->is_folder)
        return walk_names(path, find_one, ret, reterr);
    *ret = info && find_is_shard(file_base(path));
    return PST_OK;
}

/* ---- Opening ---- */

static pst_status add_file(struct pack_source *s, const struct pack_opening *o, const char *path, pst_error *reterr)
{
    struct tfrecords *t = s->state;
    struct spool *sp = spools_add(&t->spools);
    void *files = t->files;
    if (!sp || mem_grow(&files, &t->capacity, t->count + 1, sizeof(*t->files)) < 0)
        return fail_memory(reterr, "opening the TFRecords");
    t->files = files;
    pst_status st = spool_open(sp, s, o, path, SPOOL_RECORDS, reterr);
    if (st < 0)
        return st;
    struct record_file *f = &t->files[t->count++];
    *f = (struct record_file){.path = sp->path, .name = file_base(sp->path), .first = s->count};
    pst_shard_options options = {.size = sizeof(options), .no_write = true, .damage = t->damage};
    st = pst_shard_open(&f->shard, sp->unpacked ? sp->temp.temp_path : path, &options, reterr);
    if (st < 0)
        return sp->unpacked ? pst_fail_at(reterr, st, f->path, reterr->record, reterr->offset, "%s", reterr->message) : st;
    s->count += pst_shard_count(f->shard);
    if (!sp->unpacked)
        spool_close(sp); /* the shard has a descriptor of its own */
    return pack_ticker_tell(o->ticker, "listing", s->count, 0, s->bytes, false, reterr);
}

static pst_status add_path(struct pack_source *s, const struct pack_opening *o, const char *path, pst_error *reterr)
{
    struct file_info info = {0};
    struct path_list files = {0};
    pst_status st = strcmp(path, "-") ? file_stat(path, &info, reterr) : PST_OK;
    if (st < 0 || !info.is_folder)
        return st < 0 ? st : add_file(s, o, path, reterr);
    st = find_shards(&files, &path, 1, reterr);
    if (st == PST_OK)
        st = find_missing(&files, &path, 1, "name the files to pack the others", reterr);
    for (size_t i = 0; st == PST_OK && i < files.count; i++)
        st = add_file(s, o, files.paths[i], reterr);
    path_list_finish(&files);
    return st;
}

static bool is_carried(const char *name)
{
    size_t n = strlen(name), m = strlen("labels.txt");
    return strcmp(name, "features.json") == 0 || strcmp(name, "labels.txt") == 0 ||
           (n > m && name[n - m - 1] == '.' && strcmp(name + n - m, "labels.txt") == 0);
}

static pst_status carry_file(struct pack_source *s, const char *path, pst_error *reterr)
{
    uint8_t *data = NULL;
    size_t length = 0;
    const char *name = file_base(path);
    pst_status st = file_read_all(&data, &length, path, MAX_CARRIED, reterr);
    if (st < 0)
        return st;
    void *carried = s->carried, *copy = arena_alloc(&s->arena, length + 1);
    name = arena_strndup(&s->arena, name, strlen(name));
    if (copy && name && mem_grow(&carried, &s->carried_capacity, s->carried_count + 1, sizeof(*s->carried)) == 0) {
        memcpy(copy, data, length);
        s->carried = carried;
        s->carried[s->carried_count++] = (struct pack_carried){name, copy, length};
        pack_source_mix(s, copy, length);
    } else {
        st = fail_memory(reterr, "opening the TFRecords");
    }
    mem_free(data);
    return st;
}

/* Takes along what lies beside the first file and describes it. */
static pst_status carry(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct file_info info = {0};
    struct path_list files = {0};
    const char *path = o->paths[0];
    if (strcmp(path, "-") == 0)
        return PST_OK;
    pst_status st = file_stat(path, &info, reterr);
    size_t n = info.is_folder ? strlen(path) : (size_t)(file_base(path) - path);
    char *folder = n ? mem_strndup(path, n) : mem_strdup(".");
    if (st == PST_OK)
        st = folder ? walk_files(&files, folder, false, reterr) : fail_memory(reterr, "opening the TFRecords");
    for (size_t i = 0; st == PST_OK && i < files.count; i++)
        if (is_carried(file_base(files.paths[i])))
            st = carry_file(s, files.paths[i], reterr);
    path_list_finish(&files);
    mem_free(folder);
    return st;
}

/* Reports data lost between records as if it were an item. */
static pst_status tell_damage(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct tfrecords *t = s->state;
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < pst_damage_log_places(t->damage); i++) {
        pst_damage d = pst_damage_log_place(t->damage, i);
        char key[PACK_KEY_BYTES], why[128];
        int k = snprintf(key, sizeof(key), "%s@%" PRIu64, file_base(d.path), d.offset);
        int w = snprintf(why, sizeof(why), "%s: %" PRIu64 " bytes at byte %" PRIu64 " belong to no record",
                         pst_cause_name(d.cause), d.bytes, d.offset);
        st = pack_report_skip(o->report, key, (size_t)k, why, (size_t)w, reterr);
    }
    return st;
}

static pst_status tfrecord_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    if (s->config->rename_count)
        return pst_fail(reterr, PST_EINVAL,
                        "features: the records of TFRecord files pass through untouched, nothing can be renamed");
    struct tfrecords *t = s->state = mem_zalloc(sizeof(*t));
    if (!t || !pack_source_add_field(s, "record", PACK_RECORD, PST_BYTES, "string"))
        return fail_memory(reterr, "opening the TFRecords");
    pst_policy policy = {.skip = s->config->bad.skip}; /* the budget is pack's to keep: it knows all that is lost */
    pst_status st = pst_damage_log_create(&t->damage, &policy, reterr);
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++)
        st = add_path(s, o, o->paths[i], reterr);
    if (st == PST_OK)
        st = tell_damage(s, o, reterr);
    if (st == PST_OK)
        st = carry(s, o, reterr);
    return st;
}

static void tfrecord_close(struct pack_source *s)
{
    struct tfrecords *t = s->state;
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        pst_shard_close(t->files[i].shard);
    mem_free(t->files);
    spools_close(&t->spools);
    pst_damage_log_destroy(t->damage);
    mem_free(t);
}

/* ---- Loading ---- */

static const struct record_file *file_of(const struct tfrecords *t, uint64_t i)
{
    size_t low = 0, high = t->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (t->files[middle].first <= i)
            low = middle;
        else
            high = middle;
    }
    return &t->files[low];
}

static const char *tfrecord_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    const struct record_file *f = file_of(s->state, i);
    snprintf(buffer, PACK_KEY_BYTES, "%s#%" PRIu64, f->name, i - f->first);
    return buffer;
}

static uint64_t tfrecord_estimate(const struct pack_source *s, uint64_t i)
{
    uint64_t offset, length;
    const struct record_file *f = file_of(s->state, i);
    pst_shard_locate(f->shard, i - f->first, &offset, &length);
    return length;
}

static pst_status read_record(const struct pack_value *v, void *buffer, pst_error *reterr)
{
    const struct record_file *f = v->from;
    size_t length = 0;
    pst_status st = pst_shard_read(f->shard, v->offset, buffer, v->length, &length, reterr);
    return st < 0 ? pst_fail_at(reterr, st, f->path, reterr->record, reterr->offset, "%s", reterr->message) : PST_OK;
}

static pst_status tfrecord_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values,
                                pst_error *reterr)
{
    (void)worker;
    const struct record_file *f = file_of(s->state, i);
    uint64_t offset, length;
    pst_shard_locate(f->shard, i - f->first, &offset, &length);
    if (length > PST_MAX_RECORD_BYTES)
        return pst_fail_at(reterr, PST_ELIMIT, f->path, i - f->first, offset,
                           "a record of %" PRIu64 " bytes is over the limit of %" PRIu64, length, PST_MAX_RECORD_BYTES);
    values[0] =
        (struct pack_value){.present = true, .count = (size_t)length, .length = (size_t)length, .read = read_record, .from = f};
    values[0].offset = i - f->first;
    return PST_OK;
}

const struct pack_source_class pack_source_tfrecord = {
    .name = "tfrecord",
    .doc = "TFRecord files: records pass through untouched",
    .matches = tfrecord_matches,
    .open = tfrecord_open,
    .close = tfrecord_close,
    .key = tfrecord_key,
    .estimate = tfrecord_estimate,
    .worker_size = 1,
    .load = tfrecord_load,
};
