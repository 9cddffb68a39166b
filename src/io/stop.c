/* stop.c: see stop.h. */
#include "io/stop.h"

#include "io/remote/fork.h"

#include <penstock/store.h>

#include <pthread.h>
#include <stdatomic.h>

static _Thread_local struct file_stop own;

static struct {
    pthread_mutex_t lock;
    struct file_stop stop;
    _Atomic bool set;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

void stop_fork(enum fork_phase phase)
{
    fork_lock(&process.lock, phase);
}

struct file_stop stop_set_thread(struct file_stop stop)
{
    struct file_stop before = own;
    own = stop;
    return before;
}

bool stop_thread_asked(void)
{
    return own.asked && own.asked(own.user);
}

bool stop_process_asked(void)
{
    if (!atomic_load_explicit(&process.set, memory_order_acquire))
        return false;
    pthread_mutex_lock(&process.lock);
    struct file_stop stop = process.stop;
    pthread_mutex_unlock(&process.lock);
    return stop.asked && stop.asked(stop.user);
}

void pst_store_stop(pst_stop_fn asked, void *user)
{
    fork_watch();
    pthread_mutex_lock(&process.lock);
    process.stop = (struct file_stop){asked, user};
    pthread_mutex_unlock(&process.lock);
    atomic_store_explicit(&process.set, asked != NULL, memory_order_release);
}
