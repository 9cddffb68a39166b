/* object.c: see object.h: opening objects, asking for blocks and waiting for them. */
#include "io/remote/object_inside.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/remote/blocks.h"
#include "io/remote/fork.h"
#include "io/remote/tuner.h"
#include "io/stop.h"

#include <string.h>
#include <time.h>

#define AHEAD_PARTS  4u
#define AHEAD_LEAST  (((size_t)32 << 20) / CACHE_BLOCK)
#define ROOM_PARTS   8u  /* requests for a cache are so small that so many fit */
#define GAP_BLOCKS   2u  /* see object_ask_once */
#define TWIN_SECONDS 1.0 /* a request without a single byte for so long gets a twin… */
#define TWIN_TIMES   4.0 /* …and one that will take so many times longer for the rest than requests usually do, and a second more */

void object_free(struct object *o)
{
    if (!o)
        return;
    object_release_memory(o);
    if (o->memory)
        blocks_expect(-(int64_t)o->cache.size);
    mem_free(o->memory);
    cache_close(&o->cache);
    cache_close(&o->own);
    cache_close(&o->mapped_copy);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->changed);
    mem_free(o->states);
    mem_free(o->failed);
    mem_free(o->path);
    mem_free(o);
}

void object_mark(struct object *o, size_t first, size_t count, enum state state)
{
    for (size_t i = first; i < first + count; i++) {
        o->here += (size_t)(state == HERE) - (size_t)(o->states[i] == HERE);
        o->states[i] = (uint8_t)state;
    }
    if (state == ABSENT && first < o->fill)
        o->fill = first;
}

/* ---- Asking for blocks ---- */

static bool is_absent(const struct object *o, size_t i)
{
    return o->states[i] == ABSENT || o->states[i] == PASSED;
}

/* Requests for a cache take at most an eighth of its room, if that is not less than TUNER_PART_LEAST: an object for whose request there is no room leaves
 * the cache for good. Locked. */
static size_t request_blocks(const struct object *o)
{
    size_t tuned = parts_blocks(o->memory != NULL);
    return o->memory ? tuned : (size_t)(tuner_part_within((uint64_t)tuned * CACHE_BLOCK, ROOM_PARTS / 2, o->cache.room.most) / CACHE_BLOCK);
}

/* Blocks that are fetched after those that a sequential reader waits for. Where several objects are read, all of them together must find memory. Locked. */
static size_t ahead_blocks(const struct object *o)
{
    size_t ahead = AHEAD_PARTS * request_blocks(o), share = o->memory && ahead > AHEAD_LEAST ? blocks_room() / 4 : ahead;
    share = share > AHEAD_LEAST ? share : AHEAD_LEAST;
    return ahead < share ? ahead : share;
}

/* Requests end at multiples of their size: stores keep objects in such pieces, and may have to read, check or unpack a whole one for each request. */
static size_t part_end(size_t first, size_t end, size_t blocks)
{
    size_t limit = (first / blocks + 1) * blocks;
    return end < limit ? end : limit;
}

struct part *object_ask_once(struct object *o, size_t first, size_t end, enum urgency urgency)
{
    size_t count = 0, most = request_blocks(o);
    if (urgency == SOMETIME || end - first > most)
        end = part_end(first, end, most);
    for (size_t i = first; i < end; i++) {
        if (o->states[i] == ABSENT || (urgency != SOMETIME && o->states[i] == PASSED))
            count = i + 1 - first;
        else if (o->states[i] != HERE || i - first - count >= GAP_BLOCKS)
            break;
    }
    struct part *p = part_make(o, first, count, urgency);
    for (size_t i = first; p && i < first + count; i++)
        if (o->states[i] != HERE)
            object_mark(o, i, 1, COMING);
    return p;
}

/* Turns absent blocks of [first, end) into parts. Locked. NULL also if there is nothing to fetch. */
static struct part *ask_for(struct object *o, size_t first, size_t end, enum urgency urgency, bool *ret_failed)
{
    struct part *list = NULL, **last = &list;
    for (size_t i = first; i < end;) {
        if (!is_absent(o, i)) {
            i++;
            continue;
        }
        struct part *p = object_ask_once(o, i, end, urgency);
        if (!p) {
            *ret_failed = true;
            break;
        }
        *last = p;
        last = &p->next;
        i += p->count;
    }
    return list;
}

bool object_ask_anew(struct object *o, size_t first, size_t end)
{
    while (first < end && o->states[first] != PASSED)
        first++;
    if (first == end || !o->ended || !atomic_load(&o->all) || o->passed < (o->until - o->from) / 8)
        return false;
    for (size_t i = o->from; i < o->until; i++)
        if (o->states[i] == PASSED && o->memory[i].round <= o->round)
            object_mark(o, i, 1, ABSENT);
    o->ended = false;
    return true;
}

