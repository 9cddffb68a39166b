/* file_table.c: a table of files, and reading one of them into the worker's buffer.
 *
 * Promises: a file is read whole, as it is at that time, with three system calls. Leaves to others: which files there are and
 * what they mean. */
#include "source/file_table.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "io/file.h"
#include "record/damage.h"

#include <inttypes.h>
#include <string.h>

#define LOOKERS 8u
#define LOOK_AT 1024u /* files a task */
#define GROWTH  ((size_t)64 << 10)

enum { IMAGE, LABEL, KEY }; /* fields; without labels the key is second */

void file_table_finish(struct file_table *t)
{
    path_list_finish(&t->classes);
    path_list_finish(&t->paths);
    mem_free(t->items);
    mem_free(t->marks);
    *t = (struct file_table){0};
}

pst_status file_table_add(struct file_table *t, char *path, size_t key, union file_label label, pst_error *reterr)
{
    struct path_list *l = &t->paths;
    if (!path || mem_grow((void **)&l->paths, &l->capacity, l->count + 1, sizeof(*l->paths)) < 0 ||
        mem_grow((void **)&t->items, &t->capacity, l->count + 1, sizeof(*t->items)) < 0) {
        mem_free(path);
        return fail_memory(reterr, "listing the files");
    }
    t->items[l->count] = (struct file_item){.label = label, .key = key};
    l->paths[l->count++] = path;
    return PST_OK;
}

void file_table_filter(struct file_table *t, const bool *kept)
{
    size_t n = 0;
    for (size_t i = 0; i < t->paths.count; i++) {
        if (!kept[i]) {
            mem_free(t->paths.paths[i]);
            continue;
        }
        t->paths.paths[n] = t->paths.paths[i];
        t->items[n++] = t->items[i];
    }
    t->paths.count = n;
}

/* ---- Looking at the files ---- */

static pst_status look_at(void *user, size_t task, pst_error *reterr)
{
    struct file_table *t = user;
    size_t end = (task + 1) * LOOK_AT < t->paths.count ? (task + 1) * LOOK_AT : t->paths.count;
    for (size_t i = task * LOOK_AT; i < end; i++) {
        const char *path = t->paths.paths[i], *key = path + t->items[i].key;
        struct file_info info = {.size = FILE_ITEM_MISSING};
        pst_status st = file_stat(path, &info, reterr);
        if (st < 0 && !(st == PST_ENOTFOUND && t->tolerant))
            return st;
        if (st == PST_OK && !info.is_regular)
            return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "is a %s, not a file",
                               info.is_folder ? "folder" : "device or pipe");
        uint64_t facts[] = {info.size, st == PST_OK ? (uint64_t)info.mtime_ns : 0, (uint64_t)t->items[i].label.number};
        t->items[i].size = info.size;
        t->marks[i] = hash_bytes(key, strlen(key), hash_bytes(facts, sizeof(facts), 0));
    }
    return PST_OK;
}

pst_status file_table_look(struct file_table *t, const struct source_env *env, pst_error *reterr)
{
    size_t count = t->paths.count;
    t->tolerant = damage_tolerated(env->damage);
    t->marks = mem_array(count, sizeof(*t->marks));
    if (!t->marks)
        return fail_memory(reterr, "listing the files");
    pst_status st = parallel_each((count + LOOK_AT - 1) / LOOK_AT, LOOKERS, look_at, t, reterr);
    if (st == PST_OK) {
        t->fingerprint = hash_bytes(t->marks, count * sizeof(*t->marks), t->labelled);
        for (size_t i = 0; i < count; i++)
            t->bytes += t->items[i].size == FILE_ITEM_MISSING ? 0 : t->items[i].size;
    }
    mem_free(t->marks);
    t->marks = NULL;
    return st;
}

/* ---- As a source ---- */

void file_table_close(void *source)
{
    if (source)
        file_table_finish(source);
    mem_free(source);
}

void file_table_spec(const void *source, pst_spec *ret)
{
    const struct file_table *t = source;
    static const pst_field labelled[] = {
        [IMAGE] = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1},
        [LABEL] = {.name = "label", .dtype = PST_DTYPE_I64, .alias = -1},
        [KEY] = {.name = "key", .dtype = PST_DTYPE_BYTES, .alias = -1},
    };
    static const pst_field real[] = {
        [IMAGE] = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1},
        [LABEL] = {.name = "label", .dtype = PST_DTYPE_F64, .alias = -1},
        [KEY] = {.name = "key", .dtype = PST_DTYPE_BYTES, .alias = -1},
    };
    static const pst_field plain[] = {
        [IMAGE] = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1},
        [KEY - 1] = {.name = "key", .dtype = PST_DTYPE_BYTES, .alias = -1},
    };
    *ret = t->labelled ? (pst_spec){.count = 3, .field = t->real_labels ? real : labelled} : (pst_spec){.count = 2, .field = plain};
}

