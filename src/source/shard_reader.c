/* shard_reader.c: from a record's number to its bytes.
 *
 * A slice's records are located when it is announced. Records in memory only need to be prefetched into the processor's
 * caches; the others are requested from storage all at once, in storage order. The thread detects which case applies from
 * its own page faults.
 *
 * Records that a filter keeps may be copied (record_copies.h); a slice of copies needs neither index nor files.
 *
 * Promises: a returned record is the one that the index names, and its data has matched its CRC at least once. */
#include "source/shard_reader.h"

#include "base/memory.h"
#include "io/file.h"
#include "record/shard.h"

#include <inttypes.h>

#define LINE         64u /* bytes of a cache line */
#define LINES        4u  /* cache lines of a record that are prefetched; the processor prefetches the rest itself */
#define LEAD         16u /* records between bringing one in and using it */
#define BLOCK        64u /* records whose addresses are translated together */
#define PROBES       8u
#define FETCH_GRAIN  ((uint64_t)64 << 10) /* bytes that are asked for at once; so large a gap is read through */
#define DIRECT_WORTH ((uint64_t)1 << 20)

void shard_reader_finish(struct shard_reader *r)
{
    direct_reader_finish(&r->direct_reader);
    read_order_finish(&r->order);
    mem_free(r->places);
    mem_free(r->buffer);
    *r = (struct shard_reader){0};
}

/* ---- Ahead ---- */

#define OUTSIDE UINT64_MAX /* as a length: the entry has changed since it was checked, and leads out of the file */

/* Copies the entry, once: a mapped index is a file that others can write to. */
static inline void locate(const struct shard_set *s, uint64_t index, struct record_place *p)
{
    const struct set_shard *shard = &s->shards[p->shard];
    const struct index_entry *e = &shard->entries[index - shard->first];
    const uint8_t *data = atomic_load_explicit(&shard->data, memory_order_relaxed);
    uint64_t offset = __atomic_load_n(&e->offset, __ATOMIC_RELAXED), length = __atomic_load_n(&e->length, __ATOMIC_RELAXED);
    uint64_t end;
    bool outside = __builtin_add_overflow(offset, length, &end) || end > shard->bytes || shard->bytes - end < FRAME_BYTES;
    p->index = index;
    p->copied = false;
    p->offset = __builtin_expect(outside, 0) ? 0 : offset;
    p->length = __builtin_expect(outside, 0) ? OUTSIDE : length;
    p->frame = data && !outside ? data + offset : NULL;
}

/* The first lines of a block, one right after another. A request waits for the translation of its address (the tables are
 * larger than the processor's caches of them), and only what stands this close together in the program waits at the same
 * time. Afterwards the other lines of these records wait for memory alone. */
static void translate(const struct shard_reader *r, size_t first)
{
    size_t behind = r->count - first < BLOCK ? r->count : first + BLOCK;
    for (size_t i = first; i < behind; i++)
        __builtin_prefetch(r->places[i].frame);
}

static inline void bring_in(const struct record_place *p)
{
    if (!p->frame)
        return;
    const uint8_t *line = p->frame, *end = line + p->length + FRAME_BYTES;
    for (unsigned i = 0; i < LINES && line < end; i++, line += LINE)
        __builtin_prefetch(line);
}

/* Before the thread has faults to learn from: are some of these records in memory? */
static bool looks_cold(const struct shard_reader *r)
{
    for (size_t i = 0; i < PROBES; i++) {
        const struct record_place *p = &r->places[r->count * i / PROBES];
        if (p->frame && !file_is_resident(p->frame))
            return true;
    }
    return false;
}

/* A remote shard is read whole sooner or later, and the next ones after it: they are fetched when connections are idle. Enough of
 * them that no connection waits for the reader to reach the next shard. */
static void expect(struct shard_set *s, size_t k)
{
    uint64_t ahead = 0;
    if (atomic_exchange(&s->shards[k].expected, true))
        return;
    uint64_t most = file_expect_bytes(shard_descriptor(s->shards[k].shard));
    for (size_t j = k; j < s->count && ahead < most; j++) {
        const struct set_shard *shard = &s->shards[j];
        uint64_t begin = 0, end = shard->bytes, first = s->firsts[j], behind = s->firsts[j + 1];
        if (first >= s->part_end || behind <= s->part_first)
            continue; /* another machine's */
        if (first < s->part_first)
            begin = __atomic_load_n(&shard->entries[s->part_first - first].offset, __ATOMIC_RELAXED);
        if (behind > s->part_end)
            end = __atomic_load_n(&shard->entries[s->part_end - first].offset, __ATOMIC_RELAXED);
        if (begin < end && shard_descriptor(shard->shard) >= 0 && !atomic_load_explicit(&shard->data, memory_order_relaxed))
            file_expect(shard_descriptor(shard->shard), begin, end - begin);
        ahead += j > k ? end - begin : 0;
    }
}

