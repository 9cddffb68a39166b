/* span_stream.c: spans in the order of their files: for compressed files and pipes, and to make an index.
 *
 * Promises: memory is bounded by the longest span, which is bounded by the set's limit; a damaged span is reported to the
 * damage log, which decides whether the stream goes on; a pipe is read once. */
#include "source/span_set.h"

#include "base/error.h"
#include "base/memory.h"
#include "record/byte_window.h"
#include "record/damage.h"

#include <inttypes.h>
#include <string.h>

/* ---- One file ---- */

struct span_pass {
    struct span_set *set;
    const char *path;
    int fd; /* -1: the caller's */
    struct source window;
    size_t used; /* bytes of the window that the last span ended at */
};

/* `fd` -1: opens the file. `path` must outlive the pass. */
pst_status span_pass_open(struct span_pass **ret, struct span_set *s, const char *path, int fd, pst_error *reterr)
{
    struct span_pass *p = mem_zalloc(sizeof(*p));
    if (!p)
        return fail_memory_at(reterr, path, "reading it");
    p->set = s;
    p->path = path;
    p->fd = -1;
    p->window.stop = s->stop;
    p->window.no_zlib = true;
    struct file_info info = {.is_regular = true};
    pst_status st = fd < 0 ? file_open_read(&p->fd, path, reterr) : PST_OK;
    if (st == PST_OK && fd < 0)
        st = file_fstat(p->fd, path, &info, reterr);
    if (st == PST_OK)
        st = source_start(&p->window, fd < 0 ? p->fd : fd, path,
                          fd < 0 ? span_compression(s->class, path, info.is_regular) : PST_COMPRESSION_NONE, reterr);
    if (st < 0) {
        span_pass_close(p);
        return st;
    }
    *ret = p;
    return PST_OK;
}

struct span_pass *span_pass_close(struct span_pass *p)
{
    if (p) {
        source_finish(&p->window);
        file_close(p->fd);
    }
    mem_free(p);
    return NULL;
}

static struct span_window window_of(const struct span_pass *p)
{
    const struct source *s = &p->window;
    return (struct span_window){p->path, source_data(s), source_available(s), s->offset, s->ended && !s->broken};
}

/* The file is damaged after the window, if it is a compressed one. */
static pst_status fail_broken(const struct span_pass *p, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ECORRUPT, p->path, PST_NOWHERE, p->window.offset, "%s", p->window.damage.message);
}

pst_status span_pass_head(struct span_pass *p, size_t want, struct span_window *ret, pst_error *reterr)
{
    pst_status st = source_need(&p->window, want, reterr);
    *ret = window_of(p);
    return st == PST_OK && p->window.broken && ret->length < want && ret->length == 0 ? fail_broken(p, reterr) : st;
}

/* A span is so long that its end is not sought any more. One that is only too long is refused where it is used. */
static bool is_endless(const struct span_pass *p, size_t length)
{
    return length > p->set->max_bytes && length >= SOURCE_PIECE;
}

static pst_status fail_endless(const struct span_pass *p, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ELIMIT, p->path, PST_NOWHERE, p->window.offset,
                       "%s: one has more than %" PRIu64 " bytes, the limit%s; max_record= raises it", p->set->class->kind,
                       p->set->max_bytes, strcmp(p->set->class->kind, "rows") == 0 ? "; is a quote never closed?" : "");
}

/* Widens the window: a little while it is small, as a pipe may have no more for now; then by so much that looking at it again
 * and again stays linear. */
static pst_status widen(struct span_pass *p, pst_error *reterr)
{
    struct source *s = &p->window;
    size_t have = source_available(s);
    if (s->ended)
        return fail_broken(p, reterr);
    if (is_endless(p, have))
        return fail_endless(p, reterr);
    return source_need(s, have < SOURCE_PIECE ? have + 1 : 2 * have, reterr);
}

pst_status span_pass_next(struct span_pass *p, void *room, struct span_window *ret, pst_error *reterr)
{
    const struct span_class *class = p->set->class;
    source_advance(&p->window, p->used);
    p->used = 0;
    pst_status st = source_available(&p->window) || p->window.ended ? PST_OK : source_need(&p->window, 1, reterr);
    while (st == PST_OK) {
        struct span_window w = window_of(p);
        size_t begin = 0, end = 0;
        enum span_found found = SPAN_END;
        st = class->cut(p->set, room, &w, &begin, &end, &found, reterr);
        if (st < 0)
            return st;
        if (found == SPAN_FOUND && is_endless(p, end - begin))
            return fail_endless(p, reterr);
        if (found == SPAN_FOUND) {
            *ret = (struct span_window){p->path, w.data + begin, end - begin, w.offset + begin, w.ended};
            p->used = end;
            return PST_OK;
        }
        if (found == SPAN_END)
            return p->window.broken && p->window.ended ? fail_broken(p, reterr) : PST_END;
        st = widen(p, reterr);
    }
    return st;
}

