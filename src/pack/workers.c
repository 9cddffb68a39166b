/* workers.c: workers, chunks and shards.
 *
 * A ticket is a run of consecutive units of one shard, about CHUNK_BYTES of them. A worker frames its ticket's records into
 * a chunk. Chunks of a shard are placed in order as soon as all before them are framed; a placed chunk is written by the
 * next free worker, at its own offset, so that one shard is written by all workers at once. A compressed shard takes its
 * chunks one after the other; there, several shards are open at a time. The worker that writes a shard's last chunk
 * completes it.
 *
 * Promises: what is written does not depend on the workers; of several failures the one that comes first in the plan is
 * told; memory is bounded by the pool of chunks. A worker waits only when every chunk of the pool is in use, or nothing is
 * left to take; the ticket that all others wait for is then in some worker's hands. */
#include "pack/steps.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"
#include "pack/compose.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#define CHUNK_BYTES ((uint64_t)1 << 20)
#define CHUNK_UNITS 4096
#define KEPT_BYTES  ((size_t)16 << 20) /* a chunk that grew beyond this is not kept for the next ticket */
#define OVERHEAD    64                 /* bytes of a record beside its values, about */
#define WAIT_MS     100
#define NEVER       UINT64_MAX

struct run {
    const struct pack_plan *plan;
    const struct recipe *recipe;
    const struct pack_config *config;
    struct out_shard *shards;
    size_t shard_count;
    struct bad_budget *bad;     /* under lock */
    struct composer *composers; /* one per worker */
    struct chunk *pool;
    size_t pool_size;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct chunk *free, *ready; /* under lock, as all below; `ready` chunks are placed and wait to be written */
    size_t first;               /* shards before this one need no more tickets */
    size_t left;                /* shards that are not complete */
    uint64_t tickets;           /* given out; a ticket's number is its order in the plan */
    pst_error error;
    _Atomic uint64_t stop;        /* number of the ticket that failed, 0 when cancelled, NEVER: continue */
    _Atomic uint64_t done, bytes; /* for the progress */
};

/* ---- Failing ---- */

/* Tickets before the failed one continue: one of them may fail too, and then that one is reported. Locked. */
static void stop_at(struct run *r, uint64_t ticket, const pst_error *error)
{
    if (ticket < atomic_load(&r->stop)) {
        atomic_store(&r->stop, ticket);
        r->error = *error;
    }
    pthread_cond_broadcast(&r->changed);
}

static bool is_stopped(struct run *r)
{
    return atomic_load(&r->stop) != NEVER;
}

/* True for what is wrong with an item, as opposed to what is wrong with the machine or the command. */
static bool is_bad_item(pst_status status, const pst_error *error)
{
    switch (status) {
    case PST_EIO:
        return error->sys_errno != EMFILE && error->sys_errno != ENFILE && error->sys_errno != ENOMEM;
    case PST_ECORRUPT:
    case PST_ELIMIT:
    case PST_ENOTFOUND:
    case PST_EUNSUPPORTED:
    case PST_ETYPE:
        return true;
    default:
        return false;
    }
}

/* Notes a bad item, or fails when there may be no more of them. Copies share their original's fate silently. */
static pst_status skip_item(struct run *r, struct composer *c, struct chunk *chunk, uint64_t item, uint32_t copy,
                            pst_error *reterr)
{
    char why[sizeof(reterr->message) + sizeof(reterr->path) + 64];
    if (!r->bad->skip) {
        if (!reterr->path[0] && composer_key(c, item, copy, &(pst_error){0}))
            return pst_fail_at(reterr, reterr->status, c->key.data, reterr->record, reterr->offset, "%s", reterr->message);
        return reterr->status;
    }
    if (copy)
        return PST_OK;
    snprintf(why, sizeof(why), "%s", reterr->message);
    const char *key = composer_key(c, item, 0, reterr);
    if (!key)
        return PST_ENOMEM;
    note_add_skip(&chunk->skips, key, why);
    chunk->skip_count++;
    pthread_mutex_lock(&r->lock);
    uint64_t found = ++r->bad->found;
    pthread_mutex_unlock(&r->lock);
    if (chunk->skips.failed)
        return fail_memory(reterr, "noting what was skipped");
    if (found > r->bad->allowed)
        return pst_fail_at(reterr, PST_ECORRUPT, key, PST_NOWHERE, PST_NOWHERE,
                           "%s; %" PRIu64 " bad items are more than the %" PRIu64 " allowed", why, found, r->bad->allowed);
    return PST_OK;
}

/* ---- Framing ---- */

