/* object_parts.c: see object_inside.h. The list of open objects, the queues of requests, and the threads that make them, one per connection.
 *
 * Blocks that a thread waits for come first, then those that are announced, then the rest of the expected bytes of objects, in the
 * order in which they were named. */
#include "io/remote/object_inside.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/memory.h"
#include "io/remote/blocks.h"
#include "io/remote/fork.h"
#include "io/remote/settings.h"
#include "io/remote/tuner.h"

#include <string.h>

#define SMALL_BLOCKS 8u /* requests for no more than this are limited by latency: more connections help */
#define GROW_BLOCKS  8u /* requests within the expected bytes have at least so many, if their neighbours are absent */
#define MOST_THREADS 64u

struct queue {
    struct part *first, **last;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct object *objects;
    struct queue queue[SOMETIME]; /* by urgency, first come first served */
    struct object *fill_first, *fill_last;
    uint64_t turns;
    struct tuner tuner;
    _Atomic size_t blocks, blocks_in_memory; /* of one request; 0: not known yet. The latter where they go into memory */
    unsigned threads, idle, queued; /* the last: parts in the queues */
    unsigned fills;                 /* requests that fetch ahead: up to the number of connections, even if there are more threads */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

/* Locked. */
static unsigned connections(void)
{
    unsigned set = settings_connections_set();
    return set ? set : all.tuner.now ? all.tuner.now : TUNER_LEAST;
}

/* Locked. */
static void retune(void)
{
    uint64_t part = tuner_part(&all.tuner);
    atomic_store(&all.blocks, (size_t)(part / CACHE_BLOCK));
    atomic_store(&all.blocks_in_memory, (size_t)(tuner_part_within(part, connections(), blocks_most_bytes()) / CACHE_BLOCK));
}

size_t parts_blocks(bool in_memory)
{
    size_t n = atomic_load(in_memory ? &all.blocks_in_memory : &all.blocks);
    return n ? n : (size_t)(TUNER_PART / CACHE_BLOCK);
}

void parts_note(double latency, double transfer, uint64_t bytes)
{
    pthread_mutex_lock(&all.lock);
    tuner_note(&all.tuner, latency, transfer, bytes);
    retune();
    pthread_mutex_unlock(&all.lock);
}

static bool is_cached(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    bool cached = !o->memory;
    pthread_mutex_unlock(&o->lock);
    return cached;
}

uint64_t object_expect_bytes(struct object *o)
{
    if (!o)
        return OBJECT_EXPECT_LEAST;
    bool in_memory = !is_cached(o);
    pthread_mutex_lock(&all.lock);
    uint64_t at_once = connections() * (uint64_t)parts_blocks(in_memory) * CACHE_BLOCK;
    pthread_mutex_unlock(&all.lock);
    return 2 * at_once > OBJECT_EXPECT_LEAST ? 2 * at_once : OBJECT_EXPECT_LEAST;
}

static void queue_put(struct queue *q, struct part *p)
{
    p->next = NULL;
    if (!q->first)
        q->last = &q->first;
    *q->last = p;
    q->last = &p->next;
    all.queued++;
}

static struct part *queue_take(struct queue *q)
{
    struct part *p = q->first;
    if (!p)
        return NULL;
    q->first = p->next;
    all.queued--;
    return p;
}

/* ---- Objects ---- */

struct object *parts_find(const char *path, struct object *add)
{
    pthread_mutex_lock(&all.lock);
    struct object *o = all.objects;
    while (o && strcmp(o->path, path))
        o = o->next;
    if (o) {
        o->refs++;
        o->users++;
    } else if (add) {
        add->next = all.objects;
        all.objects = add;
        retune(); /* the memory for blocks may have changed */
    }
    pthread_mutex_unlock(&all.lock);
    return o;
}

void parts_release(struct object *o)
{
    pthread_mutex_lock(&all.lock);
    bool last = --o->refs == 0;
    struct object **at = &all.objects;
    while (last && *at != o)
        at = &(*at)->next;
    if (last)
        *at = o->next;
    pthread_mutex_unlock(&all.lock);
    if (!last)
        return;
    object_free(o);
    if (spare_is_short())
        parts_resume();
}

bool parts_visit(bool (*visit)(struct object *o, void *user), void *user)
{
    bool done = false;
    pthread_mutex_lock(&all.lock);
    for (struct object *o = all.objects; o && !done; o = o->next)
        done = visit(o, user);
    pthread_mutex_unlock(&all.lock);
    return done;
}

/* Locked. */
static void stop_filling(struct object *o)
{
    struct object *before = NULL, *at = all.fill_first;
    for (; at && at != o; at = at->fill_next)
        before = at;
    if (!at)
        return;
    if (before)
        before->fill_next = o->fill_next;
    else
        all.fill_first = o->fill_next;
    if (all.fill_last == o)
        all.fill_last = before;
    o->fill_next = NULL;
    o->filling = false;
}

/* Takes the parts of an object out of the queues. Locked. */
static struct part *drop_queued(const struct object *o)
{
    struct part *dropped = NULL;
    for (unsigned u = 0; u < SOMETIME; u++) {
        struct queue kept = {0};
        struct part *p;
        while ((p = queue_take(&all.queue[u]))) {
            if (p->object != o) {
                queue_put(&kept, p);
                continue;
            }
            p->next = dropped;
            dropped = p;
        }
        all.queue[u] = kept;
    }
    return dropped;
}

void parts_leave(struct object *o)
{
    struct part *dropped = NULL;
    pthread_mutex_lock(&all.lock);
    bool unused = --o->users == 0;
    if (unused) {
        dropped = drop_queued(o);
        stop_filling(o);
        atomic_store(&o->all, false);
    }
    pthread_mutex_unlock(&all.lock);
    pthread_mutex_lock(&o->lock);
    for (struct part *p = o->active; unused && p; p = p->next)
        atomic_store(&p->cancel, true);
    for (struct part *p = dropped; p; p = p->next) {
        bool others = p->second && p->twin; /* a second request whose first one failed is the only one */
        if (p->twin)
            p->twin->twin = NULL;
        for (size_t i = p->first; i < p->first + p->count; i++)
            if (o->states[i] == COMING && !others)
                object_mark(o, i, 1, ABSENT);
        part_give_room(p);
    }
    pthread_mutex_unlock(&o->lock);
    while (dropped) {
        struct part *p = dropped;
        dropped = p->next;
        mem_free(p);
        parts_release(o);
    }
    parts_release(o);
}

/* ---- Forks ---- */

static void drop_parts(struct part **list)
{
    while (*list) {
        struct part *p = *list;
        *list = p->next;
        blocks_give_forked(p->block);
        mem_free(p);
    }
}

/* Forgets the threads, which stayed with the parent, and their requests: nothing is on its way to this process. */
static void forget_threads(void)
{
    all.threads = all.idle = all.queued = all.fills = 0;
    all.tuner.began = 0;
    pthread_cond_init(&all.work, NULL);
    for (unsigned u = 0; u < SOMETIME; u++)
        drop_parts(&all.queue[u].first);
    for (struct object *o = all.objects; o; o = o->next) {
        drop_parts(&o->active);
        if (o->cache.map_fd >= 0)
            room_hold_again(o->cache.map_fd, o->cache.map, o->cache.map_bytes);
        o->wishes = NULL; /* on the stacks of threads that stayed */
        for (size_t i = 0; i < o->cache.blocks; i++) {
            o->states[i] = o->states[i] == COMING ? ABSENT : o->states[i];
            if (o->memory)
                o->memory[i].readers = 0;
        }
        pthread_cond_init(&o->changed, NULL);
        o->fill = 0;
        o->refs = o->users;
    }
}

void object_fork(enum fork_phase phase)
{
    if (phase == FORK_BEFORE)
        pthread_mutex_lock(&all.lock);
    for (struct object *o = all.objects; o; o = o->next) {
        o->forked |= phase != FORK_BEFORE;
        fork_lock(&o->lock, phase);
    }
    if (phase == FORK_CHILD)
        forget_threads();
    if (phase != FORK_BEFORE)
        pthread_mutex_unlock(&all.lock);
}

/* ---- One request ---- */

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

static void unlink_active(struct object *o, const struct part *p)
{
    struct part **at = &o->active;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

/* Notes the failure of one of two requests for the same blocks; the other may still succeed. If it does not, the first real error is
 * reported, because that of a cancelled or late request says less. */
static void pass_failure(struct part *p, struct part *twin, pst_status st, const pst_error *error)
{
    twin->taken += p->taken;
    twin->touched = part_touched(p);
    p->taken = 0;
    if (p->failed || st != PST_ECANCELLED) {
        twin->failed = true;
        twin->error = p->failed ? p->error : *error;
    }
}

/* Marks blocks that no other request brings as absent. Locked. */
static void lose(struct part *p, pst_status st, const pst_error *error)
{
    struct object *o = p->object;
    bool lost = false, told = st != PST_ECANCELLED || p->failed; /* otherwise a thread that waits for it asks again */
    if (told && !o->failed)
        o->failed = mem_array(o->cache.blocks + 1, sizeof(*o->failed)); /* without memory, every waiting thread gets the error */
    for (size_t i = p->first; i < p->first + p->count; i++) {
        if (o->states[i] != COMING)
            continue;
        object_mark(o, i, 1, ABSENT);
        lost = true;
        if (told && o->failed)
            o->failed[i] = o->failures + 1;
    }
    if (!lost || !told)
        return;
    o->error = p->failed ? p->error : *error;
    o->failures++;
}

void part_finish(struct part *p, pst_status st, const pst_error *error)
{
    struct object *o = p->object;
    pthread_mutex_lock(&o->lock);
    unlink_active(o, p);
    struct part *twin = p->twin;
    if (twin)
        twin->twin = NULL;
    if (st == PST_OK && twin)
        atomic_store(&twin->cancel, true);
    else if (st < 0 && twin)
        pass_failure(p, twin, st, error);
    else if (st < 0)
        lose(p, st, error);
    if (st < 0)
        part_give_room(p);
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    blocks_give(p->block);
    if (st == PST_ECANCELLED && atomic_load(&o->all)) /* the object was closed and opened again: the blocks of this request are still missing */
        parts_fill(o);
    parts_release(o);
    mem_free(p);
}

/* ---- Choosing the next request ---- */

/* Adds absent neighbours, which are needed sooner or later: one larger request costs less than two. Locked. */
static void grow(struct part *p)
{
    struct object *o = p->object;
    size_t end = p->first + p->count;
    if (o->memory && spare_is_short())
        return;
    while (p->count < GROW_BLOCKS && end < o->until && o->states[end] == ABSENT) {
        object_mark(o, end++, 1, COMING);
        p->count++;
    }
    while (p->count < GROW_BLOCKS && p->first > o->from && o->states[p->first - 1] == ABSENT) {
        object_mark(o, --p->first, 1, COMING);
        p->count++;
    }
}

/* Returns a part of the expected bytes that was not requested yet. Locks the object. */
static struct part *fill_part(struct object *o)
{
    struct part *p = NULL;
    pthread_mutex_lock(&o->lock);
    o->fill = o->fill > o->from ? o->fill : o->from;
    while (o->fill < o->until && o->states[o->fill] != ABSENT)
        o->fill++;
    if (o->fill < o->until)
        p = object_ask_once(o, o->fill, o->until, SOMETIME);
    pthread_mutex_unlock(&o->lock);
    return p;
}

/* Returns whether so many blocks that were fetched ahead can be dropped from objects that are filled after this one. Locked. */
static bool has_spare_after(const struct object *o, size_t wanted)
{
    size_t found = 0;
    for (struct object *other = all.objects; other && found < wanted; other = other->next) {
        if (other->turn <= o->turn)
            continue;
        pthread_mutex_lock(&other->lock);
        found += spare_ahead(other, wanted - found);
        pthread_mutex_unlock(&other->lock);
    }
    return found >= wanted;
}

/* Returns whether the blocks of the object's next request find memory. Locked. */
static bool has_memory(const struct object *o)
{
    size_t wanted = (all.fills + 1) * parts_blocks(true), room = blocks_room();
    return room >= wanted || has_spare_after(o, wanted - room);
}

/* Returns the first object whose next request finds memory, or room on a disk. Where one finds no memory, neither do those after it, of which less can be
 * dropped. Small requests have more threads than there are connections for large ones: as many of the latter at once would only delay each other. NULL:
 * there is none. Locked. */
static struct object *next_to_fill(void)
{
    struct object *o = all.fills < connections() ? all.fill_first : NULL;
    bool tried = false;
    for (; o && spare_is_short() && !is_cached(o); o = o->fill_next) {
        if (!tried && has_memory(o))
            break;
        tried = true;
    }
    return o;
}

/* NULL: nothing to do. Locked. */
static struct part *take_part(void)
{
    struct object *o;
    struct part *p = NULL;
    for (unsigned u = 0; u < SOMETIME && !p; u++)
        p = queue_take(&all.queue[u]);
    while (!p && (o = next_to_fill())) {
        p = fill_part(o);
        if (p)
            o->refs++;
        else
            stop_filling(o);
    }
    all.fills += p && p->urgency == SOMETIME;
    return p;
}

static void start_threads(unsigned wanted, bool small);

/* Ends a request that fetched ahead. Requests under way take up to half of the memory for blocks. Locked. */
static void end_fill(void)
{
    uint64_t most = blocks_most_bytes() / 2 / TUNER_PART;
    unsigned before = connections();
    most = most < TUNER_LEAST ? TUNER_LEAST : most < TUNER_MOST ? most : TUNER_MOST;
    (void)tuner_step(&all.tuner, clock_ns(), object_downloaded(), all.fill_first && all.fills >= before, (unsigned)most);
    all.fills--;
    retune();
    if (connections() > before)
        start_threads(MOST_THREADS, false);
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
        if (all.idle && next_to_fill()) /* this one may have filled before */
            pthread_cond_signal(&all.work);
        pthread_mutex_unlock(&all.lock);
        pst_error error = {0};
        struct object *o = p->object;
        bool fills = p->urgency == SOMETIME;
        pthread_mutex_lock(&o->lock);
        if (atomic_load(&o->all) && !p->second && !p->twin)
            grow(p);
        p->next = o->active;
        o->active = p;
        pthread_mutex_unlock(&o->lock);
        pst_status st = part_bring(p, &error);
        part_finish(p, st, &error);
        pthread_mutex_lock(&all.lock);
        if (fills)
            end_fill();
    }
    return NULL;
}

/* ---- Adding ---- */

/* Locked. */
static void start_threads(unsigned wanted, bool small)
{
    unsigned most = connections() * (small ? 8 : 1);
    most = most < MOST_THREADS ? most : MOST_THREADS;
    while (all.threads < most && all.threads < wanted) {
        pthread_t thread;
        if (fault_hit(FAULT_THREAD, "pthread_create") || pthread_create(&thread, NULL, fetch_parts, NULL))
            return;
        pthread_detach(thread);
        all.threads++;
    }
}

/* Wakes as many idle threads as there is work for. Locked. */
static void wake(unsigned count)
{
    for (unsigned i = 0; i < count && i < all.idle; i++)
        pthread_cond_signal(&all.work);
}

bool parts_add(struct part *list)
{
    unsigned count = 0;
    size_t blocks = 0;
    pthread_mutex_lock(&all.lock);
    while (list) {
        struct part *p = list;
        list = p->next;
        p->object->refs++;
        blocks += p->count;
        queue_put(&all.queue[p->urgency], p);
        count++;
    }
    start_threads(all.threads - all.idle + all.queued, blocks <= (size_t)count * SMALL_BLOCKS);
    bool ok = all.threads > 0;
    wake(count);
    pthread_mutex_unlock(&all.lock);
    return ok;
}

void parts_resume(void)
{
    pthread_mutex_lock(&all.lock);
    if (all.idle && next_to_fill())
        pthread_cond_signal(&all.work);
    pthread_mutex_unlock(&all.lock);
}

void parts_fill(struct object *o)
{
    pthread_mutex_lock(&all.lock);
    if (!o->filling && o->users) {
        o->filling = true;
        o->turn = ++all.turns;
        o->fill_next = NULL;
        if (all.fill_first)
            all.fill_last->fill_next = o;
        else
            all.fill_first = o;
        all.fill_last = o;
    }
    start_threads(MOST_THREADS, false);
    wake(MOST_THREADS);
    pthread_mutex_unlock(&all.lock);
}
