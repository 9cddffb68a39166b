/* reads.c: reads in flight, by whichever means the system has.
 *
 * Promises: the same bytes by any means; every read that was begun ends before the set is destroyed, so that nothing writes
 * into memory that was given back. Leaves to others: what is worth reading, and alignment where the file asks for it. */
#include "io/reads.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"
#include "io/file.h"
#include "io/uring.h"

#include <errno.h>
#include <unistd.h>

#define THREADS 4u

struct reads {
    enum reads_kind kind;
    unsigned depth;
    struct read_request *first, **last; /* queued; with threads: under lock */

    struct uring *uring;
    unsigned in_flight;

    struct thread_group *threads;
    pthread_mutex_t lock;
    pthread_cond_t queued, ended;
    unsigned busy; /* under lock: threads that are reading */
    bool closing;  /* under lock */
};

static void enqueue(struct reads *r, struct read_request *q)
{
    q->next = NULL;
    *r->last = q;
    r->last = &q->next;
}

static struct read_request *dequeue(struct reads *r)
{
    struct read_request *q = r->first;
    if (q) {
        r->first = q->next;
        if (!r->first)
            r->last = &r->first;
    }
    return q;
}

static void finish(struct read_request *q, int error)
{
    q->error = error;
    atomic_store_explicit(&q->done, true, memory_order_release);
}

/* Processes the result of a read: bytes, or a negative errno. True: it must be continued. A direct read that ends inside a
 * block has reached the end of the file, and could not be continued there anyway. */
static bool take_result(struct read_request *q, ssize_t result)
{
    if (result == -EINTR || result == -EAGAIN)
        return true;
    if (result < 0) {
        finish(q, (int)-result);
        return false;
    }
    q->got += (size_t)result;
    if (result > 0 && q->got < q->length && q->got % FILE_DIRECT_ALIGNMENT == 0)
        return true;
    finish(q, 0);
    return false;
}

static void read_now(struct read_request *q)
{
    ssize_t n;
    do {
        n = file_denied("pread") ? -1
                                 : pread(q->fd, (char *)q->buffer + q->got, q->length - q->got, (off_t)(q->offset + q->got));
    } while (take_result(q, n < 0 ? -(ssize_t)errno : n));
}

/* ---- Threads ---- */

static void work(void *user, unsigned worker)
{
    struct reads *r = user;
    (void)worker;
    pthread_mutex_lock(&r->lock);
    while (!r->closing) {
        struct read_request *q = dequeue(r);
        if (!q) {
            pthread_cond_wait(&r->queued, &r->lock);
            continue;
        }
        r->busy++;
        pthread_mutex_unlock(&r->lock);
        read_now(q);
        pthread_mutex_lock(&r->lock);
        r->busy--;
        pthread_cond_broadcast(&r->ended);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- Ring ---- */

/* Moves what fits from the queue into the ring, and takes what has ended out of it. Returns 0, or why the ring is broken. */
static int turn_ring(struct reads *r, bool wait)
{
    struct read_request *q;
    int result;
    while (r->first && r->in_flight < r->depth && uring_add(r->uring, r->first)) {
        dequeue(r);
        r->in_flight++;
    }
    int failed = uring_enter(r->uring, wait && r->in_flight > 0);
    while ((q = uring_ended(r->uring, &result))) {
        r->in_flight--;
        if (take_result(q, result))
            enqueue(r, q);
    }
    return failed;
}

/* ---- All together ---- */

pst_status reads_create(struct reads **ret, enum reads_kind best, unsigned depth, pst_error *reterr)
{
    struct reads *r = mem_zalloc(sizeof(*r));
    if (!r)
        return fail_memory(reterr, "preparing to read ahead");
    r->depth = depth;
    r->last = &r->first;
    r->kind = best;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->queued, NULL);
    pthread_cond_init(&r->ended, NULL);
    if (r->kind == READS_RING && !(r->uring = uring_create(depth)))
        r->kind = READS_THREADS;
    if (r->kind == READS_THREADS && thread_group_start(&r->threads, THREADS, "pst-read", work, r, NULL) < 0)
        r->kind = READS_PLAIN;
    *ret = r;
    return PST_OK;
}

enum reads_kind reads_kind(const struct reads *r)
{
    return r->kind;
}

struct reads *reads_destroy(struct reads *r)
{
    if (!r)
        return NULL;
    reads_cancel(r);
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_cond_broadcast(&r->queued);
    pthread_mutex_unlock(&r->lock);
    thread_group_join(r->threads);
    uring_destroy(r->uring);
    pthread_cond_destroy(&r->ended);
    pthread_cond_destroy(&r->queued);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
    return NULL;
}

void reads_add(struct reads *r, struct read_request *q)
{
    q->got = 0;
    q->error = 0;
    atomic_store_explicit(&q->done, false, memory_order_relaxed);
    pthread_mutex_lock(&r->lock);
    enqueue(r, q);
    pthread_mutex_unlock(&r->lock);
}

void reads_go(struct reads *r)
{
    if (r->kind == READS_RING) {
        (void)turn_ring(r, false); /* what is wrong shows when it is waited for */
    } else if (r->kind == READS_THREADS) {
        pthread_mutex_lock(&r->lock);
        pthread_cond_broadcast(&r->queued);
        pthread_mutex_unlock(&r->lock);
    }
}

void reads_wait(struct reads *r, struct read_request *q)
{
    if (atomic_load_explicit(&q->done, memory_order_acquire))
        return;
    reads_go(r);
    pthread_mutex_lock(&r->lock);
    while (r->kind == READS_THREADS && !atomic_load_explicit(&q->done, memory_order_acquire))
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    while (!atomic_load_explicit(&q->done, memory_order_acquire)) {
        int failed = 0;
        if (r->kind == READS_RING)
            failed = turn_ring(r, true);
        else
            read_now(dequeue(r)); /* `q` is queued: it is reached */
        if (failed)
            finish(q, failed);
    }
}

void reads_cancel(struct reads *r)
{
    pthread_mutex_lock(&r->lock);
    while (dequeue(r))
        ;
    while (r->busy > 0)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    while (r->in_flight > 0 && turn_ring(r, true) == 0)
        while (dequeue(r)) /* what would have been continued */
            ;
}