pst_status file_table_class_names(const void *source, struct path_list *ret, pst_error *reterr)
{
    const struct file_table *t = source;
    pst_status st = PST_OK;
    for (size_t i = 0; i < t->classes.count && st == PST_OK; i++)
        st = path_list_add(ret, t->classes.paths[i], reterr);
    return st;
}

uint64_t file_table_count(const void *source)
{
    return ((const struct file_table *)source)->paths.count;
}

uint64_t file_table_fingerprint(const void *source)
{
    return ((const struct file_table *)source)->fingerprint;
}

void file_table_need(void *source, const bool *fields)
{
    ((struct file_table *)source)->no_image = !fields[IMAGE];
}

uint64_t file_table_bytes_of(const void *source, uint64_t index)
{
    uint64_t size = ((const struct file_table *)source)->items[index].size;
    return size == FILE_ITEM_MISSING ? 0 : size;
}

void file_table_locate(const void *source, uint64_t index, size_t field, struct source_place *ret)
{
    (void)field;
    *ret = (struct source_place){((const struct file_table *)source)->paths.paths[index], PST_NOWHERE, PST_NOWHERE};
}

void file_table_worker_stop(void *source, void *worker)
{
    (void)source;
    mem_free(((struct file_worker *)worker)->buffer);
}

/* Opening every file twice pays only where reading waits for storage. */
void file_table_ahead(void *source, void *worker, const uint64_t *index, size_t count)
{
    const struct file_table *t = source;
    struct file_worker *w = worker;
    if (t->no_image || !cold_watch_look(&w->cold, NULL))
        return;
    for (size_t i = 0; i < count; i++) {
        int fd = -1;
        if (t->items[index[i]].size != FILE_ITEM_MISSING && file_open_read(&fd, t->paths.paths[index[i]], NULL) == PST_OK)
            file_fetch(fd, 0, (size_t)t->items[index[i]].size);
        file_close(fd);
    }
}

static pst_status fail_large(const char *path, uint64_t size, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ELIMIT, path, PST_NOWHERE, PST_NOWHERE,
                       "%" PRIu64 " bytes, at most %" PRIu64 " are read", size, PST_MAX_RECORD_BYTES);
}

/* The file has become longer than it was, `length` bytes at least. */
static pst_status check_growth(const char *path, uint64_t length, pst_error *reterr)
{
    struct file_info info;
    pst_status st = file_stat(path, &info, reterr);
    if (st == PST_OK && info.size > length)
        length = info.size;
    return st == PST_OK && length > PST_MAX_RECORD_BYTES ? fail_large(path, length, reterr) : st;
}

/* Reads to the end, which need not be where it was when the file was looked at. */
static pst_status read_file(struct file_worker *w, const char *path, uint64_t expected, pst_error *reterr)
{
    int fd = -1;
    size_t length = 0, got = 0;
    pst_status st = file_open_read(&fd, path, reterr);
    for (size_t room = (size_t)expected + 1; st == PST_OK; room = length + GROWTH) { /* one byte more shows the end */
        if (mem_grow((void **)&w->buffer, &w->buffer_size, room, 1) < 0) {
            st = fail_memory_at(reterr, path, "allocating its %zu bytes", room);
            break;
        }
        st = file_read_at(fd, path, w->buffer + length, room - length, length, &got, reterr);
        length += st == PST_OK ? got : 0;
        if (length < room)
            break;
        st = check_growth(path, length, reterr);
    }
    file_close(fd);
    w->image = (pst_bytes){.data = w->buffer, .length = length};
    return st;
}

pst_status file_table_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct file_table *t = source;
    struct file_worker *w = worker;
    struct file_item *item = &t->items[index];
    const char *path = t->paths.paths[index], *key = path + item->key;
    (void)ctx;
    if (item->size == FILE_ITEM_MISSING)
        return pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE, "no such file");
    if (item->size > PST_MAX_RECORD_BYTES)
        return fail_large(path, item->size, reterr);
    if (!t->no_image) {
        pst_status st = read_file(w, path, item->size, reterr);
        if (st < 0)
            return st;
    } else {
        w->image = (pst_bytes){0};
    }
    w->key = (pst_bytes){.data = (const uint8_t *)key, .length = strlen(key)};
    out[IMAGE].data = &w->image;
    if (t->labelled)
        out[LABEL].data = &item->label;
    out[t->labelled ? KEY : KEY - 1].data = &w->key;
    return PST_OK;
}