static void fetch_bytes(struct shard_set *s, size_t k, uint64_t begin, uint64_t end)
{
    const struct set_shard *shard = &s->shards[k];
    const uint8_t *data = atomic_load_explicit(&shard->data, memory_order_relaxed);
    if (end > shard->bytes)
        end = shard->bytes;
    if (begin >= end)
        return;
    if (data)
        file_fetch_mapped(data + begin, (size_t)(end - begin));
    else if (shard_descriptor(shard->shard) >= 0) {
        expect(s, k);
        file_fetch(shard_descriptor(shard->shard), begin, (size_t)(end - begin));
    }
}

/* Finds those of the records that were copied. Returns whether all of them were: then neither the index nor the files are needed. */
static bool find_copies(struct shard_reader *r, const uint64_t *index, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        r->places[i].offset = record_copies_number(r->copies, index[i]);
    for (size_t i = 0; i < count; i++) {
        struct record_place *p = &r->places[i];
        p->index = index[i];
        p->frame = record_copies_find(r->copies, p->offset, &p->length);
        p->copied = p->frame != NULL;
        found += p->copied;
    }
    return found == count;
}

/* The first records are on their way before one is needed. */
static void begin(struct shard_reader *r)
{
    translate(r, 0);
    for (size_t i = 0; i < LEAD && i < r->count; i++)
        bring_in(&r->places[i]);
}

/* Asks storage for all of it. Where memory will hold everything, the neighbourhood comes along: it is needed sooner or later,
 * and a large request costs hardly more than a small one. */
static void fetch(struct shard_reader *r, struct shard_set *s)
{
    uint64_t grain = s->exceeds_memory ? 1 : FETCH_GRAIN;
    if (r->count == 0 || !read_order_make(&r->order, r->places, r->count, FETCH_GRAIN))
        return;
    for (size_t i = 0; i < r->order.run_count; i++) {
        const struct read_run *run = &r->order.runs[i];
        fetch_bytes(s, run->shard, run->begin & ~(grain - 1), (run->end + grain - 1) & ~(grain - 1));
    }
}

/* Records that must not be read whole are left alone. */
static bool within_limit(const struct shard_reader *r, const struct shard_set *s)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->places[i].length > s->max_record_bytes)
            return false;
    return true;
}

/* Reads past the page cache end with the slice: a small one is better off with the system's. */
static bool has_bytes(const struct shard_reader *r, uint64_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->count && sum < bytes; i++)
        sum += r->places[i].length;
    return sum >= bytes;
}

static bool start_direct(struct shard_reader *r, struct shard_set *s, uint64_t ram)
{
    if (!within_limit(r, s) || !direct_reader_begin(&r->direct_reader, s, r->places, r->count, ram))
        return false;
    for (size_t i = 0; i < r->count; i++)
        r->places[i].frame = NULL;
    return true;
}

void shard_reader_ahead(struct shard_reader *r, struct shard_set *s, uint64_t ram, const uint64_t *index, size_t count)
{
    bool renewed, first = r->cold.asked_ns == 0, cold = cold_watch_look(&r->cold, &renewed);
    if (renewed)
        shard_set_look(s);
    r->direct = false;
    r->count = r->next = 0;
    if (mem_grow((void **)&r->places, &r->capacity, count, sizeof(*r->places)) < 0)
        return;                          /* every record is then located when it is loaded */
    if (r->copies && find_copies(r, index, count)) {
        r->count = count;
        begin(r);
        return;
    }
    for (size_t i = 0; i < count; i++) { /* the index first: its lines are on their way while the others are found */
        struct record_place *p = &r->places[i];
        p->shard = shard_set_find(s, index[i]);
        __builtin_prefetch(&s->shards[p->shard].entries[index[i] - s->firsts[p->shard]]);
    }
    for (size_t i = 0; i < count; i++)
        locate(s, index[i], &r->places[i]);
    r->count = count;
    if (first && count > 0)
        cold = r->cold.cold = looks_cold(r);
    if (s->remote) {
        fetch(r, s);
        return;
    }
    if (s->io == SHARD_IO_DIRECT || (s->io == SHARD_IO_AUTO && cold && s->exceeds_memory && has_bytes(r, DIRECT_WORTH)))
        r->direct = start_direct(r, s, ram);
    if (r->direct)
        return;
    if (cold)
        fetch(r, s);
    begin(r);
}

/* ---- Load ---- */

/* Returns the place of a record that was announced; NULL: it was not. Announced records may be skipped; they are not asked for later. */
static inline struct record_place *next_place(struct shard_reader *r, uint64_t index)
{
    size_t i = r->next;
    while (i < r->count && r->places[i].index != index)
        i++;
    if (i == r->count)
        return NULL;
    r->next = i + 1;
    if (i + LEAD < r->count) {
        if ((i + LEAD) % BLOCK == 0)
            translate(r, i + LEAD);
        bring_in(&r->places[i + LEAD]);
    }
    return &r->places[i];
}

