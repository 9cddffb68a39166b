/* text.c: text files, one record per line, in the feature `text`. Empty lines are records too; line breaks are not
 * stored, be they LF or CRLF. */
#include "pack/sources/text_rows.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

static pst_status text_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    static const char *const extensions[] = {".txt", ".text", ".jsonl", ".ndjson", NULL};
    (void)reterr;
    *ret = info && info->is_regular && pack_source_has_extension(path, extensions);
    return PST_OK;
}

static pst_status text_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct rows *r = s->state = mem_zalloc(sizeof(*r));
    if (!r || !pack_source_add_field(s, "text", PACK_TEXT, PST_BYTES, "string"))
        return fail_memory(reterr, "opening text");
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++)
        st = rows_add(r, s, o, o->paths[i], &(struct rows_visitor){0}, reterr);
    s->count = r->count;
    return st;
}

static void text_close(struct pack_source *s)
{
    if (s->state)
        rows_close(s->state);
    mem_free(s->state);
}

static const char *text_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    return rows_key(s->state, i, buffer);
}

static uint64_t text_estimate(const struct pack_source *s, uint64_t i)
{
    (void)i;
    return rows_estimate(s->state);
}

static pst_status text_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr)
{
    const char *row = NULL;
    size_t length = 0;
    pst_status st = rows_get(s->state, worker, i, &row, &length, reterr);
    if (st == PST_OK)
        values[0] = (struct pack_value){.present = true, .count = length, .data = row};
    return st;
}

static void text_worker_finish(void *worker)
{
    file_window_finish(&((struct rows_worker *)worker)->window);
}

const struct pack_source_class pack_source_text = {
    .name = "text",
    .doc = "text files, one record per line",
    .matches = text_matches,
    .open = text_open,
    .close = text_close,
    .key = text_key,
    .estimate = text_estimate,
    .worker_size = sizeof(struct rows_worker),
    .load = text_load,
    .worker_finish = text_worker_finish,
};
