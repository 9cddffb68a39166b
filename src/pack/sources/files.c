/* files.c: a table of image files, 32 bytes and a name each.
 *
 * Promises: a file is read straight to where it belongs, in one open and one read; one that changed its size since it
 * was listed is noticed. Leaves to others: which files there are, and whether they hold images. */
#include "pack/sources/files.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "io/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

pst_status files_create(struct pack_source *s, bool labelled, bool real, pst_error *reterr)
{
    s->state = mem_zalloc(sizeof(struct files));
    if (!s->state || !pack_source_add_field(s, "image", PACK_IMAGE, PST_BYTES, "uint8") ||
        (labelled && !pack_source_add_field(s, "label", real ? PACK_PLAIN : PACK_LABEL, real ? PST_FLOAT : PST_INT64,
                                            real ? "float32" : "int64")))
        return fail_memory(reterr, "listing the files");
    s->stores_key = true;
    return PST_OK;
}

pst_status files_add_root(struct pack_source *s, const char *path, unsigned split, pst_error *reterr)
{
    struct files *f = s->state;
    void *roots = f->roots;
    char *copy = arena_strndup(&s->arena, path, strlen(path));
    if (!copy || mem_grow(&roots, &f->root_capacity, f->root_count + 1, sizeof(*f->roots)) < 0)
        return fail_memory(reterr, "listing the files");
    f->roots = roots;
    f->roots[f->root_count++] = (struct file_root){copy, split};
    return PST_OK;
}

pst_status files_add(struct pack_source *s, const char *path, const char *key, union file_label label, pst_error *reterr)
{
    struct files *f = s->state;
    struct file_info info = {.size = FILES_MISSING};
    pst_status st = file_stat(path, &info, reterr);
    if (st < 0 && st != PST_ENOTFOUND)
        return st;
    void *items = f->items;
    const char *copy = arena_strndup(&s->arena, key, strlen(key));
    if (!copy || mem_grow(&items, &f->capacity, s->count + 1, sizeof(*f->items)) < 0)
        return fail_memory(reterr, "listing the files");
    f->items = items;
    f->items[s->count++] = (struct file_item){copy, info.size, label, (uint32_t)(f->root_count - 1)};
    pack_source_mix_file(s, key, false, st < 0 ? 0 : info.size, st < 0 ? 0 : info.mtime_ns);
    pack_source_mix(s, &label, sizeof(label));
    return PST_OK;
}

void files_close(struct pack_source *s)
{
    struct files *f = s->state;
    if (!f)
        return;
    mem_free(f->items);
    mem_free(f->roots);
    mem_free(f);
}

const char *files_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    const char *key = ((const struct files *)s->state)->items[i].key;
    size_t length = secret_free_length(key);
    if (!key[length])
        return key;
    key += length < PACK_KEY_BYTES ? 0 : length - (PACK_KEY_BYTES - 1); /* the signature of an address must not be in the shards */
    snprintf(buffer, PACK_KEY_BYTES, "%.*s", (int)(length < PACK_KEY_BYTES ? length : PACK_KEY_BYTES - 1), key);
    return buffer;
}

uint64_t files_estimate(const struct pack_source *s, uint64_t i)
{
    uint64_t size = ((const struct files *)s->state)->items[i].size;
    return size == FILES_MISSING ? 0 : size;
}

unsigned files_split(const struct pack_source *s, uint64_t i)
{
    const struct files *f = s->state;
    return f->roots[f->items[i].root].split;
}

static pst_status read_file(const struct pack_value *v, void *buffer, pst_error *reterr)
{
    int fd = -1;
    size_t got = 0;
    char beyond;
    struct iovec pieces[2] = {{buffer, v->length}, {&beyond, 1}}; /* one more byte shows whether the file has grown */
    pst_status st = file_open_read(&fd, v->path, reterr);
    if (st == PST_OK)
        st = file_readv_at(fd, v->path, pieces, 2, 0, &got, reterr);
    file_close(fd);
    if (st == PST_OK && got != v->length)
        st = pst_fail_at(reterr, PST_ESTALE, v->path, PST_NOWHERE, PST_NOWHERE,
                         "had %zu bytes when it was listed and has %s now: it was changed while it was packed; run again",
                         v->length, got > v->length ? "more" : "less");
    return st;
}

pst_status files_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr)
{
    const struct files *f = s->state;
    const struct file_item *item = &f->items[i];
    const char *root = f->roots[item->root].path;
    struct files_worker *w = worker;
    w->path.length = 0;
    if (*root && !file_is_anchored(item->key)) {
        text_add(&w->path, root);
        text_add(&w->path, "/");
    }
    text_add(&w->path, item->key);
    if (w->path.failed)
        return fail_memory(reterr, "listing the files");
    if (item->size == FILES_MISSING)
        return pst_fail_at(reterr, PST_ENOTFOUND, w->path.data, PST_NOWHERE, PST_NOWHERE, "no such file");
    if (item->size > PST_MAX_RECORD_BYTES)
        return pst_fail_at(reterr, PST_ELIMIT, w->path.data, PST_NOWHERE, PST_NOWHERE,
                           "%" PRIu64 " bytes are more than a record may hold (%" PRIu64 ")", item->size, PST_MAX_RECORD_BYTES);
    size_t length = (size_t)item->size;
    values[0] =
        (struct pack_value){.present = true, .count = length, .length = length, .read = read_file, .path = w->path.data};
    if (s->field_count > 1) {
        w->label = item->label;
        values[1] = (struct pack_value){.present = true, .count = 1, .data = &w->label};
    }
    return PST_OK;
}

void files_worker_finish(void *worker)
{
    text_finish(&((struct files_worker *)worker)->path);
}
