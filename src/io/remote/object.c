/* object.c: see object.h. Opening and closing objects, and asking for their blocks; object_parts.c fetches them. */
#include "io/remote/object_inside.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/remote/fork.h"
#include "io/stop.h"

#include <string.h>
#include <time.h>

#define AHEAD_BLOCKS (4 * PART_BLOCKS)
#define TWIN_SECONDS 1.0 /* a request without a single byte for so long gets a twin */

struct object_shared object_shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

static void object_free(struct object *o)
{
    if (!o)
        return;
    cache_close(&o->cache);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->changed);
    mem_free(o->states);
    mem_free(o->path);
    mem_free(o);
}

void object_release(struct object *o)
{
    pthread_mutex_lock(&object_shared.lock);
    bool last = --o->refs == 0;
    struct object **at = &object_shared.objects;
    while (last && *at != o)
        at = &(*at)->next;
    if (last)
        *at = o->next;
    pthread_mutex_unlock(&object_shared.lock);
    if (last)
        object_free(o);
}

/* ---- Forks ---- */

static void drop_parts(struct part **list)
{
    while (*list) {
        struct part *p = *list;
        *list = p->next;
        mem_free(p);
    }
}

/* The threads stayed with the parent: what they were fetching is not on its way to this process. */
static void forget_threads(void)
{
    object_shared.threads = object_shared.idle = object_shared.queued = 0;
    pthread_cond_init(&object_shared.work, NULL);
    for (unsigned u = 0; u < SOMETIME; u++)
        drop_parts(&object_shared.queue[u]);
    for (struct object *o = object_shared.objects; o; o = o->next) {
        drop_parts(&o->active);
        for (size_t i = 0; i < o->cache.blocks; i++)
            o->states[i] = o->states[i] == COMING ? ABSENT : o->states[i];
        pthread_cond_init(&o->changed, NULL);
        o->fill = 0;
        o->refs = o->users;
    }
}

void object_fork(enum fork_phase phase)
{
    if (phase == FORK_BEFORE)
        pthread_mutex_lock(&object_shared.lock);
    for (struct object *o = object_shared.objects; o; o = o->next)
        fork_lock(&o->lock, phase);
    if (phase == FORK_CHILD)
        forget_threads();
    if (phase != FORK_BEFORE)
        pthread_mutex_unlock(&object_shared.lock);
}

/* ---- Asking for blocks ---- */

/* Turns absent blocks of [first, end) into parts. Locked. NULL also if there is nothing to fetch. */
static struct part *ask_for(struct object *o, size_t first, size_t end, enum urgency urgency, bool *ret_failed)
{
    struct part *list = NULL, **last = &list;
    for (size_t i = first; i < end;) {
        if (o->states[i] != ABSENT) {
            i++;
            continue;
        }
        size_t count = 1;
        while (i + count < end && count < PART_BLOCKS && o->states[i + count] == ABSENT)
            count++;
        struct part *p = part_make(o, i, count, urgency);
        if (!p) {
            *ret_failed = true;
            break;
        }
        object_mark(o, i, count, COMING);
        *last = p;
        last = &p->next;
        i += count;
    }
    return list;
}

/* Requests that have not brought a single byte for long get a second try beside them. Locked. */
static struct part *make_twins(struct object *o, size_t first, size_t end)
{
    struct part *list = NULL;
    uint64_t now = clock_ns();
    for (struct part *p = o->active; p; p = p->next) {
        bool mine = p->first < end && p->first + p->count > first;
        if (!mine || p->twin || p->second || !p->started || atomic_load(&p->progress) ||
            (double)(now - p->started) * 1e-9 < TWIN_SECONDS)
            continue;
        struct part *twin = part_make(o, p->first, p->count, NOW);
        if (!twin)
            break;
        twin->second = true;
        twin->twin = p;
        p->twin = twin;
        twin->next = list;
        list = twin;
    }
    return list;
}

