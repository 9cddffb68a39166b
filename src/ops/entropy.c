/* entropy.c: from an element's JPEG to its points.
 *
 * Stored points are views of the mapped sidecar. Those of an image are compared with its bytes when it is first seen (length,
 * hash) and whenever it comes again (length and 32 bits of a hash), as another operation may have made other bytes. Where
 * nothing is stored, points are made when an image comes for the second time: then it is certain that there is more than one
 * epoch, and the pass over the whole image is paid back by the epochs that follow.
 *
 * Promises: no locks; nothing that was handed out moves or goes away before entropy_destroy; memory stays within the budget.
 * Running out of memory is no failure: the image then has no points. */
#include "ops/entropy.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

enum { UNSEEN, REFUSED, FIRST_SKETCH }; /* what an entry's state may be; from FIRST_SKETCH on: the sketch of its image */

/* Points that were made, of one JPEG of an element. */
struct made {
    struct made *next;
    uint64_t length;
    uint32_t sketch;
    _Atomic uint32_t count; /* 0: it has none, or they were refused */
    struct jpeg_point point[];
};

struct entropy {
    const struct source_class *source_class;
    const void *source;
    uint64_t samples, budget;
    _Atomic(struct made *) *lists; /* one an element; NULL: nothing is made */
    _Atomic uint64_t used;         /* of the budget */
    _Atomic uint64_t stored, made, stale;
};

/* Ends the list of an element that has come before; nothing is ever read there. */
static struct made *end_of(struct entropy *e)
{
    return (struct made *)(void *)e;
}

/* ---- Life ---- */

pst_status entropy_create(struct entropy **ret, const struct source_class *source_class, const void *source, uint64_t samples,
                          uint64_t budget, pst_error *reterr)
{
    struct entropy *e = mem_zalloc(sizeof(*e));
    uint64_t table;
    if (!e)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for the entropy index");
    e->source_class = source_class;
    e->source = source;
    if (!__builtin_mul_overflow(samples, sizeof(*e->lists), &table) && table < budget) {
        e->lists = mem_array((size_t)samples, sizeof(*e->lists));
        if (!e->lists) {
            entropy_destroy(e);
            return pst_fail(reterr, PST_ENOMEM, "out of memory for the entropy index");
        }
        e->samples = samples;
        e->budget = budget;
        atomic_init(&e->used, table);
    }
    *ret = e;
    return PST_OK;
}

struct entropy *entropy_destroy(struct entropy *e)
{
    if (!e)
        return NULL;
    for (uint64_t i = 0; e->lists && i < e->samples; i++) {
        struct made *m = atomic_load_explicit(&e->lists[i], memory_order_relaxed);
        while (m && m != end_of(e)) {
            struct made *next = m->next;
            mem_free(m);
            m = next;
        }
    }
    mem_free((void *)e->lists);
    mem_free(e);
    return NULL;
}

struct entropy_counts entropy_count(const struct entropy *e)
{
    if (!e)
        return (struct entropy_counts){0};
    return (struct entropy_counts){.stored = atomic_load_explicit(&e->stored, memory_order_relaxed),
                                   .made = atomic_load_explicit(&e->made, memory_order_relaxed),
                                   .stale = atomic_load_explicit(&e->stale, memory_order_relaxed)};
}

uint64_t entropy_bytes(const struct entropy *e)
{
    return e ? atomic_load_explicit(&e->used, memory_order_relaxed) : 0;
}

static void add_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* All bytes, each time: a change of a single one must not get the points of what was there before (8 of 400 µs a photo). */
static uint32_t sketch(const uint8_t *jpeg, size_t length)
{
    uint32_t hash = (uint32_t)hash_bytes(jpeg, length, length);
    return hash < FIRST_SKETCH ? FIRST_SKETCH : hash;
}

/* ---- Stored ---- */

