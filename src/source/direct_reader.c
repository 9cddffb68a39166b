/* direct_reader.c: a slice is cut into windows of some megabytes. Each window's records are joined to runs, a run lies in the
 * window's memory as it lies in the file, and is read in pieces; a record is there when the pieces that it touches are. While
 * one window is used, the reads of the next are in flight. */
#include "source/direct_reader.h"

#include "base/memory.h"
#include "io/file.h"
#include "record/shard.h"

#include <inttypes.h>

#define PIECE      ((size_t)1 << 20)
#define DEPTH      32u
#define GAP        ((uint64_t)64 << 10) /* reading through is cheaper than another request */
#define MIN_WINDOW ((uint64_t)1 << 20)
#define MAX_WINDOW ((uint64_t)16 << 20)

/* How a record comes into the window. */
struct arrival {
    size_t first, last; /* pieces, `last` included */
    const uint8_t *frame;
    uint64_t behind; /* bytes from the first piece's begin to the record's end */
};

struct direct_window {
    size_t first, end; /* places */
    uint8_t *memory;
    size_t memory_size;
    struct read_request *pieces;
    size_t piece_count, piece_capacity;
    struct arrival *arrivals; /* by place, from `first` on */
    size_t arrival_capacity;
    int *owned; /* descriptors that are closed with the window */
    size_t owned_count, owned_capacity;
    pst_status status; /* of the planning: < 0 is every record's… */
    pst_error error;   /* …error */
};

static uint64_t align_down(uint64_t n)
{
    return n & ~(uint64_t)(FILE_DIRECT_ALIGNMENT - 1);
}

static uint64_t align_up(uint64_t n)
{
    return align_down(n + FILE_DIRECT_ALIGNMENT - 1);
}

static void close_owned(struct direct_window *w)
{
    while (w->owned_count)
        file_close(w->owned[--w->owned_count]);
}

static void window_destroy(struct direct_window *w)
{
    if (!w)
        return;
    close_owned(w);
    mem_free(w->owned);
    mem_free(w->memory);
    mem_free(w->pieces);
    mem_free(w->arrivals);
    mem_free(w);
}

void direct_reader_finish(struct direct_reader *d)
{
    reads_destroy(d->reads); /* before the memory they read into */
    window_destroy(d->windows[0]);
    window_destroy(d->windows[1]);
    read_order_finish(&d->order);
    *d = (struct direct_reader){0};
}

/* ---- Planning a window ---- */

/* Bytes that the runs take in memory: gaps between records are read as well. */
static uint64_t runs_bytes(const struct read_order *o)
{
    uint64_t bytes = 0;
    for (size_t r = 0; r < o->run_count; r++)
        bytes += align_up(o->runs[r].end) - align_down(o->runs[r].begin);
    return bytes;
}

/* Memory and pieces for all runs. Returns false when out of memory. */
static bool window_reserve(struct direct_window *w, const struct read_order *o, size_t places)
{
    size_t bytes = (size_t)runs_bytes(o) + FILE_DIRECT_ALIGNMENT, pieces = bytes / PIECE + o->run_count;
    if (bytes > w->memory_size) {
        mem_free(w->memory);
        w->memory_size = 0;
        w->memory = mem_alloc(bytes);
        w->memory_size = w->memory ? bytes : 0;
    }
    return w->memory && mem_grow((void **)&w->pieces, &w->piece_capacity, pieces, sizeof(*w->pieces)) == 0 &&
           mem_grow((void **)&w->arrivals, &w->arrival_capacity, places, sizeof(*w->arrivals)) == 0 &&
           mem_grow((void **)&w->owned, &w->owned_capacity, o->run_count, sizeof(*w->owned)) == 0;
}

/* Cuts a run into pieces at `memory` and records which pieces each record is in. */
static void window_add_run(struct direct_window *w, const struct read_order *o, const struct read_run *run, int fd,
                           uint8_t *memory, const struct record_place *places)
{
    uint64_t begin = align_down(run->begin), end = align_up(run->end);
    size_t first = w->piece_count;
    for (uint64_t at = begin; at < end; at += PIECE) {
        size_t length = end - at < PIECE ? (size_t)(end - at) : PIECE;
        w->pieces[w->piece_count++] =
            (struct read_request){.fd = fd, .buffer = memory + (at - begin), .length = length, .offset = at};
    }
    for (size_t i = run->first; i < run->last; i++) {
        const struct record_place *p = o->places[i];
        struct arrival *a = &w->arrivals[p - places];
        a->first = first + (size_t)((p->offset - begin) / PIECE);
        a->last = first + (size_t)((record_place_end(p) - 1 - begin) / PIECE);
        a->frame = memory + (p->offset - begin);
        a->behind = record_place_end(p) - begin - (uint64_t)(a->first - first) * PIECE;
    }
}

