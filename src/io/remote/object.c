/* object.c: see object.h.
 *
 * Promises: a block is HERE only after its bytes are in the copy and its checksum is in the map; a failure reaches everybody
 * who waits for a block of that request, and the next to ask tries again. Locks: `all.lock` guards the list of objects, the
 * queue and the threads; an object's lock guards its states. `all.lock` is never taken while an object's lock is held. */
#include "io/remote/object.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/remote/fork.h"
#include "io/remote/settings.h"
#include "io/stop.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PART_BLOCKS  128u /* of one request: 8 MiB */
#define AHEAD_BLOCKS (4 * PART_BLOCKS)
#define SMALL_BLOCKS 8u /* requests for no more than this are limited by latency: more connections help */
#define POLL_NS      5000000L
#define TWIN_SECONDS 1.0 /* a request without a single byte for so long gets a twin */
#define MOST_THREADS 64u

enum state { ABSENT, COMING, STORED /* by an earlier process: to be checked */, HERE };
enum urgency { NOW, SOON, SOMETIME };

struct part { /* one request */
    struct object *object;
    size_t first, count;
    enum urgency urgency;
    uint64_t started; /* nanoseconds; 0: it waits */
    _Atomic uint64_t progress;
    _Atomic bool cancel;
    struct part *twin; /* a second request for the same blocks */
    bool second;       /* it is that second request */
    struct part *next; /* in the queue, or in the object's list of those under way */
};