static uint32_t state_of(const struct entropy_home *home, const struct entropy_entry *entry)
{
    return atomic_load_explicit(&home->states[entry - home->section->entries], memory_order_relaxed);
}

/* An entry that was not yet compared with bytes that have this sketch. True: it is theirs. */
static bool accept(struct entropy *e, const struct entropy_home *home, const struct entropy_entry *entry, uint64_t hash,
                   uint32_t mark, bool alone, struct jpeg_points *ret)
{
    _Atomic uint32_t *state = &home->states[entry - home->section->entries];
    bool sound = entropy_section_points(home->section, entry, ret);
    if (sound && entry->hash == hash) {
        uint32_t was = atomic_load_explicit(state, memory_order_relaxed);
        while (was != REFUSED &&
               !atomic_compare_exchange_weak_explicit(state, &was, mark, memory_order_relaxed, memory_order_relaxed))
            ;
        if (was == UNSEEN)
            add_one(&e->stored);
        return was != REFUSED;
    }
    /* Among several of one length it may belong to another. */
    uint32_t unseen = UNSEEN;
    if ((!sound || alone) &&
        atomic_compare_exchange_strong_explicit(state, &unseen, REFUSED, memory_order_relaxed, memory_order_relaxed))
        add_one(&e->stale);
    return false;
}

/* The entry whose points these bytes may use. `*ret` has them. */
static const struct entropy_entry *find_stored(struct entropy *e, const struct entropy_home *home, const uint8_t *jpeg,
                                               size_t length, uint32_t mark, struct jpeg_points *ret)
{
    size_t count = 0, alike = 0, open = 0;
    const struct entropy_section *s = home->section;
    const struct entropy_entry *entries = entropy_section_find(s, home->record, &count);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].length != length)
            continue;
        uint32_t state = state_of(home, &entries[i]);
        if (state == mark && entropy_section_view(s, &entries[i], ret))
            return &entries[i];
        alike++;
        open += state != REFUSED;
    }
    uint64_t hash = open ? hash_bytes(jpeg, length, 0) : 0;
    for (size_t i = 0; i < count && open; i++)
        if (entries[i].length == length && state_of(home, &entries[i]) != REFUSED &&
            accept(e, home, &entries[i], hash, mark, alike == 1, ret))
            return &entries[i];
    return NULL;
}

static void refuse_stored(struct entropy *e, const struct entropy_home *home, const struct entropy_entry *entry)
{
    if (atomic_exchange_explicit(&home->states[entry - home->section->entries], REFUSED, memory_order_relaxed) != REFUSED)
        add_one(&e->stale);
}

/* Where the element's points are stored; false: nowhere. A damaged section is told once. */
static bool find_home(struct entropy *e, uint64_t sample, struct entropy_home *ret)
{
    if (!e->source_class->entropy || !e->source_class->entropy(e->source, sample, ret))
        return false;
    if (!ret->section && atomic_exchange_explicit(ret->states, REFUSED, memory_order_relaxed) != REFUSED)
        add_one(&e->stale);
    return ret->section != NULL;
}

/* ---- Made ---- */

static struct made *find_made(struct entropy *e, struct made *m, size_t length, uint32_t mark)
{
    while (m && m != end_of(e) && (m->length != length || m->sketch != mark))
        m = m->next;
    return m == end_of(e) ? NULL : m;
}

/* Room for that many points; NULL: none is left. */
static struct made *reserve(struct entropy *e, size_t points)
{
    size_t bytes = sizeof(struct made) + points * sizeof(struct jpeg_point);
    uint64_t used = atomic_load_explicit(&e->used, memory_order_relaxed);
    do {
        if (bytes > e->budget - used)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&e->used, &used, used + bytes, memory_order_relaxed, memory_order_relaxed));
    struct made *m = mem_alloc(bytes);
    if (!m)
        atomic_fetch_sub_explicit(&e->used, bytes, memory_order_relaxed);
    return m;
}

