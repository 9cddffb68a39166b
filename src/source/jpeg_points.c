/* jpeg_points.c: from an element's JPEG to its points.
 *
 * Stored points are views of the mapped sidecar. The points of an image are compared with its bytes when it is first seen
 * (length, hash) and each later time (length and 32 bits of a hash), because another operation may have made other bytes. If
 * nothing is stored, an image gets room for its points when it is first seen, and each decode of a part adds the points that
 * it passes: the first epoch pays almost nothing for them, and each epoch can use the points of all parts decoded before.
 * One worker at a time adds to an image; others that have it use what is known.
 *
 * Promises: no locks; nothing that was handed out moves or goes away before entropy_destroy; memory stays within the budget.
 * Running out of memory is no failure: the image then has no points. */
#include "source/jpeg_points.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

enum { UNSEEN, REFUSED, FIRST_SKETCH }; /* what an entry's state may be; from FIRST_SKETCH on: the sketch of its image */

/* Points of one JPEG of an element. */
struct collected {
    struct collected *next;
    uint64_t length;
    uint32_t sketch, count;
    _Atomic uint32_t known; /* of `count`; those before it do not change any more */
    _Atomic bool claimed;   /* a worker is adding points */
    struct jpeg_point point[];
};

struct entropy {
    const struct source_class *source_class;
    const void *source;
    uint64_t samples, budget;
    _Atomic(struct collected *) *lists; /* one an element; NULL: nothing is collected */
    _Atomic uint64_t used;              /* of the budget */
    _Atomic uint64_t stored, made, stale;
};

/* ---- Life ---- */

pst_status entropy_create(struct entropy **ret, const struct source_class *source_class, const void *source, uint64_t samples,
                          uint64_t budget, pst_error *reterr)
{
    struct entropy *e = mem_zalloc(sizeof(*e));
    uint64_t table;
    if (!e)
        return fail_memory(reterr, "allocating the entropy index");
    e->source_class = source_class;
    e->source = source;
    if (!__builtin_mul_overflow(samples, sizeof(*e->lists), &table) && table < budget) {
        e->lists = mem_array((size_t)samples, sizeof(*e->lists));
        if (!e->lists) {
            entropy_destroy(e);
            return fail_memory(reterr, "allocating the entropy index");
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
        struct collected *c = atomic_load_explicit(&e->lists[i], memory_order_relaxed);
        while (c) {
            struct collected *next = c->next;
            mem_free(c);
            c = next;
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

/* Finds where the element's points are stored; false: nowhere. A damaged section is reported once. */
static bool find_home(struct entropy *e, uint64_t sample, struct entropy_home *ret)
{
    if (!e->source_class->entropy || !e->source_class->entropy(e->source, sample, ret))
        return false;
    if (!ret->section && atomic_exchange_explicit(ret->states, REFUSED, memory_order_relaxed) != REFUSED)
        add_one(&e->stale);
    return ret->section != NULL;
}

/* ---- Collected ---- */

static struct collected *find_collected(struct collected *c, size_t length, uint32_t mark)
{
    while (c && (c->length != length || c->sketch != mark))
        c = c->next;
    return c;
}

static uint64_t bytes_of(size_t points)
{
    return sizeof(struct collected) + points * sizeof(struct jpeg_point);
}

/* Room for that many points; NULL: none is left. */
static struct collected *reserve(struct entropy *e, size_t points)
{
    const uint64_t bytes = bytes_of(points);
    uint64_t used = atomic_load_explicit(&e->used, memory_order_relaxed);
    do {
        if (bytes > e->budget - used)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&e->used, &used, used + bytes, memory_order_relaxed, memory_order_relaxed));
    struct collected *c = mem_alloc((size_t)bytes);
    if (!c)
        atomic_fetch_sub_explicit(&e->used, bytes, memory_order_relaxed);
    return c;
}

static void release(struct entropy *e, struct collected *c)
{
    atomic_fetch_sub_explicit(&e->used, bytes_of(c->count), memory_order_relaxed);
    mem_free(c);
}

/* Returns the collected points of an element's JPEG, empty when it is first seen. */
static struct collected *find_or_reserve(struct entropy *e, uint64_t sample, size_t points, size_t length, uint32_t mark)
{
    _Atomic(struct collected *) *list = &e->lists[sample];
    struct collected *head = atomic_load_explicit(list, memory_order_acquire);
    struct collected *found = find_collected(head, length, mark);
    struct collected *c = found ? NULL : reserve(e, points);
    if (!c)
        return found;
    c->length = length;
    c->sketch = mark;
    c->count = (uint32_t)points;
    atomic_init(&c->known, 0);
    atomic_init(&c->claimed, false);
    do { /* another worker may have come first */
        found = find_collected(head, length, mark);
        if (found) {
            release(e, c);
            return found;
        }
        c->next = head;
    } while (!atomic_compare_exchange_weak_explicit(list, &head, c, memory_order_acq_rel, memory_order_acquire));
    return c;
}

/* The worker that adds points sees all points added before. */
static void use_collected(struct collected *c, struct entropy_use *ret)
{
    uint32_t known = atomic_load_explicit(&c->known, memory_order_acquire);
    bool adds = known < c->count && !atomic_exchange_explicit(&c->claimed, true, memory_order_acquire);
    if (adds)
        known = atomic_load_explicit(&c->known, memory_order_relaxed);
    *ret = (struct entropy_use){.collected = c};
    ret->points = (struct jpeg_points){
        .step = JPEG_POINT_STEP, .count = c->count, .known = known, .point = c->point, .room = adds ? c->point : NULL};
}

void entropy_done(struct entropy *e, struct entropy_use *u)
{
    struct collected *c = u->collected;
    if (!u->points.room)
        return;
    if (atomic_load_explicit(&c->known, memory_order_relaxed) == 0 && u->points.known)
        add_one(&e->made);
    atomic_store_explicit(&c->known, u->points.known, memory_order_release);
    atomic_store_explicit(&c->claimed, false, memory_order_release);
}

/* ---- Both ---- */

bool entropy_begin(struct entropy *e, uint64_t sample, const struct jpeg_decoder *d, const void *jpeg, size_t length,
                   struct entropy_use *ret)
{
    struct entropy_home home;
    struct jpeg_points points = {0};
    size_t wanted = e ? jpeg_points_count(d) : 0;
    if (wanted < JPEG_FEWEST_POINTS)
        return false;
    uint32_t mark = sketch(jpeg, length);
    if (find_home(e, sample, &home)) {
        const struct entropy_entry *entry = find_stored(e, &home, jpeg, length, mark, &points);
        if (entry && points.count != wanted)
            refuse_stored(e, &home, entry);
        else if (entry) {
            *ret = (struct entropy_use){.points = points};
            return true;
        }
    }
    struct collected *c = e->lists && sample < e->samples ? find_or_reserve(e, sample, wanted, length, mark) : NULL;
    if (!c || c->count != wanted) /* or else a hash that two images share */
        return false;
    use_collected(c, ret);
    return true;
}

void entropy_refuse(struct entropy *e, uint64_t sample, const void *jpeg, size_t length)
{
    struct entropy_home home;
    struct jpeg_points points;
    if (!e || !find_home(e, sample, &home))
        return;
    const struct entropy_entry *entry = find_stored(e, &home, jpeg, length, sketch(jpeg, length), &points);
    if (entry)
        refuse_stored(e, &home, entry);
}
