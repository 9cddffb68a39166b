/* object_read.c: see object.h and object_inside.h. The blocks of an object that no cache keeps lie in memory, as long as the pool has some;
 * readers copy from there. A block that has been read to the end may be dropped, and is fetched again if it is needed again. Blocks that find no
 * memory lie in the private file, as all of an object in a cache do. */
#include "io/remote/object_inside.h"

#include "base/error.h"
#include "io/file.h"
#include "io/remote/blocks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SMALL ((uint64_t)8 << 20) /* one request */

/* ---- Blocks in memory ---- */

void object_attach(struct object *o, size_t i, uint8_t **block)
{
    struct memory_block *m = &o->memory[i];
    pthread_mutex_lock(&o->lock);
    uint8_t *left = *block;
    *block = NULL; /* before it is given back: a fork would give it back twice */
    if (!m->bytes && (o->states[i] == COMING || o->states[i] == ABSENT)) { /* another request may have been first */
        m->bytes = left;
        m->read = 0;
        o->in_memory++;
        left = NULL;
    }
    pthread_mutex_unlock(&o->lock);
    blocks_give(left);
}

/* Locked. */
static void release(struct object *o, struct memory_block *m)
{
    blocks_give(m->bytes);
    m->bytes = NULL;
    m->read = 0;
    o->in_memory--;
}

void object_release_memory(struct object *o)
{
    for (size_t i = 0; o->memory && o->in_memory && i < o->cache.blocks; i++)
        if (o->memory[i].bytes)
            release(o, &o->memory[i]);
}

/* Drops a block. When nearly all that are expected and lie in memory have passed, a round ends. Locked. */
static void pass(struct object *o, size_t i)
{
    struct memory_block *m = &o->memory[i];
    size_t all = o->until > o->from ? o->until - o->from : o->cache.blocks, in_file = o->here > o->in_memory ? o->here - o->in_memory : 0; /* some in memory are not shown yet */
    release(o, m);
    object_mark(o, i, 1, PASSED);
    bool late = o->ended && m->round < o->round; /* one of the few that were not read yet when the round ended */
    if (m->round > o->round)
        return;
    m->round = late ? o->round : o->round + 1;
    if (late)
        return;
    o->passed++;
    if (o->passed + in_file < all - all / 16)
        return;
    o->round++;
    o->passed = 0;
    o->ended = true;
}

/* `n` bytes of a block were read. What is read while the object is opened does not count: it is read again. Locked. */
static void note_read(struct object *o, size_t i, size_t n)
{
    struct memory_block *m = &o->memory[i];
    m->readers--;
    if (!m->bytes || (!atomic_load_explicit(&o->all, memory_order_relaxed) && !o->sequential))
        return;
    m->read = n < UINT32_MAX - m->read ? m->read + (uint32_t)n : UINT32_MAX;
    if (m->read < cache_block_bytes(&o->cache, i) || m->readers || o->mapped)
        return;
    if (blocks_keep())
        m->read = 0;
    else
        pass(o, i);
}

/* Writes what lies in memory to the file as well. Locked. */
static pst_status write_down(struct object *o, size_t end, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < end; i++) {
        struct memory_block *m = &o->memory[i];
        if (!m->bytes)
            continue;
        st = file_write_at(o->cache.fd, o->path, m->bytes, cache_block_bytes(&o->cache, i), (uint64_t)i * CACHE_BLOCK, reterr);
        if (st == PST_OK)
            atomic_store(&o->cache.sums[i], cache_sum(0)); /* a mark is enough: nobody else reads this file */
        if (st == PST_OK && !m->readers)
            release(o, m);
    }
    return st;
}

pst_status object_need_mapped(struct object *o, uint64_t length, pst_error *reterr)
{
    if (!o->memory)
        return object_need(o, 0, length, reterr);
    pthread_mutex_lock(&o->lock);
    o->mapped++; /* from now on nothing is dropped */
    pthread_mutex_unlock(&o->lock);
    pst_status st = object_need(o, 0, length, reterr);
    size_t end = (size_t)((length + CACHE_BLOCK - 1) / CACHE_BLOCK);
    pthread_mutex_lock(&o->lock);
    if (st == PST_OK)
        st = write_down(o, end < o->cache.blocks ? end : o->cache.blocks, reterr);
    if (st < 0)
        o->mapped--; /* others may have it mapped */
    pthread_mutex_unlock(&o->lock);
    return st;
}

