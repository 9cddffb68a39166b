/* object_read.c: see object.h and object_inside.h. The blocks of an object that no cache keeps lie in memory, as long as the pool has some;
 * readers copy from there. A block that has been read to the end may be dropped, and is fetched again if it is needed again. Blocks that find no
 * memory lie in a private file, and those that a cache has in its file. */
#include "io/remote/object_inside.h"

#include "base/error.h"
#include "io/file.h"
#include "io/remote/blocks.h"
#include "io/remote/remote.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SMALL ((uint64_t)8 << 20) /* one request */

/* ---- Blocks in memory ---- */

/* Counts a block with those that can be spared, or takes it out: before and after a change. Locked. */
static void tally(struct object *o, const struct memory_block *m, bool in)
{
    size_t by = in ? 1 : SIZE_MAX;
    o->read += m->bytes && m->read ? by : 0;
    o->ahead += m->bytes && m->ahead ? by : 0;
}

void object_attach(struct object *o, size_t i, uint8_t **block, bool ahead)
{
    struct memory_block *m = &o->memory[i];
    pthread_mutex_lock(&o->lock);
    uint8_t *left = *block;
    *block = NULL; /* before it is given back: a fork would give it back twice */
    if (!m->bytes && (o->states[i] == COMING || o->states[i] == ABSENT)) { /* another request may have been first */
        m->bytes = left;
        m->read = 0;
        m->ahead = ahead;
        tally(o, m, true);
        o->in_memory++;
        left = NULL;
    }
    pthread_mutex_unlock(&o->lock);
    blocks_give(left);
}

void object_release_block(struct object *o, size_t i)
{
    struct memory_block *m = &o->memory[i];
    tally(o, m, false);
    blocks_give(m->bytes);
    m->bytes = NULL;
    m->read = 0;
    o->in_memory--;
}

void object_release_memory(struct object *o)
{
    for (size_t i = 0; o->memory && o->in_memory && i < o->cache.blocks; i++)
        if (o->memory[i].bytes)
            object_release_block(o, i);
}

/* Drops a block that was read. When nearly all that are expected and lie in memory have passed, a round ends. Locked. */
static void pass(struct object *o, size_t i)
{
    struct memory_block *m = &o->memory[i];
    size_t all = o->until > o->from ? o->until - o->from : o->cache.blocks, in_file = o->here > o->in_memory ? o->here - o->in_memory : 0; /* some in memory are not shown yet */
    if (m->bytes)
        object_release_block(o, i);
    else
        spare_punch(o, i);
    m->read = 0;
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

/* Returns whether a block may be dropped: it lies in memory, or on a disk that was full, for this process alone. Locked. */
static bool is_droppable(const struct object *o, size_t i)
{
    return o->memory[i].bytes || spare_can_punch(o, i);
}

/* Notes that `n` bytes of a block were read. Reads while the object is opened do not count: they are repeated. Returns whether the block was dropped. Locked. */
static bool note_read(struct object *o, size_t i, size_t n)
{
    struct memory_block *m = &o->memory[i];
    m->readers--;
    if (!is_droppable(o, i) || (!atomic_load_explicit(&o->all, memory_order_relaxed) && !o->sequential))
        return false;
    tally(o, m, false);
    m->ahead = false;
    m->read = n < UINT32_MAX - m->read ? m->read + (uint32_t)n : UINT32_MAX;
    bool over = m->read >= cache_block_bytes(&o->cache, i) && !m->readers && !o->mapped, keep = over && blocks_keep();
    if (keep)
        m->read = 0;
    tally(o, m, true);
    if (over && !keep)
        pass(o, i);
    return over && !keep;
}

/* Puts the blocks before `end` that are here, and for another file all others that are here, into one private file. Locked. */
static pst_status write_down(struct object *o, const struct cache *to, size_t end, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < o->cache.blocks; i++) {
        struct memory_block *m = &o->memory[i];
        const struct cache *from = m->bytes ? NULL : object_file_of(o, i);
        if (from == to || o->states[i] != HERE || (from == NULL && i >= end))
            continue;
        if (m->bytes)
            st = file_write_at(to->fd, o->path, m->bytes, cache_block_bytes(to, i), (uint64_t)i * CACHE_BLOCK, reterr);
        else if (!cache_copy(from, to, i))
            st = file_fail(reterr, o->path, "keeping a copy of the object in /tmp", errno);
        if (st < 0)
            break;
        atomic_store(&to->sums[i], cache_sum(0)); /* a mark is enough: no other process reads this file */
        if (m->bytes && !m->readers)
            object_release_block(o, i);
    }
    return st;
}

/* Puts the blocks before `end` into the file that descriptors of the object see. If the disk is full, that is one in memory from then on. Locked. */
static pst_status gather(struct object *o, size_t end, pst_error *reterr)
{
    const struct cache *to = o->mapped_copy.fd >= 0 ? &o->mapped_copy : o->own.fd >= 0 ? &o->own : &o->cache;
    pst_status st = write_down(o, to, end, reterr);
    if (st < 0 && reterr && cache_is_full(reterr->sys_errno) && o->mapped_copy.fd < 0 &&
        cache_open_memory(&o->mapped_copy, o->path, &o->facts, reterr) == PST_OK) {
        spare_note_full();
        to = &o->mapped_copy;
        st = write_down(o, to, end, reterr);
    }
    if (st == PST_OK && atomic_load(&o->seen) != to->fd)
        remote_redirect(o, &o->seen, to->fd);
    return st;
}

