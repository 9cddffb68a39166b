/* object_spare.c: see object_inside.h. Drops blocks when neither the pool of blocks nor the disk of private copies has room: those that were read in part,
 * then those that were fetched ahead. They are fetched again when they are needed. A block that a thread waits for always finds memory. */
#include "io/remote/object_inside.h"

#include "io/remote/blocks.h"

#include <fcntl.h>

enum kind { READ, AHEAD, ANY };

static _Atomic bool full, was_full;

/* ---- The disk ---- */

void spare_note_full(void)
{
    atomic_store(&full, true);
    atomic_store(&was_full, true);
}

bool spare_disk_is_full(void)
{
    return atomic_load_explicit(&full, memory_order_relaxed);
}

bool spare_is_short(void)
{
    return atomic_load_explicit(&was_full, memory_order_relaxed);
}

/* Returns whether a request under way may be writing the block: a hole in it would be shown as a whole block. */
static bool is_being_written(const struct object *o, size_t i)
{
    const struct part *p = o->active;
    while (p && (i < p->first + p->done || i >= p->first + p->count))
        p = p->next;
    return p != NULL;
}

bool spare_can_punch(const struct object *o, size_t i)
{
    return spare_is_short() && !o->forked && o->states[i] == HERE && object_file_of(o, i)->map_fd < 0 && !is_being_written(o, i);
}

void spare_punch(struct object *o, size_t i)
{
    const struct cache *c = object_file_of(o, i);
    atomic_store(&c->sums[i], 0);
    if (fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)((uint64_t)i * CACHE_BLOCK), CACHE_BLOCK) == 0)
        atomic_store(&full, false);
}

/* ---- Memory ---- */

static bool is_wished(const struct object *o, size_t i)
{
    const struct wish *w = o->wishes;
    while (w && (i < w->first || i >= w->end))
        w = w->next;
    return w != NULL;
}

static bool can_drop(const struct object *o, size_t i, enum kind kind)
{
    const struct memory_block *m = &o->memory[i];
    bool fits = kind == ANY || (kind == READ ? m->read > 0 : m->ahead);
    return fits && m->bytes && !m->readers && o->states[i] == HERE && !is_wished(o, i);
}

/* Finds the next block after the last one that was dropped; of those that were fetched ahead the last, which is needed last. Locked. */
static bool find_block(const struct object *o, enum kind kind, size_t *ret)
{
    size_t blocks = o->cache.blocks;
    bool found = false;
    for (size_t n = 0; n < blocks && !found; n++) {
        *ret = kind == AHEAD ? blocks - 1 - n : (o->hand + n) % blocks;
        found = can_drop(o, *ret, kind);
    }
    return found;
}

/* Locked. */
static bool drop_of(struct object *o, enum kind kind)
{
    size_t i = 0;
    if (!find_block(o, kind, &i))
        return false;
    bool was_read = o->memory[i].read > 0;
    o->hand = kind == AHEAD ? o->hand : i + 1;
    object_release_block(o, i);
    object_mark(o, i, 1, was_read ? PASSED : ABSENT);
    return true;
}

struct search {
    enum kind kind;
    uint64_t last; /* the last turn of an object of which such a block can be dropped */
};

static size_t candidates(const struct object *o, enum kind kind)
{
    return !o->memory || o->mapped ? 0 : kind == READ ? o->read : kind == AHEAD ? o->ahead : o->in_memory;
}

static bool find_last(struct object *o, void *user)
{
    struct search *s = user;
    size_t i = 0;
    pthread_mutex_lock(&o->lock);
    if (candidates(o, s->kind) && o->turn > s->last && find_block(o, s->kind, &i))
        s->last = o->turn;
    pthread_mutex_unlock(&o->lock);
    return false;
}

static bool drop_one(struct object *o, void *user)
{
    const struct search *s = user;
    pthread_mutex_lock(&o->lock);
    bool dropped = candidates(o, s->kind) && (s->kind != AHEAD || o->turn == s->last) && drop_of(o, s->kind);
    pthread_mutex_unlock(&o->lock);
    return dropped;
}

/* Drops a block; of those that were fetched ahead, one of the object that is read last. */
static bool drop(enum kind kind, uint64_t after)
{
    struct search s = {.kind = kind, .last = after};
    if (kind == AHEAD)
        (void)parts_visit(find_last, &s);
    return (kind != AHEAD || s.last > after) && parts_visit(drop_one, &s);
}

uint8_t *spare_take(const struct object *o, enum urgency urgency)
{
    uint8_t *block;
    bool wanted = urgency != SOMETIME, done = false;
    while (!(block = blocks_take()) && !done)
        done = !(wanted && drop(READ, 0)) && !drop(AHEAD, wanted ? 0 : o->turn) && !(urgency == NOW && drop(ANY, 0));
    return block || urgency != NOW ? block : blocks_take_more();
}

/* Counts the blocks that can be dropped, up to `most`. Locked. */
static size_t count_blocks(const struct object *o, enum kind kind, size_t most)
{
    size_t found = 0, left = candidates(o, kind);
    for (size_t i = o->cache.blocks; left && i-- && found < most;) {
        const struct memory_block *m = &o->memory[i];
        left -= m->bytes && (kind == READ ? m->read > 0 : m->ahead);
        found += can_drop(o, i, kind);
    }
    return found;
}

size_t spare_ahead(const struct object *o, size_t most)
{
    return count_blocks(o, AHEAD, most);
}

struct count {
    size_t found, wanted;
};

static bool add_spare(struct object *o, void *user)
{
    struct count *c = user;
    pthread_mutex_lock(&o->lock);
    c->found += count_blocks(o, READ, c->wanted - c->found);
    c->found += count_blocks(o, AHEAD, c->wanted - c->found);
    pthread_mutex_unlock(&o->lock);
    return c->found >= c->wanted;
}

bool spare_has(size_t count)
{
    struct count c = {blocks_room(), count};
    return c.found >= count || parts_visit(add_spare, &c);
}
