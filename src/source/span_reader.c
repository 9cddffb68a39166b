/* span_reader.c: from the number of a span to its bytes.
 *
 * The spans of a slice are located when it is announced, and brought into the processor's caches a few elements before they
 * are used; those that are not in memory are requested from storage at once. */
#include "source/span_set.h"

#include "base/error.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

#define LINE        64u
#define LINES       4u /* cache lines of a span that are prefetched */
#define LEAD        8u /* spans between bringing one in and using it */
#define FETCH_GRAIN ((uint64_t)64 << 10)

static size_t find_file(const struct span_set *s, uint64_t index)
{
    size_t low = 0, high = s->paths.count; /* the file is in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (s->firsts[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void locate(const struct span_set *s, size_t k, uint64_t index, struct span_place *ret)
{
    const struct span_file *f = &s->files[k];
    uint64_t i = index - f->first;
    uint64_t begin = s->fixed ? f->base + i * (s->step ? s->step : s->fixed) : span_index_begin(&f->index, i);
    uint64_t end = s->fixed ? begin + s->fixed : span_index_end(&f->index, i);
    const uint8_t *data = atomic_load_explicit(&f->data, memory_order_relaxed);
    bool inside = begin <= end && end <= f->bytes;
    *ret = (struct span_place){.file = k, .index = index, .begin = begin, .end = end, .data = data && inside ? data + begin : NULL};
}

static inline void bring_in(const struct span_place *p)
{
    for (unsigned i = 0; p->data && i < LINES && i * LINE < p->end - p->begin; i++)
        __builtin_prefetch(p->data + (size_t)i * LINE);
}

/* Checks one of the files now and then: a mapping that has become too long is not used any more. */
static void look_at_files(struct span_set *s)
{
    struct file_info info;
    size_t k = atomic_fetch_add_explicit(&s->looked, 1, memory_order_relaxed) % s->paths.count;
    if (s->files[k].mapping.data && file_stat(s->paths.paths[k], &info, NULL) == PST_OK && info.size < s->files[k].bytes)
        atomic_store_explicit(&s->files[k].data, NULL, memory_order_relaxed);
}

/* Asks storage for the neighbourhood of every span, once for those that share it. */
static void fetch(const struct span_set *s, const struct span_worker *w)
{
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < w->count; i++) {
        const struct span_place *p = &w->places[i];
        const struct span_file *f = &s->files[p->file];
        uint64_t begin = p->begin & ~(FETCH_GRAIN - 1), end = (p->end + FETCH_GRAIN - 1) & ~(FETCH_GRAIN - 1);
        end = end < f->bytes ? end : f->bytes;
        if (begin == last || begin >= end)
            continue;
        last = begin;
        if (p->data)
            file_fetch_mapped(f->mapping.data + begin, (size_t)(end - begin));
        else if (f->fd >= 0)
            file_fetch(f->fd, begin, (size_t)(end - begin));
    }
}

void span_set_ahead(void *source, void *worker, const uint64_t *index, size_t count)
{
    struct span_set *s = source;
    struct span_worker *w = worker;
    size_t file = 0;
    bool renewed, cold = cold_watch_look(&w->cold, &renewed);
    if (renewed)
        look_at_files(s);
    w->count = w->next = 0;
    if (mem_grow((void **)&w->places, &w->capacity, count, sizeof(*w->places)) < 0)
        return; /* every span is then located when it is loaded */
    for (size_t i = 0; i < count; i++) {
        if (index[i] < s->firsts[file] || index[i] >= s->firsts[file + 1])
            file = find_file(s, index[i]);
        locate(s, file, index[i], &w->places[i]);
    }
    w->count = count;
    if (cold)
        fetch(s, w);
    for (size_t i = 0; i < LEAD && i < count; i++)
        bring_in(&w->places[i]);
}

/* The place of an announced span; NULL: it was not announced. */
static struct span_place *next_place(struct span_worker *w, uint64_t index)
{
    size_t i = w->next;
    while (i < w->count && w->places[i].index != index)
        i++;
    if (i == w->count)
        return NULL;
    w->next = i + 1;
    if (i + LEAD < w->count)
        bring_in(&w->places[i + LEAD]);
    return &w->places[i];
}

