/* ring.c: see ring.h. The lock is held for a few instructions at a time; entries are opened and finished without it.
 *
 * Only one worker opens entries at a time, so that the order of batches, and of the elements of a stream, is the order of
 * openings, whichever worker opens them. */
#include "flow/ring.h"

#include "base/clock.h"
#include "base/memory.h"

#include <time.h>

#define WAKE_NS      200000u  /* waking the consumer more often would cost more than it gains */
#define LONG_WAIT_NS 1000000u /* it is not left waiting for more than one batch beyond this */

void ring_init(struct ring *r)
{
    *r = (struct ring){0};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->room, NULL);
    pthread_cond_init(&r->idle, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&r->whole, &attributes);
    pthread_condattr_destroy(&attributes);
}

void ring_finish(struct ring *r)
{
    for (size_t i = 0; i < r->capacity; i++) {
        damage_list_finish(&r->entries[i].damage);
        mem_free(r->entries[i].items);
    }
    mem_free(r->entries);
    pthread_cond_destroy(&r->room);
    pthread_cond_destroy(&r->idle);
    pthread_cond_destroy(&r->whole);
    pthread_mutex_destroy(&r->lock);
}

pst_status ring_reset(struct ring *r, size_t capacity, pst_error *reterr)
{
    if (!r->entries) {
        r->entries = mem_array(capacity, sizeof(*r->entries));
        if (!r->entries)
            return pst_fail(reterr, PST_ENOMEM, "starting: out of memory for %zu batches of prefetch", capacity);
        r->capacity = capacity;
    }
    pthread_mutex_lock(&r->lock);
    r->head = r->tail = r->taking = 0;
    r->ready = 0;
    r->waiting = 0;
    r->opening = r->broken = false;
    r->consumer_since = r->popped_ns = r->interval_ns = 0;
    atomic_store_explicit(&r->stopped, false, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    return PST_OK;
}

static struct entry *entry_at(struct ring *r, uint64_t i)
{
    return &r->entries[i % r->capacity];
}

void ring_clear(struct ring *r, void (*release)(void *user, struct entry *e), void *user)
{
    for (; r->tail < r->head; r->tail++)
        release(user, entry_at(r, r->tail));
    r->head = r->tail = r->taking = 0;
    r->ready = 0;
}

/* ---- Workers ---- */

static void wake_consumer(struct ring *r)
{
    bool enough = r->ready >= r->patience || r->broken;
    if (r->consumer_since && enough && r->tail < r->head && entry_at(r, r->tail)->ready)
        pthread_cond_signal(&r->whole);
}

static void mark_ready(struct ring *r, struct entry *e)
{
    e->ready = true;
    r->ready++;
    wake_consumer(r);
}

static bool may_open(const struct ring *r)
{
    return !r->opening && !r->broken && r->head - r->tail < r->depth && r->head - r->taking < r->lookahead;
}

static void skip_taken(struct ring *r)
{
    while (r->taking < r->head && entry_at(r, r->taking)->taken == entry_at(r, r->taking)->slices)
        r->taking++;
}

/* Called with the lock, which it lets go while the entry is filled. */
static void open_next(struct ring *r, unsigned worker)
{
    struct entry *e = entry_at(r, r->head);
    r->opening = true;
    pthread_mutex_unlock(&r->lock);
    e->taken = e->finished = e->left_out = e->slices = e->count = e->held = 0;
    damage_list_clear(&e->damage);
    e->met = 0;
    e->ready = e->ends_epoch = false;
    e->status = PST_OK;
    e->failed_at = SIZE_MAX;
    e->batch = NULL;
    r->open(r->user, worker, e);
    pthread_mutex_lock(&r->lock);
    r->opening = false;
    r->head++;
    r->broken |= e->status < 0;
    if (e->slices == 0)
        mark_ready(r, e);
    skip_taken(r);
    if (r->waiting > 0)
        pthread_cond_broadcast(&r->room);
}

static void hand_out(struct ring *r, struct ticket *ret)
{
    struct entry *e = entry_at(r, r->taking);
    ret->entry = e;
    ret->slice = e->taken++;
    ret->begin = ret->slice * e->slice;
    ret->end = ret->begin + e->slice < e->count ? ret->begin + e->slice : e->count;
    skip_taken(r);
}

bool ring_take(struct ring *r, unsigned worker, struct ticket *ret, struct ring_pause *ret_pause)
{
    bool got = false;
    *ret_pause = (struct ring_pause){0};
    pthread_mutex_lock(&r->lock);
    while (!atomic_load_explicit(&r->stopped, memory_order_relaxed)) {
        if (worker >= r->active) {
            pthread_cond_wait(&r->idle, &r->lock);
            continue;
        }
        if (may_open(r)) {
            open_next(r, worker);
            continue;
        }
        if (r->taking < r->head) {
            hand_out(r, ret);
            got = true;
            break;
        }
        bool full = r->head - r->tail >= r->depth;
        uint64_t begin = clock_ns();
        r->waiting++;
        pthread_cond_wait(&r->room, &r->lock);
        r->waiting--;
        if (full)
            ret_pause->waited_ns += clock_ns() - begin;
    }
    pthread_mutex_unlock(&r->lock);
    return got;
}

bool ring_return(struct ring *r, const struct ticket *t, size_t left_out)
{
    pthread_mutex_lock(&r->lock);
    t->entry->left_out += left_out;
    bool last = ++t->entry->finished == t->entry->slices;
    pthread_mutex_unlock(&r->lock);
    return last;
}

void ring_fail(struct ring *r, struct entry *e, size_t at, const pst_error *error)
{
    pthread_mutex_lock(&r->lock);
    r->broken = true;
    if (at < e->failed_at) {
        e->failed_at = at;
        e->status = error->status;
        e->error = *error;
    }
    wake_consumer(r);
    pthread_mutex_unlock(&r->lock);
}

pst_status ring_note(struct ring *r, struct entry *e, size_t at, uint64_t sample, pst_cause cause, const pst_error *error)
{
    pthread_mutex_lock(&r->lock);
    pst_status st = damage_note(e, at, sample, cause, error);
    pthread_mutex_unlock(&r->lock);
    return st;
}

void ring_complete(struct ring *r, struct entry *e)
{
    pthread_mutex_lock(&r->lock);
    mark_ready(r, e);
    pthread_mutex_unlock(&r->lock);
}

/* ---- The consumer ---- */

/* How many batches are worth waking up for: as many as come within WAKE_NS, but the ring must not run full meanwhile. */
static size_t choose_patience(const struct ring *r)
{
    uint64_t n = r->interval_ns ? WAKE_NS / r->interval_ns : 1;
    n = n < r->depth / 2 ? n : r->depth / 2;
    return n ? (size_t)n : 1;
}

/* Sleeps until enough is ready, at most until `deadline`. Should that take long, one batch is enough. */
static void await_entry(struct ring *r, uint64_t deadline)
{
    struct timespec until;
    uint64_t begin = clock_ns(), end = deadline;
    if (!r->consumer_since) {
        r->consumer_since = begin;
        r->patience = choose_patience(r);
    }
    if (r->patience > 1 && begin + LONG_WAIT_NS < end)
        end = begin + LONG_WAIT_NS;
    until = (struct timespec){.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
    if (end == RING_NO_DEADLINE)
        pthread_cond_wait(&r->whole, &r->lock);
    else if (pthread_cond_timedwait(&r->whole, &r->lock, &until) != 0)
        r->patience = 1;
}

static bool tail_is_ready(struct ring *r)
{
    return r->tail < r->head && entry_at(r, r->tail)->ready;
}

bool ring_wait(struct ring *r, uint64_t deadline)
{
    pthread_mutex_lock(&r->lock);
    while (!atomic_load_explicit(&r->stopped, memory_order_relaxed) && !tail_is_ready(r) && clock_ns() < deadline)
        await_entry(r, deadline);
    bool done = atomic_load_explicit(&r->stopped, memory_order_relaxed) || tail_is_ready(r);
    pthread_mutex_unlock(&r->lock);
    return done;
}

struct entry *ring_peek(struct ring *r, uint64_t *ret_waited_ns, size_t *ret_ready)
{
    struct entry *e = NULL;
    *ret_waited_ns = 0;
    pthread_mutex_lock(&r->lock);
    *ret_ready = r->ready;
    while (!atomic_load_explicit(&r->stopped, memory_order_relaxed)) {
        if (tail_is_ready(r)) {
            e = entry_at(r, r->tail);
            break;
        }
        await_entry(r, RING_NO_DEADLINE);
    }
    if (r->consumer_since)
        *ret_waited_ns = clock_ns() - r->consumer_since;
    r->consumer_since = 0;
    pthread_mutex_unlock(&r->lock);
    return e;
}

uint64_t ring_pop(struct ring *r)
{
    uint64_t now = clock_ns();
    pthread_mutex_lock(&r->lock);
    if (r->popped_ns)
        r->interval_ns = (7 * r->interval_ns + now - r->popped_ns) / 8 + 1;
    r->popped_ns = now;
    r->tail++;
    r->ready--;
    if (r->waiting > 0)
        pthread_cond_signal(&r->room);
    pthread_mutex_unlock(&r->lock);
    return now;
}

void ring_stop(struct ring *r)
{
    pthread_mutex_lock(&r->lock);
    atomic_store_explicit(&r->stopped, true, memory_order_relaxed);
    pthread_cond_broadcast(&r->room);
    pthread_cond_broadcast(&r->idle);
    pthread_cond_broadcast(&r->whole);
    pthread_mutex_unlock(&r->lock);
}

void ring_tune(struct ring *r, size_t depth, unsigned active)
{
    pthread_mutex_lock(&r->lock);
    r->depth = depth < r->capacity ? depth : r->capacity;
    r->active = active;
    pthread_cond_broadcast(&r->idle);
    pthread_cond_broadcast(&r->room);
    pthread_mutex_unlock(&r->lock);
}