bool object_is_whole(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    if (o->here < o->cache.blocks)
        object_check_stored(o, 0, o->cache.blocks);
    bool whole = o->here == o->cache.blocks;
    if (whole && o->in_memory) { /* a small one, which came with its opening, can be mapped, and then closed */
        whole = o->cache.size <= SMALL && write_down(o, o->cache.blocks, NULL) == PST_OK && !o->in_memory;
        o->mapped += whole;
    }
    pthread_mutex_unlock(&o->lock);
    return whole;
}

bool object_is_here(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    bool here = o->here == o->cache.blocks && !o->in_memory && o->own.fd < 0; /* a mapping may be of the copy that was left */
    pthread_mutex_unlock(&o->lock);
    return here;
}

/* ---- Reading ---- */

struct target { /* where the bytes go */
    struct iovec *pieces;
    int count;
};

/* The piece that the next byte goes to. */
static struct iovec *next_piece(struct target *t)
{
    while (t->count && t->pieces->iov_len == 0)
        t->pieces++, t->count--;
    return t->pieces;
}

static void advance(struct iovec *piece, size_t n)
{
    piece->iov_base = (char *)piece->iov_base + n;
    piece->iov_len -= n;
}

static void copy(struct target *t, const uint8_t *from, size_t n)
{
    while (n) {
        struct iovec *piece = next_piece(t);
        size_t k = piece->iov_len < n ? piece->iov_len : n;
        memcpy(piece->iov_base, from, k);
        advance(piece, k);
        from += k;
        n -= k;
    }
}

static pst_status read_file(struct target *t, int fd, const char *path, uint64_t offset, size_t n, pst_error *reterr)
{
    while (n) {
        struct iovec *piece = next_piece(t);
        ssize_t k = file_denied("pread") ? -1 : pread(fd, piece->iov_base, piece->iov_len < n ? piece->iov_len : n, (off_t)offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return file_fail(reterr, path, "reading the local copy of the object", k < 0 ? errno : EIO);
        advance(piece, (size_t)k);
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return PST_OK;
}

/* Has blocks [first, end) stay while they are read. False: one of them is not here any more. */
static bool hold(struct object *o, size_t first, size_t end)
{
    pthread_mutex_lock(&o->lock);
    bool here = object_first_missing(o, first, end) == end;
    for (size_t i = first; here && i < end; i++)
        o->memory[i].readers++;
    pthread_mutex_unlock(&o->lock);
    return here;
}

static pst_status copy_held(struct object *o, int fd, struct target *t, uint64_t offset, uint64_t end, pst_error *reterr)
{
    pst_status st = PST_OK;
    while (offset < end && st == PST_OK) {
        size_t i = (size_t)(offset / CACHE_BLOCK);
        uint64_t until = (uint64_t)(i + 1) * CACHE_BLOCK;
        size_t n = (size_t)((until < end ? until : end) - offset);
        if (o->memory[i].bytes)
            copy(t, o->memory[i].bytes + offset % CACHE_BLOCK, n);
        else
            st = read_file(t, fd, o->path, offset, n, reterr);
        offset += n;
    }
    return st;
}

static void let_go(struct object *o, uint64_t offset, uint64_t end)
{
    pthread_mutex_lock(&o->lock);
    while (offset < end) {
        size_t i = (size_t)(offset / CACHE_BLOCK);
        uint64_t until = (uint64_t)(i + 1) * CACHE_BLOCK;
        until = until < end ? until : end;
        note_read(o, i, (size_t)(until - offset));
        offset = until;
    }
    pthread_mutex_unlock(&o->lock);
}

bool object_in_memory(const struct object *o)
{
    return o->memory != NULL;
}

pst_status object_read(struct object *o, int fd, struct iovec *pieces, int count, uint64_t offset, size_t *ret_got, pst_error *reterr)
{
    struct target t = {pieces, count};
    uint64_t length = 0;
    for (int i = 0; i < count; i++)
        length += pieces[i].iov_len;
    *ret_got = 0;
    if (offset >= o->cache.size || length == 0)
        return PST_OK;
    uint64_t end = length < o->cache.size - offset ? offset + length : o->cache.size;
    size_t first = (size_t)(offset / CACHE_BLOCK), behind = (size_t)((end + CACHE_BLOCK - 1) / CACHE_BLOCK);
    pst_status st;
    do
        st = object_need(o, offset, end - offset, reterr);
    while (st == PST_OK && !hold(o, first, behind));
    if (st < 0)
        return st;
    st = copy_held(o, fd, &t, offset, end, reterr);
    let_go(o, offset, end);
    *ret_got = (size_t)(end - offset);
    return st;
}
