/* level.c: see level.h. One list is kept. A visit takes it out meanwhile, so that it may look at other levels. */
#include "io/remote/level.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/remote/fork.h"

#include <string.h>

#define KEPT_NS UINT64_C(1000000000)

struct level {
    char *prefix; /* NULL: nothing is kept */
    struct listed *items;
    size_t count, capacity;
    bool whole;     /* the list has no second page */
    bool no_object; /* see level_look */
    uint64_t until; /* nanoseconds */
};

static struct {
    pthread_mutex_t lock;
    struct level level;
    unsigned changes;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

void level_fork(enum fork_phase phase)
{
    fork_lock(&kept.lock, phase);
}

static void finish(struct level *l)
{
    for (size_t i = 0; i < l->count; i++)
        mem_free(l->items[i].path);
    mem_free(l->items);
    mem_free(l->prefix);
    *l = (struct level){0};
}

/* Takes out the list that is kept for this prefix. */
static bool take(struct level *ret, const char *prefix, unsigned *ret_changes)
{
    *ret = (struct level){0};
    fork_watch();
    pthread_mutex_lock(&kept.lock);
    bool there = kept.level.prefix && strcmp(kept.level.prefix, prefix) == 0 && clock_ns() < kept.level.until;
    if (there) {
        *ret = kept.level;
        kept.level = (struct level){0};
    }
    *ret_changes = kept.changes;
    pthread_mutex_unlock(&kept.lock);
    return there;
}

/* Keeps the list instead of another one, unless this process has changed a bucket since `changes`. */
static void put(struct level *l, unsigned changes)
{
    pthread_mutex_lock(&kept.lock);
    if (kept.changes == changes) {
        struct level old = kept.level;
        kept.level = *l;
        *l = old;
    }
    pthread_mutex_unlock(&kept.lock);
    finish(l);
}

void level_forget(void)
{
    pthread_mutex_lock(&kept.lock);
    finish(&kept.level);
    kept.changes++;
    pthread_mutex_unlock(&kept.lock);
}

static pst_status add(void *user, struct listed *listed, pst_error *reterr)
{
    struct level *l = user;
    if (mem_grow((void **)&l->items, &l->capacity, l->count + 1, sizeof(*l->items)) < 0)
        return fail_memory_at(reterr, l->prefix, "listing the objects");
    l->items[l->count++] = *listed;
    listed->path = NULL;
    return PST_OK;
}

pst_status level_look(const char *prefix, bool no_object, bool *ret_any, pst_error *reterr)
{
    struct level l;
    unsigned changes;
    pst_status st = PST_OK;
    if (!take(&l, prefix, &changes)) {
        l.prefix = mem_strdup(prefix);
        st = l.prefix ? listing_visit_first(prefix, add, &l, &l.whole, reterr) : fail_memory_at(reterr, prefix, "listing the objects");
        l.until = clock_ns() + KEPT_NS;
    }
    if (st < 0) {
        finish(&l);
        return st;
    }
    l.no_object |= no_object;
    *ret_any = l.count > 0;
    put(&l, changes);
    return PST_OK;
}

bool level_is_folder(const char *prefix)
{
    pthread_mutex_lock(&kept.lock);
    const struct level *l = &kept.level;
    bool is = l->prefix && strcmp(l->prefix, prefix) == 0 && clock_ns() < l->until && l->no_object && l->count > 0;
    pthread_mutex_unlock(&kept.lock);
    return is;
}

pst_status level_visit(const char *prefix, listing_visit visit, void *user, pst_error *reterr)
{
    struct level l;
    unsigned changes;
    pst_status st = PST_OK;
    if (!take(&l, prefix, &changes))
        return listing_visit_all(prefix, false, visit, user, reterr);
    if (!l.whole) {
        finish(&l);
        return listing_visit_all(prefix, false, visit, user, reterr);
    }
    for (size_t i = 0; i < l.count && st == PST_OK; i++) {
        struct listed one = l.items[i];
        one.path = mem_strdup(l.items[i].path); /* which the visit may take */
        st = one.path ? visit(user, &one, reterr) : fail_memory_at(reterr, prefix, "listing the objects");
        mem_free(one.path);
    }
    put(&l, changes);
    return st;
}
