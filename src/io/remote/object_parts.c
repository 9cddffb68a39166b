/* object_parts.c: requests for parts of objects: the queue, the threads that work on it, and the bytes on their way into the copy.
 *
 * Promises: a block is HERE only after its bytes are in the copy and its checksum is in the map; a failure reaches everybody who waits for a
 * block of that request, and the next to ask tries again. */
#include "io/remote/object_inside.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/remote/settings.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#define SMALL_BLOCKS 8u /* requests for no more than this are limited by latency: more connections help */
#define POLL_NS      5000000L

/* ---- Fetching one part ---- */

struct writing { /* the bytes of one part on their way into the copy */
    struct object *o;
    uint64_t at;
    uint32_t crc;
    uint32_t *sums; /* of the part's blocks */
    size_t first;
    int error;
};

static bool write_bytes(void *user, const void *data, size_t length)
{
    struct writing *w = user;
    const uint8_t *bytes = data;
    while (length) {
        size_t block = (size_t)(w->at / CACHE_BLOCK), inside = (size_t)(w->at % CACHE_BLOCK);
        size_t n = cache_block_bytes(&w->o->cache, block) - inside;
        n = n < length ? n : length;
        ssize_t k = file_denied("pwrite") ? -1 : pwrite(w->o->cache.fd, bytes, n, (off_t)w->at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            w->error = k < 0 ? errno : ENOSPC;
            return false;
        }
        if (w->o->cache.map_fd >= 0) /* a private copy is not read by later processes: a mark is enough */
            w->crc = crc32c_extend(inside ? w->crc : 0, bytes, (size_t)k);
        w->at += (uint64_t)k;
        if (w->at % CACHE_BLOCK == 0 || w->at == w->o->cache.size)
            w->sums[block - w->first] = cache_sum(w->crc);
        bytes += k;
        length -= (size_t)k;
    }
    return true;
}

void object_keep_first(struct object *o, const uint8_t *bytes, size_t length)
{
    uint32_t sum = 0;
    struct writing w = {.o = o, .sums = &sum};
    if (write_bytes(&w, bytes, length)) {
        atomic_store(&o->cache.sums[0], sum);
        object_mark(o, 0, 1, HERE);
    }
}

static _Atomic uint64_t downloaded; /* bytes, of all objects */

uint64_t object_downloaded(void)
{
    return atomic_load(&downloaded);
}

static pst_status download(struct part *p, pst_error *reterr)
{
    struct object *o = p->object;
    uint32_t sums[PART_BLOCKS] = {0};
    struct writing w = {.o = o, .at = (uint64_t)p->first * CACHE_BLOCK, .sums = sums, .first = p->first};
    uint64_t end = (uint64_t)(p->first + p->count) * CACHE_BLOCK;
    struct store_facts facts = o->facts;
    struct store_get get = {.path = o->path,
                            .offset = w.at,
                            .length = (end < o->cache.size ? end : o->cache.size) - w.at,
                            .sink = write_bytes,
                            .user = &w,
                            .cancel = &p->cancel,
                            .progress = &p->progress};
    pst_status st = store_get(&get, &facts, reterr);
    atomic_fetch_add(&downloaded, get.length);
    if (w.error)
        st = file_fail(reterr, o->path, "keeping a copy of the object", w.error);
    for (size_t i = 0; st == PST_OK && i < p->count; i++) {
        if (!sums[i])
            st = pst_fail_at(reterr, PST_EIO, o->path, PST_NOWHERE, w.at, "the server sent fewer bytes than the object has");
        else
            atomic_store(&o->cache.sums[p->first + i], sums[i]);
    }
    return st;
}

