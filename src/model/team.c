/* team.c: see team.h. */
#include "model/team.h"

#include "base/denormals.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"

#include <stdatomic.h>

/* A thread that waits looks this often before it sleeps: being woken costs some 50 µs, more than the usual wait at a barrier. The limit grows
 * while the others come in time and shrinks while they do not, as when a decoder has their core. */
#define SPINS_LEAST 2000 /* about 30 µs */
#define SPINS_MOST 40000 /* about 600 µs */

struct team {
    unsigned size;
    struct thread_group *threads;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Of the barrier. */
    atomic_uint arrived, round;
    atomic_uint spins; /* the limit of the next wait */
    /* Of the run; changed under lock. */
    atomic_uint run, done;
    bool ends;
    void (*fn)(void *user, unsigned worker);
    void *user;
};

static void pause_briefly(void)
{
#ifdef __SSE__
    _mm_pause();
#endif
}

/* Waits a while for *value to become `wanted`. Returns whether it did. */
static bool spin(atomic_uint *value, unsigned wanted, atomic_uint *limit)
{
    unsigned most = atomic_load_explicit(limit, memory_order_relaxed);
    for (unsigned i = 0; i < most; i++) {
        if (atomic_load(value) == wanted) {
            atomic_store_explicit(limit, most * 2 < SPINS_MOST ? most * 2 : SPINS_MOST, memory_order_relaxed);
            return true;
        }
        pause_briefly();
    }
    atomic_store_explicit(limit, most / 2 > SPINS_LEAST ? most / 2 : SPINS_LEAST, memory_order_relaxed);
    return false;
}

void team_barrier(struct team *t)
{
    unsigned round = atomic_load(&t->round);
    if (t->size == 1)
        return;
    if (atomic_fetch_add(&t->arrived, 1) + 1 == t->size) {
        atomic_store(&t->arrived, 0);
        pthread_mutex_lock(&t->lock);
        atomic_store(&t->round, round + 1);
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
        return;
    }
    if (spin(&t->round, round + 1, &t->spins))
        return;
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->round) == round)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* Threads of the group are workers 1 and up. */
static void work(void *user, unsigned number)
{
    struct team *t = user;
    unsigned seen = 0;
    flush_denormals();
    for (;;) {
        spin(&t->run, seen + 1, &t->spins);
        pthread_mutex_lock(&t->lock);
        while (t->run == seen && !t->ends)
            pthread_cond_wait(&t->changed, &t->lock);
        seen = t->run;
        bool ends = t->ends;
        pthread_mutex_unlock(&t->lock);
        if (ends)
            return;
        t->fn(t->user, number + 1);
        pthread_mutex_lock(&t->lock);
        t->done++;
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
    }
}

pst_status team_create(struct team **ret, unsigned threads, pst_error *reterr)
{
    struct team *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "starting the threads of the step");
    t->size = threads ? threads : 1;
    t->spins = SPINS_MOST;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    pst_status st = t->size > 1 ? thread_group_start(&t->threads, t->size - 1, "pst-step", work, t, reterr) : PST_OK;
    if (st < 0) {
        t->threads = NULL;
        team_destroy(t);
        return st;
    }
    *ret = t;
    return PST_OK;
}

struct team *team_destroy(struct team *t)
{
    if (!t)
        return NULL;
    pthread_mutex_lock(&t->lock);
    t->ends = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    thread_group_join(t->threads);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
    return NULL;
}

unsigned team_size(const struct team *t)
{
    return t->size;
}

void team_run(struct team *t, void (*fn)(void *user, unsigned worker), void *user)
{
    unsigned before = flush_denormals();
    pthread_mutex_lock(&t->lock);
    t->fn = fn;
    t->user = user;
    t->done = 0;
    t->run++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    fn(user, 0);
    if (t->size > 1)
        spin(&t->done, t->size - 1, &t->spins);
    pthread_mutex_lock(&t->lock);
    while (t->done + 1 < t->size)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    restore_denormals(before);
}