static pst_status frame(struct run *r, struct composer *c, struct chunk *chunk, pst_error *reterr)
{
    const struct out_shard *o = &r->shards[chunk->shard];
    for (uint64_t at = chunk->begin; at < chunk->end; at++) {
        if (atomic_load_explicit(&r->stop, memory_order_relaxed) < chunk->ticket)
            return PST_ECANCELLED;
        uint64_t unit = pack_plan_unit(r->plan, o->split, at), item = unit / r->plan->copies, before = chunk->length;
        uint32_t copy = (uint32_t)(unit % r->plan->copies);
        pst_status st = composer_add(c, chunk, item, copy, reterr);
        if (st < 0 && is_bad_item(st, reterr))
            st = skip_item(r, c, chunk, item, copy, reterr);
        if (st < 0)
            return st;
        atomic_fetch_add_explicit(&r->done, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&r->bytes, chunk->length - before, memory_order_relaxed);
    }
    return PST_OK;
}

/* The shard that the next ticket is of: the first that has any; of compressed ones, among as many as there are workers,
 * the one with the least in hand. Locked. */
static struct out_shard *next_shard(struct run *r)
{
    struct out_shard *best = NULL;
    unsigned window = r->config->options.compression == PST_COMPRESSION_NONE ? 1 : r->config->options.workers, seen = 0;
    while (r->first < r->shard_count && (r->shards[r->first].done || r->shards[r->first].next == r->shards[r->first].end))
        r->first++;
    for (size_t i = r->first; i < r->shard_count && seen < window; i++) {
        struct out_shard *o = &r->shards[i];
        if (o->done || o->next == o->end)
            continue;
        seen++;
        if (!best || o->given - o->written < best->given - best->written)
            best = o;
    }
    return best;
}

/* Fills in a ticket; false: there are none left, or its shard cannot be opened. Locked. */
static bool take_ticket(struct run *r, struct chunk *chunk)
{
    const struct pack_source *s = r->plan->source;
    struct out_shard *o = next_shard(r);
    pst_error error;
    if (!o)
        return false;
    chunk_reset(chunk);
    chunk->ticket = ++r->tickets;
    if (!o->open && out_shard_open(o, r->config, &error) < 0) {
        stop_at(r, chunk->ticket, &error);
        return false;
    }
    chunk->shard = (size_t)(o - r->shards);
    chunk->sequence = o->given++;
    chunk->begin = o->next;
    uint64_t bytes = 0;
    while (o->next < o->end && bytes < CHUNK_BYTES && o->next - chunk->begin < CHUNK_UNITS) {
        bytes += s->class->estimate(s, pack_plan_unit(r->plan, o->split, o->next) / r->plan->copies) + OVERHEAD;
        o->next++;
    }
    chunk->end = o->next;
    return true;
}

/* ---- Placing and writing ---- */

/* Chunks whose turn it is become ready. Locked. */
static void place_waiting(struct run *r, struct out_shard *o)
{
    bool one_by_one = r->config->options.compression != PST_COMPRESSION_NONE;
    pst_error error;
    while (o->waiting && o->waiting->sequence == o->placed && !(one_by_one && o->placed > o->written)) {
        struct chunk *chunk = o->waiting;
        o->waiting = chunk->next;
        if (out_shard_place(o, chunk, &error) < 0) {
            stop_at(r, chunk->ticket, &error);
            return;
        }
        chunk->next = r->ready;
        r->ready = chunk;
        pthread_cond_broadcast(&r->changed);
    }
}

static void put_waiting(struct out_shard *o, struct chunk *chunk)
{
    struct chunk **at = &o->waiting;
    while (*at && (*at)->sequence < chunk->sequence)
        at = &(*at)->next;
    chunk->next = *at;
    *at = chunk;
}

static void put_free(struct run *r, struct chunk *chunk)
{
    if (chunk->capacity > KEPT_BYTES)
        chunk_finish(chunk);
    chunk->next = r->free;
    r->free = chunk;
}

/* Frames one ticket. Locked on entry and exit, as is write_ready. */
static void do_ticket(struct run *r, struct composer *c, struct chunk *chunk)
{
    pst_error error = {0};
    pthread_mutex_unlock(&r->lock);
    pst_status st = frame(r, c, chunk, &error);
    pthread_mutex_lock(&r->lock);
    if (st == PST_OK) {
        struct out_shard *o = &r->shards[chunk->shard];
        put_waiting(o, chunk);
        place_waiting(r, o);
    } else if (st != PST_ECANCELLED) {
        stop_at(r, chunk->ticket, &error);
    }
}

