/* thread.c: a group of workers behind a starting gate.
 *
 * No worker enters its function before all of them exist: a group starts whole or, when the system refuses a thread,
 * not at all. Workers block asynchronous signals, so those reach the application's own threads. */
#include "base/thread.h"

#include "base/fault.h"
#include "base/memory.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct worker {
    struct thread_group *group;
    unsigned number;
    pthread_t thread;
};

struct thread_group {
    pthread_mutex_t lock;
    pthread_cond_t changed;              /* `gate` or `running` did */
    enum { SHUT, OPEN, ABANDONED } gate; /* under lock */
    unsigned running;                    /* under lock */
    unsigned started;                    /* threads to join; the starter's alone */
    char name[16];
    void (*fn)(void *user, unsigned worker);
    void *user;
    struct worker workers[];
};

/* The kernel keeps 15 bytes of a name: the number is worth more than the name's end. */
static void name_this_thread(const char *name, unsigned number)
{
    char full[16], suffix[12];
    int digits = snprintf(suffix, sizeof(suffix), "-%u", number);
    snprintf(full, sizeof(full), "%.*s%s", (int)sizeof(full) - 1 - digits, name, suffix);
    pthread_setname_np(pthread_self(), full);
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    struct thread_group *g = w->group;
    name_this_thread(g->name, w->number);

    pthread_mutex_lock(&g->lock);
    while (g->gate == SHUT)
        pthread_cond_wait(&g->changed, &g->lock);
    bool run = g->gate == OPEN;
    pthread_mutex_unlock(&g->lock);

    if (run)
        g->fn(g->user, w->number);

    pthread_mutex_lock(&g->lock);
    if (--g->running == 0)
        pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static struct thread_group *group_create(unsigned count, const char *name, void (*fn)(void *user, unsigned worker), void *user)
{
    size_t size;
    if (__builtin_mul_overflow(count, sizeof(struct worker), &size) ||
        __builtin_add_overflow(size, sizeof(struct thread_group), &size))
        return NULL;
    struct thread_group *g = mem_zalloc(size);
    if (!g)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* a wait must not notice that someone sets the date */
    pthread_cond_init(&g->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&g->lock, NULL);
    snprintf(g->name, sizeof(g->name), "%s", name);
    g->fn = fn;
    g->user = user;
    return g;
}

/* Returns 0 or an errno. `running` grows before the thread can shrink it. */
static int start_worker(struct thread_group *g)
{
    struct worker *w = &g->workers[g->started];
    w->group = g;
    w->number = g->started;
    pthread_mutex_lock(&g->lock);
    g->running++;
    pthread_mutex_unlock(&g->lock);
    int error = fault_hit(FAULT_THREAD, "pthread_create") ? EAGAIN : pthread_create(&w->thread, NULL, worker_main, w);
    if (error == 0) {
        g->started++;
        return 0;
    }
    pthread_mutex_lock(&g->lock);
    g->running--;
    pthread_mutex_unlock(&g->lock);
    return error;
}

/* Signals that the machine raises on the thread itself (a fault, a trap of a sanitizer) must stay deliverable. */
static void block_asynchronous_signals(sigset_t *ret_old)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof(synchronous) / sizeof(synchronous[0]); i++)
        sigdelset(&set, synchronous[i]);
    pthread_sigmask(SIG_SETMASK, &set, ret_old);
}

pst_status thread_group_start(struct thread_group **ret, unsigned count, const char *name,
                              void (*fn)(void *user, unsigned worker), void *user, pst_error *reterr)
{
    struct thread_group *g = group_create(count, name, fn, user);
    if (!g)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for %u threads \"%s\"", count, name);

    sigset_t old;
    int error = 0;
    block_asynchronous_signals(&old);
    while (g->started < count && error == 0)
        error = start_worker(g);
    pthread_sigmask(SIG_SETMASK, &old, NULL);

    pthread_mutex_lock(&g->lock);
    g->gate = error == 0 ? OPEN : ABANDONED;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (error == 0) {
        *ret = g;
        return PST_OK;
    }
    unsigned reached = g->started;
    thread_group_join(g);
    pst_fail(reterr, PST_EIO, "the system refused thread %u of %u for \"%s\"; try fewer workers or a higher limit of processes",
             reached + 1, count, name);
    if (reterr)
        reterr->sys_errno = error;
    return PST_EIO;
}

static struct timespec after_milliseconds(uint32_t milliseconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += milliseconds / 1000;
    t.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

bool thread_group_wait(struct thread_group *g, uint32_t milliseconds)
{
    struct timespec until = after_milliseconds(milliseconds);
    pthread_mutex_lock(&g->lock);
    int late = 0;
    while (g->running > 0 && late == 0)
        late = milliseconds == UINT32_MAX ? pthread_cond_wait(&g->changed, &g->lock)
                                          : pthread_cond_timedwait(&g->changed, &g->lock, &until);
    bool done = g->running == 0;
    pthread_mutex_unlock(&g->lock);
    return done;
}

struct thread_group *thread_group_join(struct thread_group *g)
{
    if (!g)
        return NULL;
    for (unsigned i = 0; i < g->started; i++)
        pthread_join(g->workers[i].thread, NULL);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
    return NULL;
}

/* As <linux/sched/types.h> has it, which newer C libraries declare, too. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

#define LONGEST_TURN 100000000 /* ns; the longest that Linux accepts */

void thread_take_long_turns(void)
{
#ifdef SYS_sched_setattr
    /* Only the usual policy: an application that chose another one keeps it. `runtime` is the length of a turn since Linux 6.12; before, it is ignored. */
    if (sched_getscheduler(0) == SCHED_OTHER)
        (void)syscall(SYS_sched_setattr, 0,
                      &(struct scheduling){.size = sizeof(struct scheduling),
                                           .policy = SCHED_OTHER,
                                           .nice = getpriority(PRIO_PROCESS, 0),
                                           .runtime = LONGEST_TURN},
                      0);
#endif
}