pst_status object_need_mapped(struct object *o, uint64_t length, pst_error *reterr)
{
    pthread_mutex_lock(&o->lock);
    o->mapped++; /* from now on nothing is dropped */
    pthread_mutex_unlock(&o->lock);
    pst_status st = object_need(o, 0, length, reterr);
    size_t end = (size_t)((length + CACHE_BLOCK - 1) / CACHE_BLOCK);
    pthread_mutex_lock(&o->lock);
    if (st == PST_OK)
        st = o->memory ? gather(o, end < o->cache.blocks ? end : o->cache.blocks, reterr) : PST_OK;
    if (st < 0)
        o->mapped--; /* others may have it mapped */
    pthread_mutex_unlock(&o->lock);
    return st;
}

/* Returns whether the blocks may lie in more than one file. Locked. */
static bool has_moved(const struct object *o)
{
    return o->own.fd >= 0 || o->mapped_copy.fd >= 0;
}

bool object_is_whole(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    if (o->here < o->cache.blocks)
        object_check_stored(o, 0, o->cache.blocks);
    bool whole = o->here == o->cache.blocks;
    if (whole && (o->in_memory || has_moved(o))) /* a small one, which came with its opening, can be mapped, and then closed */
        whole = o->cache.size <= SMALL && gather(o, o->cache.blocks, NULL) == PST_OK && !o->in_memory;
    o->mapped += whole;
    pthread_mutex_unlock(&o->lock);
    return whole;
}

bool object_is_here(struct object *o)
{
    pthread_mutex_lock(&o->lock);
    bool here = o->here == o->cache.blocks && !o->in_memory && !has_moved(o); /* a mapping may be of the copy that was left */
    o->mapped += here;
    pthread_mutex_unlock(&o->lock);
    return here;
}

/* ---- Reading ---- */

struct target { /* where the bytes go */
    struct iovec *pieces;
    int count;
};

/* Returns the piece that the next byte goes to. */
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

static void wish(struct object *o, struct wish *w)
{
    pthread_mutex_lock(&o->lock);
    w->next = o->wishes;
    o->wishes = w;
    pthread_mutex_unlock(&o->lock);
}

static void end_wish(struct object *o, struct wish *w)
{
    pthread_mutex_lock(&o->lock);
    struct wish **at = &o->wishes;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    pthread_mutex_unlock(&o->lock);
}

/* Has blocks [first, end) stay while they are read. False: one of them is not here any more. `ret_in_file`: all are in the file that descriptors see, and stay. */
static bool hold(struct object *o, size_t first, size_t end, bool *ret_in_file)
{
    pthread_mutex_lock(&o->lock);
    bool here = object_first_missing(o, first, end) == end;
    *ret_in_file = here && !o->memory;
    for (size_t i = first; here && o->memory && i < end; i++)
        o->memory[i].readers++;
    pthread_mutex_unlock(&o->lock);
    return here;
}

static int descriptor_of(struct object *o, size_t i)
{
    pthread_mutex_lock(&o->lock);
    int fd = object_file_of(o, i)->fd;
    pthread_mutex_unlock(&o->lock);
    return fd;
}

static pst_status copy_held(struct object *o, struct target *t, uint64_t offset, uint64_t end, pst_error *reterr)
{
    pst_status st = PST_OK;
    while (offset < end && st == PST_OK) {
        size_t i = (size_t)(offset / CACHE_BLOCK);
        uint64_t until = (uint64_t)(i + 1) * CACHE_BLOCK;
        size_t n = (size_t)((until < end ? until : end) - offset);
        if (o->memory[i].bytes)
            copy(t, o->memory[i].bytes + offset % CACHE_BLOCK, n);
        else
            st = read_file(t, descriptor_of(o, i), o->path, offset, n, reterr);
        offset += n;
    }
    return st;
}

static void let_go(struct object *o, uint64_t offset, uint64_t end)
{
    bool dropped = false;
    pthread_mutex_lock(&o->lock);
    while (offset < end) {
        size_t i = (size_t)(offset / CACHE_BLOCK);
        uint64_t until = (uint64_t)(i + 1) * CACHE_BLOCK;
        until = until < end ? until : end;
        dropped |= note_read(o, i, (size_t)(until - offset));
        offset = until;
    }
    pthread_mutex_unlock(&o->lock);
    if (dropped && spare_is_short())
        parts_resume();
}

/* Waits for the bytes, and holds their blocks. */
static pst_status need_held(struct object *o, uint64_t offset, uint64_t end, bool *ret_in_file, pst_error *reterr)
{
    struct wish w = {.first = (size_t)(offset / CACHE_BLOCK), .end = (size_t)((end + CACHE_BLOCK - 1) / CACHE_BLOCK)};
    bool wishes = spare_is_short();
    pst_status st;
    if (wishes)
        wish(o, &w);
    do
        st = object_need(o, offset, end - offset, reterr);
    while (st == PST_OK && !hold(o, w.first, w.end, ret_in_file));
    if (wishes)
        end_wish(o, &w);
    return st;
}

pst_status object_read(struct object *o, struct iovec *pieces, int count, uint64_t offset, size_t *ret_got, bool *ret_in_file, pst_error *reterr)
{
    struct target t = {pieces, count};
    uint64_t length = 0;
    for (int i = 0; i < count; i++)
        length += pieces[i].iov_len;
    *ret_got = 0;
    *ret_in_file = false;
    if (offset >= o->cache.size || length == 0)
        return PST_OK;
    uint64_t end = length < o->cache.size - offset ? offset + length : o->cache.size;
    pst_status st = need_held(o, offset, end, ret_in_file, reterr);
    if (st < 0 || *ret_in_file)
        return st;
    st = copy_held(o, &t, offset, end, reterr);
    let_go(o, offset, end);
    *ret_got = (size_t)(end - offset);
    return st;
}