static void release(struct entropy *e, struct made *m, size_t points)
{
    mem_free(m);
    atomic_fetch_sub_explicit(&e->used, sizeof(*m) + points * sizeof(struct jpeg_point), memory_order_relaxed);
}

static struct made *make(struct entropy *e, struct jpeg_decoder *d, size_t length, uint32_t mark)
{
    size_t points = jpeg_points_count(d);
    struct made *m = reserve(e, points);
    if (!m)
        return NULL;
    bool sound = jpeg_points_find(d, m->point, NULL) == PST_OK;
    if (!sound) { /* noted, so that nobody tries again */
        release(e, m, points);
        m = reserve(e, points = 0);
    }
    if (m) {
        m->length = length;
        m->sketch = mark;
        atomic_init(&m->count, (uint32_t)points);
    }
    return m;
}

/* The points of an element's JPEG, made if they are not there. When it comes for the first time, only that is noted. */
static struct made *find_or_make(struct entropy *e, uint64_t sample, struct jpeg_decoder *d, size_t length, uint32_t mark)
{
    _Atomic(struct made *) *list = &e->lists[sample];
    struct made *head = NULL;
    if (atomic_compare_exchange_strong_explicit(list, &head, end_of(e), memory_order_acq_rel, memory_order_acquire))
        return NULL;
    struct made *found = find_made(e, head, length, mark);
    struct made *m = found ? NULL : make(e, d, length, mark);
    while (m) { /* another worker may have come first */
        m->next = head;
        if (atomic_compare_exchange_weak_explicit(list, &head, m, memory_order_acq_rel, memory_order_acquire)) {
            if (atomic_load_explicit(&m->count, memory_order_relaxed))
                add_one(&e->made);
            return m;
        }
        found = find_made(e, head, length, mark);
        if (found) {
            release(e, m, atomic_load_explicit(&m->count, memory_order_relaxed));
            m = NULL;
        }
    }
    return found;
}

/* ---- Both ---- */

bool entropy_points(struct entropy *e, uint64_t sample, struct jpeg_decoder *d, const void *jpeg, size_t length,
                    struct jpeg_points *ret)
{
    struct entropy_home home;
    struct jpeg_points points = {0};
    size_t wanted = e ? jpeg_points_count(d) : 0;
    if (wanted < 2)
        return false;
    uint32_t mark = sketch(jpeg, length);
    if (find_home(e, sample, &home)) {
        const struct entropy_entry *entry = find_stored(e, &home, jpeg, length, mark, &points);
        if (entry && points.count != wanted)
            refuse_stored(e, &home, entry);
        else if (entry) {
            *ret = points;
            return true;
        }
    }
    struct made *m = e->lists && sample < e->samples ? find_or_make(e, sample, d, length, mark) : NULL;
    uint32_t made = m ? atomic_load_explicit(&m->count, memory_order_relaxed) : 0;
    if (made != wanted)
        return false;
    *ret = (struct jpeg_points){
        .step = JPEG_POINT_STEP, .count = made, .known = made, .sound = true, .point = m->point};
    return true;
}

void entropy_refuse(struct entropy *e, uint64_t sample, const void *jpeg, size_t length)
{
    struct entropy_home home;
    struct jpeg_points points;
    uint32_t mark = e ? sketch(jpeg, length) : 0;
    if (!e)
        return;
    const struct entropy_entry *entry = find_home(e, sample, &home) ? find_stored(e, &home, jpeg, length, mark, &points) : NULL;
    if (entry) {
        refuse_stored(e, &home, entry);
        return;
    }
    struct made *m = e->lists && sample < e->samples
                         ? find_made(e, atomic_load_explicit(&e->lists[sample], memory_order_acquire), length, mark)
                         : NULL;
    if (m && atomic_exchange_explicit(&m->count, 0, memory_order_relaxed))
        add_one(&e->stale);
}