static void write_ready(struct run *r)
{
    pst_error error;
    struct chunk *chunk = r->ready;
    struct out_shard *o = &r->shards[chunk->shard];
    r->ready = chunk->next;
    pthread_mutex_unlock(&r->lock);
    pst_status st = out_shard_write(o, r->config, chunk, &error);
    pthread_mutex_lock(&r->lock);
    if (st < 0) {
        stop_at(r, chunk->ticket, &error);
        return;
    }
    uint64_t ticket = chunk->ticket;
    o->written++;
    put_free(r, chunk);
    place_waiting(r, o);
    if (o->next == o->end && o->written == o->given) {
        pthread_mutex_unlock(&r->lock);
        st = out_shard_commit(o, r->config, &error);
        pthread_mutex_lock(&r->lock);
        o->done = st == PST_OK;
        r->left -= o->done;
        if (st < 0)
            stop_at(r, ticket, &error);
    }
    pthread_cond_broadcast(&r->changed);
}

static void work(void *user, unsigned worker)
{
    struct run *r = user;
    pthread_mutex_lock(&r->lock);
    while (r->left && !is_stopped(r)) {
        struct chunk *chunk = r->free;
        if (r->ready) {
            write_ready(r);
        } else if (chunk) {
            r->free = chunk->next;
            if (take_ticket(r, chunk)) {
                do_ticket(r, &r->composers[worker], chunk);
                continue;
            }
            chunk->next = r->free;
            r->free = chunk;
            if (!is_stopped(r))
                pthread_cond_wait(&r->changed, &r->lock);
        } else {
            pthread_cond_wait(&r->changed, &r->lock);
        }
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- All of it ---- */

static pst_status wait_for(struct run *r, struct thread_group *group, struct pack_ticker *ticker, uint64_t total,
                           pst_error *reterr)
{
    pst_status st = PST_OK;
    while (!thread_group_wait(group, WAIT_MS)) {
        if (st == PST_OK)
            st = pack_ticker_tell(ticker, "packing", atomic_load(&r->done), total, atomic_load(&r->bytes), false, reterr);
        if (st < 0) {
            pthread_mutex_lock(&r->lock);
            stop_at(r, 0, reterr);
            pthread_mutex_unlock(&r->lock);
        }
    }
    return st;
}

static pst_status run_init(struct run *r, unsigned workers, pst_error *reterr)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    atomic_store(&r->stop, NEVER);
    r->pool_size = 2 * (size_t)workers + 2;
    r->pool = mem_array(r->pool_size, sizeof(*r->pool));
    if (!r->pool)
        return fail_memory(reterr, "allocating %u workers", workers);
    for (size_t i = 0; i < r->pool_size; i++)
        put_free(r, &r->pool[i]);
    for (size_t i = 0; i < r->shard_count; i++) {
        struct out_shard *o = &r->shards[i];
        o->next = o->begin;
        r->left += !o->done;
        if (o->done) {
            atomic_fetch_add(&r->done, o->end - o->begin);
            atomic_fetch_add(&r->bytes, o->bytes);
        }
    }
    return composers_create(&r->composers, r->recipe, workers, reterr);
}

static void run_finish(struct run *r, unsigned workers)
{
    composers_destroy(r->composers, workers);
    for (size_t i = 0; r->pool && i < r->pool_size; i++)
        chunk_finish(&r->pool[i]);
    mem_free(r->pool);
    for (size_t i = 0; i < r->shard_count; i++)
        out_shard_finish(&r->shards[i]);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

pst_status pack_run(const struct pack_plan *plan, const struct recipe *recipe, struct out_shard *shards, size_t count,
                    struct bad_budget *bad, struct pack_ticker *ticker, pst_error *reterr)
{
    const struct pack_config *c = plan->source->config;
    unsigned workers = c->options.workers;
    struct run r = {.plan = plan, .recipe = recipe, .config = c, .shards = shards, .shard_count = count, .bad = bad};
    uint64_t units = 0;
    for (size_t i = 0; i < count; i++)
        units += shards[i].end - shards[i].begin;
    struct thread_group *group = NULL;
    pst_status st = run_init(&r, workers, reterr);
    if (st == PST_OK && r.left)
        st = thread_group_start(&group, workers, "pack", work, &r, reterr);
    if (st == PST_OK && group)
        st = wait_for(&r, group, ticker, units, reterr);
    thread_group_join(group);
    if (st == PST_OK && is_stopped(&r)) {
        *reterr = r.error;
        st = r.error.status;
    }
    if (st == PST_OK)
        st = pack_ticker_tell(ticker, "packing", units, units, atomic_load(&r.bytes), true, reterr);
    run_finish(&r, workers);
    return st;
}