/* A remote shard of which all has arrived is one that is mapped from now on. While it arrives, records are read: touching the
 * mapping of pages that were just written costs more than copying them. */
static bool has_become_whole(struct shard_set *s, size_t k)
{
    struct set_shard *shard = &s->shards[k];
    const uint8_t *none = NULL;
    if (!shard->sparse.data || shard_descriptor(shard->shard) < 0 || mapping_broken(&shard->sparse) || !file_is_here(shard_descriptor(shard->shard)))
        return false;
    if (atomic_compare_exchange_strong(&shard->data, &none, shard->sparse.data) && atomic_fetch_sub(&s->missing, 1) == 1)
        atomic_store(&s->remote, false);
    return true;
}

/* A frame that is not in memory. */
static pst_status read_frame(struct shard_reader *r, struct shard_set *s, const struct record_place *p, bool announced,
                             const uint8_t **ret, pst_error *reterr)
{
    const struct set_shard *shard = &s->shards[p->shard];
    uint64_t record = p->index - shard->first;
    if (r->direct && announced)
        return direct_reader_frame(&r->direct_reader, (size_t)(p - r->places), ret, reterr);
    if (s->remote && has_become_whole(s, p->shard)) {
        *ret = shard->sparse.data + p->offset;
        return PST_OK;
    }
    size_t size = (size_t)p->length + FRAME_BYTES;
    uint8_t *frame = r->room ? r->room->take(r->room->memory, size) : NULL;
    if (!frame && mem_grow((void **)&r->buffer, &r->buffer_size, size, 1) < 0)
        return pst_fail_at(reterr, PST_ENOMEM, pst_shard_path(shard->shard), record, p->offset,
                           "out of memory for a record of %" PRIu64 " bytes", p->length);
    frame = frame ? frame : r->buffer;
    *ret = frame;
    return shard_read_frame(shard->shard, record, (struct index_entry){p->offset, p->length}, frame, reterr);
}

static pst_status fail_limit(const struct shard_set *s, const struct record_place *p, pst_error *reterr)
{
    const struct set_shard *shard = &s->shards[p->shard];
    if (p->length == OUTSIDE)
        return pst_fail_at(reterr, PST_ESTALE, shard_index_path(shard->shard), p->index - shard->first, PST_NOWHERE,
                           "the index changed after it was opened, and its record lies outside the shard; open it again");
    return pst_fail_at(reterr, PST_ELIMIT, pst_shard_path(shard->shard), p->index - shard->first, p->offset,
                       "%" PRIu64 " bytes, the limit is %" PRIu64 "; max_record= raises it", p->length, s->max_record_bytes);
}

/* Only for frames that are not sound. */
static pst_status fail_frame(const struct shard_set *s, const struct record_place *p, const uint8_t *frame, bool verify,
                             pst_error *reterr)
{
    const struct set_shard *shard = &s->shards[p->shard];
    uint64_t record = p->index - shard->first;
    pst_status st = shard_check(shard->shard, record, (struct index_entry){p->offset, p->length}, frame, verify, reterr);
    return st < 0 ? st
                  : pst_fail_at(reterr, PST_ECORRUPT, pst_shard_path(shard->shard), record, p->offset,
                                "the record changes while it is read: another program writes to the file");
}

pst_status shard_reader_load(struct shard_reader *r, struct shard_set *s, uint64_t index, pst_bytes *ret, pst_error *reterr)
{
    struct record_place *p = next_place(r, index), alone;
    bool announced = p != NULL;
    if (!announced) {
        p = &alone;
        p->shard = shard_set_find(s, index);
        locate(s, index, p);
    }
    if (__builtin_expect(p->length > s->max_record_bytes, 0))
        return fail_limit(s, p, reterr);
    if (p->copied) {
        *ret = (pst_bytes){.data = p->frame + FRAME_HEADER, .length = (size_t)p->length};
        return PST_OK;
    }
    const uint8_t *frame = p->frame;
    if (__builtin_expect(!frame, 0)) {
        pst_status st = read_frame(r, s, p, announced, &frame, reterr);
        if (st < 0)
            return st;
    }
    bool verify = shard_set_must_verify(s, index);
    if (__builtin_expect(!frame_is_sound(frame, p->length, verify), 0))
        return fail_frame(s, p, frame, verify, reterr);
    if (verify)
        shard_set_verified(s, index);
    if (r->copies)
        record_copies_put(r->copies, index, frame, p->length);
    *ret = (pst_bytes){.data = frame + FRAME_HEADER, .length = (size_t)p->length};
    return PST_OK;
}