/* ---- All files ---- */

struct span_stream {
    struct span_set *set;
    size_t at;
    struct span_pass *pass;
    uint64_t record; /* number of the next span within the file */
    struct source_place place;
    _Alignas(64) uint8_t room[];
};

static pst_status create(struct span_stream **ret, struct span_set *s, pst_error *reterr)
{
    size_t bytes = sizeof(struct span_stream) + s->class->room_size;
    struct span_stream *t = mem_aligned(bytes);
    if (!t)
        return fail_memory(reterr, "opening the stream of %s", s->class->kind);
    memset(t, 0, bytes);
    t->set = s;
    *ret = t;
    return PST_OK;
}

pst_status span_stream_prime(struct span_set *s, struct span_pass *p, pst_error *reterr)
{
    pst_status st = create(&s->primed, s, reterr);
    if (st < 0) {
        span_pass_close(p);
        return st;
    }
    s->primed->pass = p;
    while (s->primed->at < s->paths.count && s->paths.paths[s->primed->at] != p->path)
        s->primed->at++;
    s->begun[s->primed->at] = true;
    return PST_OK;
}

pst_status span_stream_open(void *source, void **ret, pst_error *reterr)
{
    struct span_set *s = source;
    struct span_stream *t = s->primed;
    pst_status st = t ? PST_OK : create(&t, s, reterr);
    s->primed = NULL;
    if (st == PST_OK)
        *ret = t;
    return st;
}

void span_stream_close(void *stream)
{
    struct span_stream *t = stream;
    if (!t)
        return;
    if (t->set->class->room_stop)
        t->set->class->room_stop(t->room);
    span_pass_close(t->pass);
    mem_free(t);
}

static pst_status open_pass(struct span_stream *t, pst_error *reterr)
{
    const char *path = t->set->paths.paths[t->at];
    struct file_info info;
    pst_status st = file_stat(path, &info, reterr);
    if (st == PST_OK && !info.is_regular && t->set->begun[t->at])
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                         "a pipe can be read only once and cannot seek, and a part of it is gone; save it to a file first, or "
                         "let `penstock pack` make shards of it, which can be read in any order");
    if (st == PST_OK)
        st = span_pass_open(&t->pass, t->set, path, -1, reterr);
    t->set->begun[t->at] |= st == PST_OK;
    t->record = 0;
    return st;
}

/* Reports damage. OK: it is tolerated. */
static pst_status tolerate(const struct span_stream *t, pst_cause cause, pst_error *e, pst_error *reterr)
{
    pst_status st = e->status;
    if (st == PST_ENOMEM || st == PST_ECANCELLED || st == PST_ESTALE || st == PST_EIO || st == PST_EUNSUPPORTED) {
        if (reterr)
            *reterr = *e;
        return st;
    }
    pst_damage damage = damage_of_error(cause, e);
    return pst_damage_log_add(t->set->met, &damage, e->message, reterr);
}

/* The next span of the current file, as an element. */
static pst_status next_of_file(struct span_stream *t, pst_tensor *out, pst_error *reterr)
{
    const struct span_class *class = t->set->class;
    struct span_window w;
    pst_error e = {0};
    for (;;) {
        pst_status st = span_pass_next(t->pass, t->room, &w, &e);
        if (st < 0 && e.record == PST_NOWHERE)
            e.record = t->record;
        if (st < 0) {
            bool broken = t->pass->window.broken;
            st = tolerate(t, broken ? PST_CAUSE_COMPRESSION : PST_CAUSE_TRUNCATED, &e, reterr);
            return st == PST_OK ? PST_END : st;
        }
        if (st == PST_END)
            return st;
        t->place = (struct source_place){w.path, t->record++, w.offset};
        bool large = w.length > t->set->max_bytes;
        st = large ? pst_fail(&e, PST_ELIMIT, "%zu bytes, the limit is %" PRIu64 "; max_record= raises it", w.length,
                              t->set->max_bytes)
                   : class->parse(t->set, t->room, &w, out, &e);
        if (st == PST_OK)
            return st;
        st = pst_fail_at(&e, st, w.path, t->place.record, w.offset, "%s", e.message);
        st = tolerate(t, large ? PST_CAUSE_TOO_LARGE : PST_CAUSE_VALUE, &e, reterr);
        if (st < 0)
            return st;
    }
}

pst_status span_stream_next(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct span_stream *t = stream;
    (void)ctx;
    for (; t->at < t->set->paths.count; t->at++) {
        pst_status st = t->pass ? PST_OK : open_pass(t, reterr);
        if (st == PST_OK)
            st = next_of_file(t, out, reterr);
        if (st != PST_END)
            return st;
        t->pass = span_pass_close(t->pass);
    }
    return PST_END;
}

void span_stream_locate(const void *stream, struct source_place *ret)
{
    *ret = ((const struct span_stream *)stream)->place;
}