/* Returns whether a second request is likely to bring the rest sooner: no byte has come for long, or far fewer than of other requests. */
static bool is_straggler(const struct part *p, uint64_t now)
{
    uint64_t got = atomic_load(&p->progress), all = (uint64_t)(p->count - p->skipped) * CACHE_BLOCK;
    double seconds = (double)(now - p->started) * 1e-9, usual = part_usual_rate();
    if (seconds < TWIN_SECONDS || !got || got >= all)
        return seconds >= TWIN_SECONDS && !got;
    double left = (double)(all - got);
    return usual > 0 && left * seconds / (double)got > TWIN_SECONDS + TWIN_TIMES * left / usual;
}

/* Requests that lag behind get a second try beside them, from the blocks that are missing on. Locked. */
static struct part *make_twins(struct object *o, size_t first, size_t end)
{
    struct part *list = NULL;
    uint64_t now = clock_ns();
    for (struct part *p = o->active; p; p = p->next) {
        bool mine = p->first < end && p->first + p->count > first;
        if (!mine || p->hedged || p->twin || p->second || !p->started || !is_straggler(p, now) || !store_may_repeat())
            continue;
        p->hedged = true;
        struct part *twin = part_make(o, p->first, p->count, NOW);
        if (!twin)
            break;
        twin->second = true;
        twin->done = twin->skipped = p->done;
        twin->twin = p;
        p->twin = twin;
        twin->next = list;
        list = twin;
    }
    return list;
}

void object_check_stored(struct object *o, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (o->states[i] != STORED)
            continue;
        pthread_mutex_unlock(&o->lock);
        bool ok = cache_check(&o->cache, i);
        pthread_mutex_lock(&o->lock);
        if (o->states[i] == STORED)
            object_mark(o, i, 1, ok ? HERE : ABSENT);
    }
}

size_t object_first_missing(const struct object *o, size_t first, size_t end)
{
    while (first < end && o->states[first] == HERE)
        first++;
    return first;
}

static void wait_some(struct object *o)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&o->changed, &o->lock, &until);
}

static bool find_blocks(const struct object *o, uint64_t offset, uint64_t length, size_t *ret_first, size_t *ret_end)
{
    if (offset >= o->cache.size || length == 0)
        return false;
    uint64_t end = length < o->cache.size - offset ? offset + length : o->cache.size;
    *ret_first = (size_t)(offset / CACHE_BLOCK);
    *ret_end = (size_t)((end + CACHE_BLOCK - 1) / CACHE_BLOCK);
    return true;
}

/* Returns whether nothing of the object has arrived for long, seen from a thread that waits since `began`. */
static bool is_silent(const struct object *o, uint64_t began)
{
    uint64_t now = clock_ns(), moved = atomic_load(&o->moved);
    moved = moved > began ? moved : began;
    return now > moved && (double)(now - moved) * 1e-9 > STOP_SECONDS;
}

/* Returns whether the block was lost by a request that failed after the first `failures`. Locked. */
static bool has_failed(const struct object *o, size_t i, uint64_t failures)
{
    return o->failures != failures && o->states[i] == ABSENT && (!o->failed || o->failed[i] > failures);
}

pst_status object_need(struct object *o, uint64_t offset, uint64_t length, pst_error *reterr)
{
    size_t first, end;
    bool failed = false;
    pst_status st = PST_OK;
    if (!find_blocks(o, offset, length, &first, &end))
        return PST_OK;
    pthread_mutex_lock(&o->lock);
    uint64_t failures = o->failures, began = clock_ns();
    while ((first = object_first_missing(o, first, end)) < end) {
        object_check_stored(o, first, end);
        if (has_failed(o, first, failures)) {
            *reterr = o->error;
            st = o->error.status;
            break;
        }
        if (stop_thread_asked() || (is_silent(o, began) && stop_process_asked())) {
            st = pst_fail_at(reterr, PST_ECANCELLED, o->path, PST_NOWHERE, PST_NOWHERE, "stopped while it was read");
            break;
        }
        bool anew = object_ask_anew(o, first, end);
        struct part *list = ask_for(o, first, end, NOW, &failed), *twins = make_twins(o, first, end);
        if (o->sequential && list && !failed) {
            size_t ahead = end + ahead_blocks(o);
            ahead = ahead < o->cache.blocks ? ahead : o->cache.blocks;
            struct part **last = &list;
            while (*last)
                last = &(*last)->next;
            *last = ask_for(o, end, ahead, SOON, &failed);
        }
        pthread_mutex_unlock(&o->lock);
        bool running = (!list || parts_add(list)) && (!twins || parts_add(twins));
        if (anew)
            parts_fill(o);
        pthread_mutex_lock(&o->lock);
        if (failed || !running) {
            st = failed ? fail_memory_at(reterr, o->path, "fetching the object")
                        : pst_fail_at(reterr, PST_EIO, o->path, PST_NOWHERE, PST_NOWHERE,
                                      "no thread could be started to fetch it");
            break;
        }
        if (object_first_missing(o, first, end) < end && !has_failed(o, first, failures))
            wait_some(o);
    }
    pthread_mutex_unlock(&o->lock);
    return st;
}