/* Another process may be fetching the same blocks: then its work is waited for. */
static pst_status bring(struct part *p, pst_error *reterr)
{
    const struct cache *c = &p->object->cache;
    while (!cache_claim(c, p->first, p->count)) {
        if (atomic_load(&p->cancel))
            return pst_fail_at(reterr, PST_ECANCELLED, p->object->path, PST_NOWHERE, PST_NOWHERE, "stopped while it was read");
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    bool there = c->map_fd >= 0;
    for (size_t i = 0; there && i < p->count; i++)
        there = cache_check(c, p->first + i);
    pst_status st = there ? PST_OK : download(p, reterr);
    cache_release(c, p->first, p->count);
    return st;
}

static void unlink_active(struct object *o, const struct part *p)
{
    struct part **at = &o->active;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

void object_mark(struct object *o, size_t first, size_t count, enum state state)
{
    for (size_t i = first; i < first + count; i++) {
        o->here += (state == HERE) - (o->states[i] == HERE);
        o->states[i] = (uint8_t)state;
    }
    if (state == ABSENT && first < o->fill)
        o->fill = first;
}

static void finish_part(struct part *p, pst_status st, const pst_error *error)
{
    struct object *o = p->object;
    pthread_mutex_lock(&o->lock);
    unlink_active(o, p);
    struct part *twin = p->twin;
    if (twin)
        twin->twin = NULL;
    if (st == PST_OK) {
        object_mark(o, p->first, p->count, HERE);
        if (twin)
            atomic_store(&twin->cancel, true);
    } else if (!twin) { /* otherwise the other one may still succeed */
        bool lost = false;
        for (size_t i = p->first; i < p->first + p->count; i++) {
            if (o->states[i] != COMING)
                continue;
            object_mark(o, i, 1, ABSENT);
            lost = true;
        }
        o->error = *error;
        o->failures += lost && st != PST_ECANCELLED; /* a thread that waits for it asks again */
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    object_release(o);
    mem_free(p);
}

/* ---- The queue ---- */

struct part *part_make(struct object *o, size_t first, size_t count, enum urgency urgency)
{
    struct part *p = mem_zalloc(sizeof(*p));
    if (!p)
        return NULL;
    p->object = o;
    p->first = first;
    p->count = count;
    p->urgency = urgency;
    return p;
}

/* Parts that were not requested yet, of objects that will be read whole. Locks the object. */
static struct part *fill_part(struct object *o)
{
    struct part *p = NULL;
    pthread_mutex_lock(&o->lock);
    while (o->fill < o->cache.blocks && o->states[o->fill] != ABSENT)
        o->fill++;
    size_t count = 0;
    while (o->fill + count < o->cache.blocks && count < PART_BLOCKS && o->states[o->fill + count] == ABSENT)
        count++;
    if (count && (p = part_make(o, o->fill, count, SOMETIME))) {
        object_mark(o, o->fill, count, COMING);
        p->next = o->active;
        o->active = p;
    }
    pthread_mutex_unlock(&o->lock);
    return p;
}

/* The next part to fetch; NULL: nothing to do. object_shared.lock is held; objects are locked inside of it only here and where nobody who
 * holds an object's lock waits for object_shared.lock. */
static struct part *take_part(void)
{
    for (unsigned u = 0; u < SOMETIME; u++) {
        struct part *p = object_shared.queue[u];
        if (p) {
            object_shared.queue[u] = p->next;
            object_shared.queued--;
            return p;
        }
    }
    for (struct object *o = object_shared.objects; o; o = o->next) {
        struct part *p = o->refs && atomic_load(&o->all) ? fill_part(o) : NULL;
        if (p) {
            o->refs++;
            return p;
        }
    }
    return NULL;
}

static void *fetch_parts(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&object_shared.lock);
    for (;;) {
        struct part *p = take_part();
        if (!p) {
            object_shared.idle++;
            pthread_cond_wait(&object_shared.work, &object_shared.lock);
            object_shared.idle--;
            continue;
        }
        pthread_mutex_unlock(&object_shared.lock);
        pst_error error = {0};
        pthread_mutex_lock(&p->object->lock);
        if (p->urgency != SOMETIME) {
            p->next = p->object->active;
            p->object->active = p;
        }
        p->started = clock_ns();
        pthread_mutex_unlock(&p->object->lock);
        pst_status st = bring(p, &error);
        finish_part(p, st, &error);
        pthread_mutex_lock(&object_shared.lock);
    }
    return NULL;
}

void part_start_threads(unsigned wanted, bool small)
{
    unsigned most = settings_connections() * (small ? 4 : 1);
    most = most < MOST_THREADS ? most : MOST_THREADS;
    while (object_shared.threads < most && object_shared.threads < wanted) {
        pthread_t thread;
        if (fault_hit(FAULT_THREAD, "pthread_create") || pthread_create(&thread, NULL, fetch_parts, NULL))
            return;
        pthread_detach(thread);
        object_shared.threads++;
    }
}

bool part_enqueue(struct part *list)
{
    unsigned count = 0;
    size_t blocks = 0;
    pthread_mutex_lock(&object_shared.lock);
    while (list) {
        struct part *p = list, **at = &object_shared.queue[p->urgency];
        list = p->next;
        p->next = NULL;
        while (*at)
            at = &(*at)->next;
        *at = p;
        p->object->refs++;
        blocks += p->count;
        object_shared.queued++;
        count++;
    }
    part_start_threads(object_shared.threads - object_shared.idle + object_shared.queued, blocks <= (size_t)count * SMALL_BLOCKS);
    bool ok = object_shared.threads > 0;
    pthread_cond_broadcast(&object_shared.work);
    pthread_mutex_unlock(&object_shared.lock);
    return ok;
}
