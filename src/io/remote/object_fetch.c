/* object_fetch.c: see object_inside.h. Fetches the blocks of one request into the copy.
 *
 * When the folder or disk of the cache is full, the copy there stays as it is: later blocks go into memory and into a private file, like those of an object
 * without a cache. Requests that write into the old copy continue. */
#include "io/remote/object_inside.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/remote/blocks.h"
#include "io/remote/remote.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS     5000000L
#define RATE_BLOCKS 4u
#define SHOW_BLOCKS 16u /* of a request are shown together: readers need not wait for all of it */

/* ---- The copy that readers see ---- */

const struct cache *object_file_of(const struct object *o, size_t i)
{
    if (o->mapped_copy.fd >= 0 && atomic_load(&o->mapped_copy.sums[i]))
        return &o->mapped_copy;
    return o->own.fd >= 0 && atomic_load(&o->own.sums[i]) ? &o->own : &o->cache;
}

/* The file for blocks that find no memory. */
static const struct cache *private_copy(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    const struct cache *c = o->cache.map_fd < 0 ? &o->cache : &o->own;
    pthread_mutex_unlock(&o->lock);
    return c;
}

static bool has_left(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    bool left = o->memory != NULL;
    pthread_mutex_unlock(&o->lock);
    return left;
}

/* Has blocks go into memory and a private file from now on. */
static pst_status leave_cache(struct object *o, pst_error *reterr)
{
    pst_status st = PST_OK;
    struct memory_block *memory = mem_array(o->cache.blocks + 1, sizeof(*memory));
    pthread_mutex_lock(&o->lock);
    if (!memory)
        st = fail_memory_at(reterr, o->path, "fetching the object");
    else if (!o->memory && (st = cache_open(&o->own, NULL, o->path, &o->facts, reterr)) == PST_OK) {
        o->memory = memory;
        memory = NULL;
        blocks_expect((int64_t)o->cache.size);
    }
    pthread_mutex_unlock(&o->lock);
    mem_free(memory);
    return st;
}

/* Returns whether the bytes of a block are in the copy that readers see. A request whose block was here already did not store it; the block may have passed
 * since, and another request may be fetching it again. Locked. */
static bool has_bytes(const struct object *o, size_t i)
{
    return !o->memory || o->memory[i].bytes || atomic_load(&object_file_of(o, i)->sums[i]);
}