void object_fetch(struct object *o, uint64_t offset, uint64_t length)
{
    size_t first, end;
    bool failed = false;
    if (!find_blocks(o, offset, length, &first, &end))
        return;
    pthread_mutex_lock(&o->lock);
    object_check_stored(o, first, end);
    bool anew = object_ask_anew(o, first, end);
    struct part *list = ask_for(o, first, end, SOON, &failed);
    pthread_mutex_unlock(&o->lock);
    if (list)
        (void)parts_add(list); /* without a thread it stays in the queue: the next to wait tries again to start one */
    if (anew)
        parts_fill(o);
}

void object_expect_sequential(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    o->sequential = true;
    pthread_mutex_unlock(&o->lock);
}

void object_expect(struct object *o, uint64_t offset, uint64_t length)
{
    size_t first, end;
    if (atomic_load(&o->all) || !find_blocks(o, offset, length, &first, &end))
        return;
    pthread_mutex_lock(&o->lock);
    bool begun = atomic_load(&o->all);
    if (!begun) {
        o->from = first;
        o->until = end;
        atomic_store(&o->all, true);
        object_check_stored(o, first, end);
    }
    bool missing = object_first_missing(o, first, end) < end;
    pthread_mutex_unlock(&o->lock);
    if (!begun && missing)
        parts_fill(o);
}

/* ---- Opening ---- */

int object_descriptor(const struct object *o)
{
    return atomic_load(&o->seen);
}

uint64_t object_size(const struct object *o)
{
    return o->cache.size;
}

bool object_version(const struct object *o, char ret[HTTP_ETAG])
{
    return store_version(o->path, o->facts.etag, ret);
}

/* Facts that are not known come with the first block, in one request. */
static pst_status open_copy(struct object *o, const struct room *room, pst_error *reterr)
{
    struct store_kept f = {0};
    pst_status st = PST_OK;
    if (!o->facts.known) {
        f.bytes = mem_alloc(CACHE_BLOCK);
        st = f.bytes ? store_get(&(struct store_get){.path = o->path, .length = CACHE_BLOCK, .sink = store_keep, .user = &f},
                                 &o->facts, reterr)
                     : fail_memory_at(reterr, o->path, "opening the object");
    }
    if (st == PST_OK)
        st = cache_open(&o->cache, room, o->path, &o->facts, reterr);
    o->states = st == PST_OK ? mem_zalloc(o->cache.blocks + 1) : NULL;
    if (st == PST_OK && o->cache.map_fd < 0)
        o->memory = mem_array(o->cache.blocks + 1, sizeof(*o->memory));
    if (o->memory)
        blocks_expect((int64_t)o->cache.size);
    if (st == PST_OK && (!o->states || (o->cache.map_fd < 0 && !o->memory)))
        st = fail_memory_at(reterr, o->path, "opening the object");
    for (size_t i = 0; st == PST_OK && i < o->cache.blocks; i++)
        o->states[i] = atomic_load(&o->cache.sums[i]) ? STORED : ABSENT;
    if (st == PST_OK && o->cache.blocks && f.length == cache_block_bytes(&o->cache, 0))
        object_keep_first(o, f.bytes, f.length);
    atomic_init(&o->seen, o->cache.fd);
    mem_free(f.bytes);
    return st;
}

pst_status object_open(struct object **ret, const char *path, struct store_facts *facts, const struct room *room, pst_error *reterr)
{
    fork_watch();
    struct object *found = parts_find(path, NULL);
    if (found) {
        *facts = found->facts;
        *ret = found;
        return PST_OK;
    }
    struct object *o = mem_zalloc(sizeof(*o));
    if (!o)
        return fail_memory_at(reterr, path, "opening the object");
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    o->cache = o->own = o->mapped_copy = (struct cache){.fd = -1, .map_fd = -1};
    o->facts = *facts;
    o->refs = o->users = 1;
    o->path = mem_strdup(path);
    pst_status st = o->path ? open_copy(o, room, reterr) : fail_memory_at(reterr, path, "opening the object");
    if (st < 0) {
        object_free(o);
        return st;
    }
    *facts = o->facts;
    found = parts_find(path, o); /* another thread may have been first */
    if (found)
        object_free(o);
    *ret = found ? found : o;
    return PST_OK;
}

void object_close(struct object *o)
{
    if (o)
        parts_leave(o);
}
