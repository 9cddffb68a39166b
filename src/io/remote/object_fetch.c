/* object_fetch.c: see object_inside.h. One request's bytes on their way into the copy.
 *
 * A copy in the cache whose folder has no more room is left as it is: a private copy takes its place for this process, with the
 * blocks that are here, and gets the later ones. Whoever was writing into the old one goes on, and copies what it brought. */
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
#define SHOW_BLOCKS 16u /* of a request are shown together: readers need not wait for all of it */

/* ---- The copy that readers see ---- */

/* Locked. */
static const struct cache *seen_copy(const struct object *o)
{
    return o->own.fd >= 0 ? &o->own : &o->cache;
}

bool object_use_stored(struct object *o, size_t block)
{
    return o->own.fd < 0 || cache_copy(&o->cache, &o->own, block);
}

/* Puts a private copy in the place of the one in the cache. */
static pst_status leave_cache(struct object *o, pst_error *reterr)
{
    struct cache own;
    pst_status st = PST_OK;
    pthread_mutex_lock(&o->lock);
    if (o->own.fd < 0 && (st = cache_open(&own, NULL, o->path, &o->facts, reterr)) == PST_OK) {
        bool ok = true;
        for (size_t i = 0; ok && i < o->cache.blocks; i++)
            ok = o->states[i] != HERE || cache_copy(&o->cache, &own, i);
        if (ok) {
            remote_redirect(o, &o->seen, own.fd);
            o->own = own;
        } else {
            st = file_fail(reterr, o->path, "keeping a copy of the object in /tmp", errno);
            cache_close(&own);
        }
    }
    pthread_mutex_unlock(&o->lock);
    return st;
}

/* Whether the bytes of a block are in the copy that readers see. Those of a request whose block had been here before were not taken; it may have passed
 * since, and others may be fetching it again. Locked. */
static bool has_bytes(const struct object *o, size_t i)
{
    return !o->memory || o->memory[i].bytes || atomic_load(&o->cache.sums[i]);
}

bool part_show(struct part *p, const struct cache *in, size_t count)
{
    struct object *o = p->object;
    size_t first = p->first + p->done;
    bool ok = true;
    pthread_mutex_lock(&o->lock);
    const struct cache *to = seen_copy(o);
    for (size_t i = first; ok && to != in && i < first + count; i++)
        ok = o->states[i] == HERE || cache_copy(in, to, i);
    if (ok) {
        for (size_t i = first; i < first + count; i++)
            if (has_bytes(o, i))
                object_mark(o, i, 1, HERE);
        p->done += count;
        pthread_cond_broadcast(&o->changed);
    }
    pthread_mutex_unlock(&o->lock);
    return ok;
}

/* ---- Writing ---- */

static _Atomic uint64_t downloaded; /* bytes, of all objects */

uint64_t object_downloaded(void)
{
    return atomic_load(&downloaded);
}

struct writing { /* the bytes of one part on their way into the copy */
    struct part *part; /* NULL: nobody is told */
    const struct cache *to;
    struct object *o;
    uint64_t at;
    uint8_t **block; /* in memory, the one that bytes arrive for; NULL: they go to the file */
    uint32_t crc;
    int error;
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

/* Into memory block by block; one for which there is no memory goes to the file. */
static bool write_memory(struct writing *w, const uint8_t *bytes, size_t length)
{
    while (length) {
        size_t block = (size_t)(w->at / CACHE_BLOCK), inside = (size_t)(w->at % CACHE_BLOCK);
        size_t n = cache_block_bytes(w->to, block) - inside;
        n = n < length ? n : length;
        if (inside == 0)
            *w->block = blocks_take();
        if (!*w->block && !write_file(w, bytes, n))
            return false;
        if (*w->block) {
            memcpy(*w->block + inside, bytes, n);
            w->at += n;
            if (inside + n == cache_block_bytes(w->to, block))
                object_attach(w->o, block, w->block);
        }
        bytes += n;
        length -= n;
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
    if (ready >= SHOW_BLOCKS && !part_show(w->part, w->to, ready))
        w->error = EIO;
    return w->error == 0;
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

static pst_status download(struct part *p, const struct cache *to, pst_error *reterr)
{
    struct object *o = p->object;
    struct writing w = {.o = o, .part = p, .to = to, .at = (uint64_t)p->first * CACHE_BLOCK, .block = o->memory ? &p->block : NULL};
    uint64_t end = (uint64_t)(p->first + p->count) * CACHE_BLOCK;
    struct store_facts facts = o->facts;
    pthread_mutex_lock(&o->lock);
    p->started = clock_ns();
    pthread_mutex_unlock(&o->lock);
    struct store_get get = {.path = o->path,
                            .offset = w.at,
                            .length = (end < to->size ? end : to->size) - w.at,
                            .sink = write_bytes,
                            .user = &w,
                            .cancel = &p->cancel,
                            .progress = &p->progress};
    pst_status st = store_get(&get, &facts, reterr);
    if (w.error)
        return file_fail(reterr, o->path, "keeping a copy of the object", w.error);
    if (st == PST_OK && whole_blocks(&w) < p->first + p->count)
        return pst_fail_at(reterr, PST_EIO, o->path, PST_NOWHERE, w.at, "the server sent fewer bytes than the object has");
    if (st == PST_OK && !part_show(p, to, p->count - p->done))
        return file_fail(reterr, o->path, "keeping a copy of the object", EIO);
    return st;
}

/* Whether another process has stored all of it. */
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
    size_t blocks = (size_t)((atomic_load(&p->progress) + CACHE_BLOCK - 1) / CACHE_BLOCK);
    blocks = blocks > p->touched ? blocks : p->touched;
    return blocks < p->count ? blocks : p->count;
}

/* Another process may be fetching the same blocks: then its work is waited for. */
static pst_status bring_shared(struct part *p, bool *ret_full, pst_error *reterr)
{
    const struct cache *c = &p->object->cache;
    pst_status st = PST_OK;
    while (!cache_claim(c, p->first, p->count)) {
        if (atomic_load(&p->cancel))
            return pst_fail_at(reterr, PST_ECANCELLED, p->object->path, PST_NOWHERE, PST_NOWHERE, "stopped while it was read");
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    if (is_stored(p))
        st = part_show(p, c, p->count) ? PST_OK : file_fail(reterr, p->object->path, "keeping a copy of the object", EIO);
    else if (take_room(p))
        st = download(p, c, reterr);
    else
        *ret_full = true;
    cache_release(c, p->first, p->count);
    return st;
}

pst_status part_bring(struct part *p, pst_error *reterr)
{
    struct object *o = p->object;
    bool full = o->cache.map_fd < 0;
    pthread_mutex_lock(&o->lock);
    bool left = o->own.fd >= 0;
    pthread_mutex_unlock(&o->lock);
    if (full)
        return download(p, &o->cache, reterr);
    pst_status st = left ? PST_OK : bring_shared(p, &full, reterr);
    if (!left && !full)
        return st;
    if (!left && (st = leave_cache(o, reterr)) < 0)
        return st;
    return is_stored(p) && part_show(p, &o->cache, p->count) ? PST_OK : download(p, &o->own, reterr);
}
