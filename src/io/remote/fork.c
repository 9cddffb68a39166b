/* fork.c: see fork.h. */
#include "io/remote/fork.h"

static void each(enum fork_phase phase)
{
    static void (*const hooks[])(enum fork_phase) = {object_fork, settings_fork, remote_fork, http_fork, store_fork, room_fork, level_fork, blocks_fork, hidden_fork, stop_fork};
    for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
        hooks[i](phase);
}

static void before(void)
{
    each(FORK_BEFORE);
}

static void in_parent(void)
{
    each(FORK_PARENT);
}

static void in_child(void)
{
    each(FORK_CHILD);
}

static void watch(void)
{
    (void)pthread_atfork(before, in_parent, in_child); /* fails without memory only: then forks are as they were */
}

void fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

void fork_lock(pthread_mutex_t *lock, enum fork_phase phase)
{
    if (phase == FORK_BEFORE)
        pthread_mutex_lock(lock);
    else
        pthread_mutex_unlock(lock);
}