static pst_status window_plan(struct direct_window *w, struct direct_reader *d, pst_error *reterr)
{
    const struct record_place *places = d->places + w->first;
    size_t count = w->end - w->first;
    bool made = read_order_make(&d->order, places, count, GAP);
    while (made && count > 1 && runs_bytes(&d->order) > 2 * (uint64_t)d->bytes) { /* small records, far apart */
        count -= count / 2;
        made = read_order_make(&d->order, places, count, GAP);
    }
    w->end = w->first + count;
    if (!made || !window_reserve(w, &d->order, count))
        return pst_fail(reterr, PST_ENOMEM, "reading past the page cache: out of memory for a window");
    uint8_t *memory = w->memory + (-(uintptr_t)w->memory & (FILE_DIRECT_ALIGNMENT - 1));
    for (size_t r = 0; r < d->order.run_count; r++) {
        const struct read_run *run = &d->order.runs[r];
        int fd;
        bool owned;
        pst_status st = shard_set_direct(d->set, run->shard, &fd, &owned, reterr);
        if (st < 0)
            return st;
        if (owned)
            w->owned[w->owned_count++] = fd;
        window_add_run(w, &d->order, run, fd, memory, places);
        memory += align_up(run->end) - align_down(run->begin);
    }
    return PST_OK;
}

/* Fills the window with the next places of the slice and starts its reads. */
static void window_start(struct direct_window *w, struct direct_reader *d)
{
    uint64_t bytes = 0;
    close_owned(w); /* its reads are done: the slice has moved on, or was cancelled */
    w->piece_count = 0;
    w->first = w->end = d->planned;
    for (; w->end < d->count; w->end++) {
        bytes += d->places[w->end].length + FRAME_BYTES;
        if (w->end > w->first && bytes > d->bytes)
            break;
    }
    if (w->end == w->first)
        return;
    w->status = window_plan(w, d, &w->error);
    d->planned = w->end;
    for (size_t i = 0; w->status == PST_OK && i < w->piece_count; i++)
        reads_add(d->reads, &w->pieces[i]);
    reads_go(d->reads);
}

/* ---- Using it ---- */

static bool prepare(struct direct_reader *d)
{
    if (!d->reads && reads_create(&d->reads, READS_RING, DEPTH, NULL) < 0)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        if (!d->windows[i])
            d->windows[i] = mem_zalloc(sizeof(*d->windows[i]));
        if (!d->windows[i])
            return false;
    }
    return true;
}

bool direct_reader_begin(struct direct_reader *d, struct shard_set *s, const struct record_place *places, size_t count,
                         uint64_t bytes)
{
    if (!prepare(d))
        return false;
    reads_cancel(d->reads);
    bytes /= 2;
    d->bytes = (size_t)(bytes < MIN_WINDOW ? MIN_WINDOW : bytes > MAX_WINDOW ? MAX_WINDOW : bytes);
    d->set = s;
    d->places = places;
    d->count = count;
    d->planned = 0;
    d->current = 0;
    window_start(d->windows[0], d);
    window_start(d->windows[1], d);
    return true;
}

/* Waits for the pieces of the window: after a failure in the middle of one, others of them may be in flight. */
static void window_settle(struct direct_window *w, struct direct_reader *d)
{
    for (size_t i = 0; w->status == PST_OK && i < w->piece_count; i++)
        reads_wait(d->reads, &w->pieces[i]);
}

static pst_status fail_piece(const struct direct_reader *d, size_t i, const struct direct_window *w, const struct arrival *a,
                             pst_error *reterr)
{
    const struct record_place *p = &d->places[i];
    const struct set_shard *shard = &d->set->shards[p->shard];
    uint64_t there = 0,
             before = a->behind - p->length - FRAME_BYTES; /* bytes of the pieces, and those before the record */
    for (size_t k = a->first; k <= a->last; k++) {
        if (w->pieces[k].error) {
            pst_status st = file_fail(reterr, pst_shard_path(shard->shard), "reading", w->pieces[k].error);
            if (reterr) {
                reterr->record = p->index - shard->first;
                reterr->offset = p->offset;
            }
            return st;
        }
        there += w->pieces[k].got;
        if (w->pieces[k].got < w->pieces[k].length)
            break;
    }
    return shard_fail_short(shard->shard, p->index - shard->first, (struct index_entry){p->offset, p->length},
                            there > before ? there - before : 0, reterr);
}

pst_status direct_reader_frame(struct direct_reader *d, size_t i, const uint8_t **ret, pst_error *reterr)
{
    struct direct_window *w = d->windows[d->current];
    while (i >= w->end) { /* this window is used up: it reads what follows the other one */
        window_settle(w, d);
        window_start(w, d);
        d->current ^= 1;
        w = d->windows[d->current];
    }
    if (w->status < 0) {
        if (reterr)
            *reterr = w->error;
        return w->status;
    }
    const struct arrival *a = &w->arrivals[i - w->first];
    uint64_t there = 0;
    bool whole = true;
    for (size_t k = a->first; k <= a->last; k++) {
        reads_wait(d->reads, &w->pieces[k]);
        there += w->pieces[k].got;
        whole = whole && !w->pieces[k].error;
    }
    if (!whole || there < a->behind)
        return fail_piece(d, i, w, a, reterr);
    *ret = a->frame;
    return PST_OK;
}

size_t direct_reader_memory(const struct direct_reader *d)
{
    return (d->windows[0] ? d->windows[0]->memory_size : 0) + (d->windows[1] ? d->windows[1]->memory_size : 0);
}