/* Blocks that an earlier process stored are compared with their checksums. Locked; unlocks meanwhile. */
static void check_stored(struct object *o, size_t first, size_t end)
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

/* The first block of [first, end) that is not here; `end`: all are. Locked. */
static size_t first_missing(const struct object *o, size_t first, size_t end)
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

pst_status object_need(struct object *o, uint64_t offset, uint64_t length, pst_error *reterr)
{
    size_t first, end;
    bool failed = false;
    pst_status st = PST_OK;
    if (!find_blocks(o, offset, length, &first, &end))
        return PST_OK;
    pthread_mutex_lock(&o->lock);
    uint64_t failures = o->failures, began = clock_ns();
    while ((first = first_missing(o, first, end)) < end) {
        check_stored(o, first, end);
        if (o->failures != failures && o->states[first] == ABSENT) {
            *reterr = o->error;
            st = o->error.status;
            break;
        }
        if (stop_thread_asked() || ((double)(clock_ns() - began) * 1e-9 > STOP_SECONDS && stop_process_asked())) {
            st = pst_fail_at(reterr, PST_ECANCELLED, o->path, PST_NOWHERE, PST_NOWHERE, "stopped while it was read");
            break;
        }
        struct part *list = ask_for(o, first, end, NOW, &failed), *twins = make_twins(o, first, end);
        if (o->sequential && list && !failed) {
            size_t ahead = end + AHEAD_BLOCKS < o->cache.blocks ? end + AHEAD_BLOCKS : o->cache.blocks;
            struct part **last = &list;
            while (*last)
                last = &(*last)->next;
            *last = ask_for(o, end, ahead, SOON, &failed);
        }
        pthread_mutex_unlock(&o->lock);
        bool running = (!list || part_enqueue(list)) && (!twins || part_enqueue(twins));
        pthread_mutex_lock(&o->lock);
        if (failed || !running) {
            st = failed ? fail_memory_at(reterr, o->path, "fetching the object")
                        : pst_fail_at(reterr, PST_EIO, o->path, PST_NOWHERE, PST_NOWHERE,
                                      "no thread could be started to fetch it");
            break;
        }
        if (first_missing(o, first, end) < end && !(o->failures != failures && o->states[first] == ABSENT))
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
    check_stored(o, first, end);
    struct part *list = ask_for(o, first, end, SOON, &failed);
    pthread_mutex_unlock(&o->lock);
    if (list)
        (void)part_enqueue(list); /* without a thread it stays in the queue: the next to wait tries again to start one */
}

void object_expect_sequential(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    o->sequential = true;
    pthread_mutex_unlock(&o->lock);
}

void object_expect_all(struct object *o)
{
    if (atomic_exchange(&o->all, true) || object_is_whole(o))
        return;
    pthread_mutex_lock(&object_shared.lock);
    part_start_threads(MOST_THREADS, false);
    pthread_cond_broadcast(&object_shared.work);
    pthread_mutex_unlock(&object_shared.lock);
}

/* ---- Opening ---- */

int object_descriptor(const struct object *o)
{
    return o->cache.fd;
}

uint64_t object_size(const struct object *o)
{
    return o->cache.size;
}

bool object_is_whole(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    if (o->here < o->cache.blocks)
        check_stored(o, 0, o->cache.blocks);
    bool whole = o->here == o->cache.blocks;
    pthread_mutex_unlock(&o->lock);
    return whole;
}

bool object_is_here(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    bool here = o->here == o->cache.blocks;
    pthread_mutex_unlock(&o->lock);
    return here;
}

struct first_bytes {
    uint8_t *bytes;
    size_t length;
};

static bool keep_bytes(void *user, const void *data, size_t length)
{
    struct first_bytes *f = user;
    memcpy(f->bytes + f->length, data, length); /* store_get passes no more than was asked for */
    f->length += length;
    return true;
}

/* Facts that are not known come with the first block, in one request. */
static pst_status open_copy(struct object *o, const char *folder, pst_error *reterr)
{
    struct first_bytes f = {0};
    pst_status st = PST_OK;
    if (!o->facts.known) {
        f.bytes = mem_alloc(CACHE_BLOCK);
        st = f.bytes ? store_get(&(struct store_get){.path = o->path, .length = CACHE_BLOCK, .sink = keep_bytes, .user = &f},
                                 &o->facts, reterr)
                     : fail_memory_at(reterr, o->path, "opening the object");
    }
    if (st == PST_OK)
        st = cache_open(&o->cache, folder, o->path, &o->facts, reterr);
    o->states = st == PST_OK ? mem_zalloc(o->cache.blocks + 1) : NULL;
    if (st == PST_OK && !o->states)
        st = fail_memory_at(reterr, o->path, "opening the object");
    for (size_t i = 0; st == PST_OK && i < o->cache.blocks; i++)
        o->states[i] = atomic_load(&o->cache.sums[i]) ? STORED : ABSENT;
    if (st == PST_OK && o->cache.blocks && f.length == cache_block_bytes(&o->cache, 0))
        object_keep_first(o, f.bytes, f.length);
    mem_free(f.bytes);
    return st;
}

static struct object *find_open(const char *path)
{
    for (struct object *o = object_shared.objects; o; o = o->next)
        if (strcmp(o->path, path) == 0) {
            o->refs++;
            o->users++;
            return o;
        }
    return NULL;
}

pst_status object_open(struct object **ret, const char *path, struct store_facts *facts, const char *folder, pst_error *reterr)
{
    fork_watch();
    pthread_mutex_lock(&object_shared.lock);
    struct object *found = find_open(path);
    pthread_mutex_unlock(&object_shared.lock);
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
    o->cache = (struct cache){.fd = -1, .map_fd = -1};
    o->facts = *facts;
    o->refs = o->users = 1;
    o->path = mem_strdup(path);
    pst_status st = o->path ? open_copy(o, folder, reterr) : fail_memory_at(reterr, path, "opening the object");
    if (st < 0) {
        object_free(o);
        return st;
    }
    *facts = o->facts;
    pthread_mutex_lock(&object_shared.lock);
    found = find_open(path); /* another thread may have been first */
    if (!found) {
        o->next = object_shared.objects;
        object_shared.objects = o;
    }
    pthread_mutex_unlock(&object_shared.lock);
    if (found)
        object_free(o);
    *ret = found ? found : o;
    return PST_OK;
}

/* What is queued for an object that is no longer used is dropped; what is under way ends soon. */
void object_close(struct object *o)
{
    if (!o)
        return;
    struct part *dropped = NULL;
    pthread_mutex_lock(&object_shared.lock);
    bool unused = --o->users == 0;
    for (unsigned u = 0; unused && u < SOMETIME; u++)
        for (struct part **at = &object_shared.queue[u]; *at;) {
            struct part *p = *at;
            if (p->object != o) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            object_shared.queued--;
            p->next = dropped;
            dropped = p;
        }
    if (unused)
        atomic_store(&o->all, false);
    pthread_mutex_unlock(&object_shared.lock);
    pthread_mutex_lock(&o->lock);
    for (struct part *p = o->active; unused && p; p = p->next)
        atomic_store(&p->cancel, true);
    for (const struct part *p = dropped; p; p = p->next) {
        if (p->twin)
            p->twin->twin = NULL;
        for (size_t i = p->first; i < p->first + p->count; i++)
            if (o->states[i] == COMING && !p->second)
                object_mark(o, i, 1, ABSENT);
    }
    pthread_mutex_unlock(&o->lock);
    while (dropped) {
        struct part *p = dropped;
        dropped = p->next;
        mem_free(p);
        object_release(o);
    }
    object_release(o);
}
