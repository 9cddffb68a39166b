/* parallel.c: see parallel.h. */
#include "base/parallel.h"

#include "base/cpu.h"
#include "base/thread.h"

#define PROGRESS_MS 100
#define MAX_WORKERS 256u

struct crew {
    const struct parallel *p;
    struct meter meter;
    atomic_size_t next;
    pthread_mutex_t lock;
    size_t failed;     /* under lock: the lowest task that failed; `tasks` while none has */
    pst_status status; /* under lock, with `error`: how it failed */
    pst_error error;
};

pst_status meter_add(struct meter *m, uint64_t records, uint64_t bytes, pst_error *reterr)
{
    atomic_fetch_add_explicit(&m->records, records, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->bytes, bytes, memory_order_relaxed);
    if (atomic_load_explicit(&m->cancelled, memory_order_relaxed))
        return pst_fail(reterr, PST_ECANCELLED, "cancelled");
    return PST_OK;
}

static void work(void *user, unsigned worker)
{
    struct crew *c = user;
    (void)worker;
    for (;;) {
        size_t task = atomic_fetch_add(&c->next, 1);
        if (task >= c->p->tasks)
            return;
        pst_error error = {0};
        pst_status st = c->p->run(c->p->user, task, &c->meter, &error);
        if (st >= 0)
            continue;
        atomic_store(&c->next, c->p->tasks);
        pthread_mutex_lock(&c->lock);
        if (task < c->failed) {
            c->failed = task;
            c->status = st;
            c->error = error;
        }
        pthread_mutex_unlock(&c->lock);
    }
}

static void tell(struct crew *c)
{
    if (!c->p->progress)
        return;
    pst_progress now = {.stage = c->p->stage,
                        .done = atomic_load_explicit(&c->meter.records, memory_order_relaxed),
                        .total = c->p->total,
                        .bytes = atomic_load_explicit(&c->meter.bytes, memory_order_relaxed)};
    if (c->p->progress(c->p->progress_user, &now))
        atomic_store(&c->meter.cancelled, true);
}

/* Runs the tasks on threads; NULL in `*ret` and PST_OK: they were run here. */
static pst_status start(struct crew *c, struct thread_group **ret, pst_error *reterr)
{
    const struct parallel *p = c->p;
    size_t workers = p->workers ? p->workers : cpu_cores();
    workers = workers < p->tasks ? workers : p->tasks;
    workers = workers < MAX_WORKERS ? workers : MAX_WORKERS;
    const char *name = p->name ? p->name : "penstock";
    *ret = NULL;
    if (!p->here)
        return thread_group_start(ret, (unsigned)workers, name, work, c, reterr);
    if (workers < 2 || thread_group_start(ret, (unsigned)workers, name, work, c, NULL) < 0)
        work(c, 0);
    return PST_OK;
}

pst_status parallel_run(const struct parallel *p, pst_error *reterr)
{
    if (!p->tasks)
        return PST_OK;
    struct crew c = {.p = p, .lock = PTHREAD_MUTEX_INITIALIZER, .failed = p->tasks};
    struct thread_group *group;
    pst_status st = start(&c, &group, reterr);
    if (st < 0)
        return st;
    while (group && !thread_group_wait(group, p->progress ? PROGRESS_MS : UINT32_MAX))
        tell(&c);
    thread_group_join(group);
    tell(&c);
    pthread_mutex_destroy(&c.lock);
    if (c.failed < p->tasks) {
        if (reterr)
            *reterr = c.error;
        return c.status;
    }
    return meter_add(&c.meter, 0, 0, reterr);
}

struct each {
    pst_status (*fn)(void *user, size_t i, pst_error *reterr);
    void *user;
};

static pst_status run_each(void *user, size_t task, struct meter *meter, pst_error *reterr)
{
    const struct each *e = user;
    (void)meter;
    return e->fn(e->user, task, reterr);
}

pst_status parallel_each(size_t count, unsigned threads, pst_status (*fn)(void *user, size_t i, pst_error *reterr), void *user,
                         pst_error *reterr)
{
    struct each e = {.fn = fn, .user = user};
    const struct parallel p = {
        .tasks = count, .workers = threads, .run = run_each, .user = &e, .name = "pst-open", .here = true};
    return parallel_run(&p, reterr);
}