struct object {
    char *path;
    struct store_facts facts;
    struct cache cache;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t *states;
    size_t here;         /* blocks */
    struct part *active; /* under way; locked */
    pst_error error;     /* the last failure… */
    uint64_t failures;   /* …and their number */
    bool sequential;
    _Atomic bool all; /* will be read whole */
    size_t fill;      /* blocks before this one are not absent */
    unsigned refs;    /* users and parts; under all.lock, as the two below */
    unsigned users;
    struct object *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct object *objects;
    struct part *queue[SOMETIME]; /* by urgency, first come first served */
    unsigned threads, idle, queued; /* the last: parts in the queue */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

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

/* Gives back a reference. */
static void object_release(struct object *o)
{
    pthread_mutex_lock(&all.lock);
    bool last = --o->refs == 0;
    struct object **at = &all.objects;
    while (last && *at != o)
        at = &(*at)->next;
    if (last)
        *at = o->next;
    pthread_mutex_unlock(&all.lock);
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
    all.threads = all.idle = all.queued = 0;
    pthread_cond_init(&all.work, NULL);
    for (unsigned u = 0; u < SOMETIME; u++)
        drop_parts(&all.queue[u]);
    for (struct object *o = all.objects; o; o = o->next) {
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
        pthread_mutex_lock(&all.lock);
    for (struct object *o = all.objects; o; o = o->next)
        fork_lock(&o->lock, phase);
    if (phase == FORK_CHILD)
        forget_threads();
    if (phase != FORK_BEFORE)
        pthread_mutex_unlock(&all.lock);
}

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

static void mark(struct object *o, size_t first, size_t count, enum state state)
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
        mark(o, p->first, p->count, HERE);
        if (twin)
            atomic_store(&twin->cancel, true);
    } else if (!twin) { /* otherwise the other one may still succeed */
        bool lost = false;
        for (size_t i = p->first; i < p->first + p->count; i++) {
            if (o->states[i] != COMING)
                continue;
            mark(o, i, 1, ABSENT);
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

static struct part *make_part(struct object *o, size_t first, size_t count, enum urgency urgency)
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
    if (count && (p = make_part(o, o->fill, count, SOMETIME))) {
        mark(o, o->fill, count, COMING);
        p->next = o->active;
        o->active = p;
    }
    pthread_mutex_unlock(&o->lock);
    return p;
}

/* The next part to fetch; NULL: nothing to do. all.lock is held; objects are locked inside of it only here and where nobody who
 * holds an object's lock waits for all.lock. */
static struct part *take_part(void)
{
    for (unsigned u = 0; u < SOMETIME; u++) {
        struct part *p = all.queue[u];
        if (p) {
            all.queue[u] = p->next;
            all.queued--;
            return p;
        }
    }
    for (struct object *o = all.objects; o; o = o->next) {
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
    pthread_mutex_lock(&all.lock);
    for (;;) {
        struct part *p = take_part();
        if (!p) {
            all.idle++;
            pthread_cond_wait(&all.work, &all.lock);
            all.idle--;
            continue;
        }
        pthread_mutex_unlock(&all.lock);
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
        pthread_mutex_lock(&all.lock);
    }
    return NULL;
}

/* all.lock is held. */
static void start_threads(unsigned wanted, bool small)
{
    unsigned most = settings_connections() * (small ? 4 : 1);
    most = most < MOST_THREADS ? most : MOST_THREADS;
    while (all.threads < most && all.threads < wanted) {
        pthread_t thread;
        if (fault_hit(FAULT_THREAD, "pthread_create") || pthread_create(&thread, NULL, fetch_parts, NULL))
            return;
        pthread_detach(thread);
        all.threads++;
    }
}

/* Takes the list; every part holds a reference to its object from here on. False: no thread could be started. */
static bool enqueue(struct part *list)
{
    unsigned count = 0;
    size_t blocks = 0;
    pthread_mutex_lock(&all.lock);
    while (list) {
        struct part *p = list, **at = &all.queue[p->urgency];
        list = p->next;
        p->next = NULL;
        while (*at)
            at = &(*at)->next;
        *at = p;
        p->object->refs++;
        blocks += p->count;
        all.queued++;
        count++;
    }
    start_threads(all.threads - all.idle + all.queued, blocks <= (size_t)count * SMALL_BLOCKS);
    bool ok = all.threads > 0;
    pthread_cond_broadcast(&all.work);
    pthread_mutex_unlock(&all.lock);
    return ok;
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
        struct part *p = make_part(o, i, count, urgency);
        if (!p) {
            *ret_failed = true;
            break;
        }
        mark(o, i, count, COMING);
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
        struct part *twin = make_part(o, p->first, p->count, NOW);
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
            mark(o, i, 1, ok ? HERE : ABSENT);
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
        bool running = (!list || enqueue(list)) && (!twins || enqueue(twins));
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
        (void)enqueue(list); /* without a thread it stays in the queue: the next to wait tries again to start one */
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
    pthread_mutex_lock(&all.lock);
    start_threads(MOST_THREADS, false);
    pthread_cond_broadcast(&all.work);
    pthread_mutex_unlock(&all.lock);
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
    if (st == PST_OK && o->cache.blocks && f.length == cache_block_bytes(&o->cache, 0)) {
        uint32_t sum = 0;
        struct writing w = {.o = o, .sums = &sum};
        if (write_bytes(&w, f.bytes, f.length)) {
            atomic_store(&o->cache.sums[0], sum);
            mark(o, 0, 1, HERE);
        }
    }
    mem_free(f.bytes);
    return st;
}

static struct object *find_open(const char *path)
{
    for (struct object *o = all.objects; o; o = o->next)
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
    pthread_mutex_lock(&all.lock);
    struct object *found = find_open(path);
    pthread_mutex_unlock(&all.lock);
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
    pthread_mutex_lock(&all.lock);
    found = find_open(path); /* another thread may have been first */
    if (!found) {
        o->next = all.objects;
        all.objects = o;
    }
    pthread_mutex_unlock(&all.lock);
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
    pthread_mutex_lock(&all.lock);
    bool unused = --o->users == 0;
    for (unsigned u = 0; unused && u < SOMETIME; u++)
        for (struct part **at = &all.queue[u]; *at;) {
            struct part *p = *at;
            if (p->object != o) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            all.queued--;
            p->next = dropped;
            dropped = p;
        }
    if (unused)
        atomic_store(&o->all, false);
    pthread_mutex_unlock(&all.lock);
    pthread_mutex_lock(&o->lock);
    for (struct part *p = o->active; unused && p; p = p->next)
        atomic_store(&p->cancel, true);
    for (const struct part *p = dropped; p; p = p->next) {
        if (p->twin)
            p->twin->twin = NULL;
        for (size_t i = p->first; i < p->first + p->count; i++)
            if (o->states[i] == COMING && !p->second)
                mark(o, i, 1, ABSENT);
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