void part_show(struct part *p, size_t count)
{
    struct object *o = p->object;
    size_t first = p->first + p->done;
    pthread_mutex_lock(&o->lock);
    for (size_t i = first; i < first + count; i++)
        if (has_bytes(o, i))
            object_mark(o, i, 1, HERE);
    p->done += count;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* ---- Writing ---- */

static _Atomic uint64_t downloaded; /* bytes, of all objects */

uint64_t object_downloaded(void)
{
    return atomic_load(&downloaded);
}

struct writing { /* the bytes of one part on their way into the copy */
    struct part *part; /* NULL: no thread waits for it */
    const struct cache *to;
    struct object *o;
    uint64_t at;
    uint8_t **block; /* in memory, the one that bytes arrive for; NULL: they go to the file */
    uint32_t crc;
    int error;
    bool unwanted; /* there is no memory, and no thread waits for the block */
};

/* The checksums of `length` bytes at w->at, which have been written to the file. A private copy is not read by later processes: a mark is
 * enough. */
static void add_sums(struct writing *w, const uint8_t *bytes, size_t length)
{
    while (length) {
        size_t block = (size_t)(w->at / CACHE_BLOCK), inside = (size_t)(w->at % CACHE_BLOCK);
        size_t n = cache_block_bytes(w->to, block) - inside;
        n = n < length ? n : length;
        if (w->to->map_fd >= 0)
            w->crc = crc32c_extend(inside ? w->crc : 0, bytes, n);
        w->at += n;
        if (w->at % CACHE_BLOCK == 0 || w->at == w->to->size)
            atomic_store(&w->to->sums[block], cache_sum(w->crc));
        bytes += n;
        length -= n;
    }
}

static size_t whole_blocks(const struct writing *w)
{
    return (size_t)(w->at == w->to->size ? w->to->blocks : w->at / CACHE_BLOCK);
}

static bool write_file(struct writing *w, const uint8_t *bytes, size_t length)
{
    while (length) {
        ssize_t k = file_denied("pwrite") ? -1 : pwrite(w->to->fd, bytes, length, (off_t)w->at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            w->error = k < 0 ? errno : ENOSPC;
            return false;
        }
        add_sums(w, bytes, (size_t)k);
        bytes += k;
        length -= (size_t)k;
    }
    return true;
}

static enum urgency urgency_of(const struct writing *w)
{
    return w->part ? w->part->urgency : SOMETIME;
}

/* Takes memory for a block that cannot go to the file, and reads the bytes of it that the file has. */
static bool take_memory(struct writing *w)
{
    size_t inside = (size_t)(w->at % CACHE_BLOCK), got = 0;
    w->error = 0;
    *w->block = spare_take(w->o, urgency_of(w));
    w->unwanted = !*w->block && urgency_of(w) != NOW;
    if (!*w->block && !w->unwanted)
        w->error = ENOMEM;
    if (*w->block && inside && (file_read_at(w->to->fd, w->o->path, *w->block, inside, w->at - inside, &got, NULL) < 0 || got < inside))
        w->error = EIO;
    return *w->block && !w->error;
}

/* Writes into memory block by block; a block without memory goes to the file. If the disk is full, memory is made free. */
static bool write_memory(struct writing *w, const uint8_t *bytes, size_t length)
{
    while (length) {
        uint64_t before = w->at;
        size_t block = (size_t)(w->at / CACHE_BLOCK), inside = (size_t)(w->at % CACHE_BLOCK);
        size_t n = cache_block_bytes(w->to, block) - inside;
        n = n < length ? n : length;
        if (inside == 0)
            *w->block = blocks_take();
        if (!*w->block && inside == 0 && spare_disk_is_full() && !take_memory(w))
            return false;
        if (*w->block) {
            memcpy(*w->block + inside, bytes, n);
            w->at += n;
            if (inside + n == cache_block_bytes(w->to, block))
                object_attach(w->o, block, w->block, urgency_of(w) == SOMETIME);
        } else if (!write_file(w, bytes, n)) {
            if (!cache_is_full(w->error))
                return false;
            spare_note_full();
            if (!take_memory(w))
                return false;
        }
        bytes += w->at - before;
        length -= w->at - before;
    }
    return true;
}

static bool write_bytes(void *user, const void *data, size_t length)
{
    struct writing *w = user;
    atomic_fetch_add(&downloaded, length); /* before readers see them */
    if (!(w->block ? write_memory(w, data, length) : write_file(w, data, length)))
        return false;
    atomic_store_explicit(&w->o->moved, clock_ns(), memory_order_relaxed);
    size_t ready = w->part ? whole_blocks(w) - w->part->first - w->part->done : 0;
    if (ready >= SHOW_BLOCKS)
        part_show(w->part, ready);
    return true;
}

void object_keep_first(struct object *o, const void *bytes, size_t length)
{
    uint64_t price = cache_price(&o->cache, 0, 1);
    uint8_t *block = NULL;
    struct writing w = {.o = o, .to = &o->cache, .block = o->memory ? &block : NULL};
    if (o->states[0] != ABSENT || !room_take(&o->cache.room, price))
        return;
    if (write_bytes(&w, bytes, length))
        object_mark(o, 0, 1, HERE);
}

/* ---- Downloading ---- */

static pst_status fail_stopped(const struct part *p, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ECANCELLED, p->object->path, PST_NOWHERE, PST_NOWHERE, "stopped while it was read");
}

static _Atomic uint64_t usual_rate; /* smoothed; requests for several blocks alone */

double part_usual_rate(void)
{
    return (double)atomic_load(&usual_rate);
}

/* `latency`: 0: unknown. */
static void note_rate(const struct part *p, uint64_t bytes, double latency)
{
    double seconds = (double)(clock_ns() - p->started) * 1e-9, before = part_usual_rate();
    if (latency > 0)
        parts_note(latency, seconds - latency, bytes);
    double rate = seconds > 0 ? (double)bytes / seconds : 0;
    if (bytes >= RATE_BLOCKS * CACHE_BLOCK && rate > 0)
        atomic_store(&usual_rate, (uint64_t)(before > 0 ? before + (rate - before) / 8 : rate)); /* a rate that another thread notes at the same time may be lost */
}

