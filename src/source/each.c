/* each.c: see each.h. */
#include "source/each.h"

#include "base/thread.h"

#include <stdatomic.h>

struct each {
    size_t count;
    pst_status (*fn)(void *user, size_t i, pst_error *reterr);
    void *user;
    atomic_size_t next;
    pthread_mutex_t lock;
    size_t failed;   /* under lock: the lowest; `count` while none has */
    pst_error error; /* under lock: its error */
};

static void work(void *user, unsigned worker)
{
    struct each *e = user;
    (void)worker;
    for (;;) {
        size_t i = atomic_fetch_add(&e->next, 1);
        if (i >= e->count)
            return;
        pst_error error = {0};
        if (e->fn(e->user, i, &error) >= 0)
            continue;
        atomic_store(&e->next, e->count);
        pthread_mutex_lock(&e->lock);
        if (i < e->failed) {
            e->failed = i;
            e->error = error;
        }
        pthread_mutex_unlock(&e->lock);
    }
}

pst_status each_run(size_t count, unsigned threads, pst_status (*fn)(void *user, size_t i, pst_error *reterr), void *user,
                    pst_error *reterr)
{
    struct each e = {.count = count, .fn = fn, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER, .failed = count};
    struct thread_group *group = NULL;
    if (threads > count)
        threads = (unsigned)count;
    if (threads < 2 || thread_group_start(&group, threads, "pst-open", work, &e, NULL) < 0)
        work(&e, 0);
    thread_group_join(group);
    pthread_mutex_destroy(&e.lock);
    if (e.failed == count)
        return PST_OK;
    if (reterr)
        *reterr = e.error;
    return e.error.status;
}