static pst_status read_span(struct span_set *s, struct span_worker *w, const struct span_place *p, const uint8_t **ret,
                            pst_error *reterr)
{
    const struct span_file *f = &s->files[p->file];
    const char *path = s->paths.paths[p->file];
    size_t length = (size_t)(p->end - p->begin), got = 0;
    int fd = f->fd;
    if (mem_grow((void **)&w->buffer, &w->buffer_size, length + 1, 1) < 0)
        return fail_memory_at(reterr, path, "allocating %zu bytes", length);
    pst_status st = fd < 0 ? file_open_read(&fd, path, reterr) : PST_OK;
    if (st == PST_OK)
        st = file_read_at(fd, path, w->buffer, length, p->begin, &got, reterr);
    if (f->fd < 0)
        file_close(fd);
    if (st == PST_OK && got < length)
        st = pst_fail_at(reterr, PST_ESTALE, path, p->index - f->first, p->begin,
                         "the file became shorter since it was opened; open it again");
    *ret = w->buffer;
    return st;
}

static pst_status check_place(const struct span_set *s, const struct span_place *p, pst_error *reterr)
{
    const struct span_file *f = &s->files[p->file];
    const char *path = s->paths.paths[p->file];
    if (p->begin > p->end || p->end > f->bytes)
        return pst_fail_at(reterr, PST_ESTALE, f->index.path ? f->index.path : path, p->index - f->first, PST_NOWHERE,
                           "the index changed after it was opened, and leads out of the file; open it again");
    if (p->end - p->begin > s->max_bytes)
        return pst_fail_at(reterr, PST_ELIMIT, path, p->index - f->first, p->begin,
                           "%" PRIu64 " bytes, the limit is %" PRIu64 "; max_record= raises it", p->end - p->begin,
                           s->max_bytes);
    return PST_OK;
}

pst_status span_set_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct span_set *s = source;
    struct span_worker *w = worker;
    struct span_place *p = next_place(w, index), alone;
    (void)ctx;
    if (!p) {
        p = &alone;
        locate(s, find_file(s, index), index, p);
    }
    const uint8_t *data = p->data;
    pst_status st = check_place(s, p, reterr);
    if (st == PST_OK && !data)
        st = read_span(s, w, p, &data, reterr);
    if (st < 0)
        return st;
    struct span_window window = {s->paths.paths[p->file], data, (size_t)(p->end - p->begin), p->begin,
                                 p->end == s->files[p->file].bytes};
    st = s->class->parse(s, (uint8_t *)worker + SPAN_WORKER_SIZE, &window, out, reterr);
    uint64_t line = st == PST_ECORRUPT && s->class->in_lines && reterr ? span_line_at(&s->files[p->file], window.path, p->begin) : 0;
    if (line) {
        char message[sizeof(reterr->message)];
        memcpy(message, reterr->message, sizeof(message));
        pst_fail(reterr, st, "line %" PRIu64 ": %s", line, message);
    }
    return st;
}

void span_set_worker_stop(void *source, void *worker)
{
    const struct span_set *s = source;
    struct span_worker *w = worker;
    if (s->class->room_stop)
        s->class->room_stop((uint8_t *)worker + SPAN_WORKER_SIZE);
    mem_free(w->places);
    mem_free(w->buffer);
}

pst_status span_set_intact(void *source, uint64_t index, pst_error *reterr)
{
    struct span_set *s = source;
    struct span_place p;
    locate(s, find_file(s, index), index, &p);
    struct span_file *f = &s->files[p.file];
    if (mapping_broken(&f->index.mapping))
        return mapping_fail(&f->index.mapping, f->index.path, index - f->first, PST_NOWHERE, reterr);
    if (!mapping_broken(&f->mapping))
        return PST_OK;
    atomic_store_explicit(&f->data, NULL, memory_order_relaxed);
    return mapping_fail(&f->mapping, s->paths.paths[p.file], index - f->first, p.begin, reterr);
}

uint64_t span_set_bytes_of(const void *source, uint64_t index)
{
    const struct span_set *s = source;
    struct span_place p;
    locate(s, find_file(s, index), index, &p);
    return p.end >= p.begin ? p.end - p.begin : 0;
}

void span_set_locate(const void *source, uint64_t index, size_t field, struct source_place *ret)
{
    const struct span_set *s = source;
    struct span_place p;
    (void)field;
    locate(s, find_file(s, index), index, &p);
    *ret = (struct source_place){s->paths.paths[p.file], index - s->files[p.file].first, p.begin};
}