/* `ret_full`: the disk of the cache is full. */
static pst_status download(struct part *p, const struct cache *to, bool *ret_full, pst_error *reterr)
{
    struct object *o = p->object;
    struct writing w = {
        .o = o, .part = p, .to = to, .at = (uint64_t)(p->first + p->done) * CACHE_BLOCK, .block = to->map_fd < 0 ? &p->block : NULL};
    if (w.block && p->urgency == SOON && spare_disk_is_full() && !spare_has(p->count - p->done))
        return fail_stopped(p, reterr);
    uint64_t end = (uint64_t)(p->first + p->count) * CACHE_BLOCK;
    struct store_facts facts = o->facts;
    double latency = 0;
    pthread_mutex_lock(&o->lock);
    p->started = clock_ns();
    pthread_mutex_unlock(&o->lock);
    struct store_get get = {.path = o->path,
                            .offset = w.at,
                            .length = (end < to->size ? end : to->size) - w.at,
                            .sink = write_bytes,
                            .user = &w,
                            .cancel = &p->cancel,
                            .progress = &p->progress,
                            .ret_latency = &latency};
    pst_status st = store_get(&get, &facts, reterr);
    *ret_full = !w.block && cache_is_full(w.error);
    if (w.unwanted)
        return fail_stopped(p, reterr);
    if (w.error)
        return file_fail(reterr, o->path, "keeping a copy of the object", w.error);
    if (st == PST_OK && whole_blocks(&w) < p->first + p->count)
        return pst_fail_at(reterr, PST_EIO, o->path, PST_NOWHERE, w.at, "the server sent fewer bytes than the object has");
    if (st == PST_OK) {
        note_rate(p, get.length, latency);
        part_show(p, p->count - p->done);
    }
    return st;
}

/* Returns whether another process has stored all of it. */
static bool is_stored(const struct part *p)
{
    const struct cache *c = &p->object->cache;
    bool there = c->map_fd >= 0;
    for (size_t i = 0; there && i < p->count; i++)
        there = cache_check(c, p->first + i);
    return there;
}

/* Takes the room that the part needs. A second request uses that of the first, and has inherited it if that one failed. */
static bool take_room(struct part *p)
{
    struct object *o = p->object;
    uint64_t price = p->second ? 0 : cache_price(&o->cache, p->first, p->count);
    if (!room_take(&o->cache.room, price))
        return false;
    pthread_mutex_lock(&o->lock);
    p->taken += price;
    pthread_mutex_unlock(&o->lock);
    return true;
}

/* A block of which some bytes were written stays counted, as it takes space. */
void part_give_room(struct part *p)
{
    const struct cache *c = &p->object->cache;
    size_t touched = part_touched(p);
    uint64_t unused = p->taken ? cache_price(c, p->first + touched, p->count - touched) : 0;
    room_give(&c->room, unused < p->taken ? unused : p->taken);
    p->taken = 0;
}

size_t part_touched(const struct part *p)
{
    size_t blocks = p->skipped + (size_t)((atomic_load(&p->progress) + CACHE_BLOCK - 1) / CACHE_BLOCK);
    blocks = blocks > p->touched ? blocks : p->touched;
    return blocks < p->count ? blocks : p->count;
}

/* Fetches blocks into a shared copy; if another process has claimed them, waits for it. */
static pst_status bring_shared(struct part *p, bool *ret_full, pst_error *reterr)
{
    const struct cache *c = &p->object->cache;
    pst_status st = PST_OK;
    while (!cache_claim(c, p->first, p->count)) {
        if (atomic_load(&p->cancel))
            return fail_stopped(p, reterr);
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    if (is_stored(p))
        part_show(p, p->count - p->done);
    else if (take_room(p))
        st = download(p, c, ret_full, reterr);
    else
        *ret_full = true;
    cache_release(c, p->first, p->count);
    return st;
}

pst_status part_bring(struct part *p, pst_error *reterr)
{
    struct object *o = p->object;
    bool full = false;
    if (!has_left(o)) {
        pst_status st = bring_shared(p, &full, reterr);
        if (!full)
            return st;
        pthread_mutex_lock(&o->lock);
        part_give_room(p);
        pthread_mutex_unlock(&o->lock);
        if ((st = leave_cache(o, reterr)) < 0)
            return st;
    }
    if (!is_stored(p))
        return download(p, private_copy(o), &full, reterr);
    part_show(p, p->count - p->done);
    return PST_OK;
}
