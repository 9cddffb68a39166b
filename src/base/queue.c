/* queue.c: a ring under one lock with a condition for each side.
 *
 * Made for a few hand-offs a millisecond: what is inside is worth far more than the lock. Waking is skipped when
 * nobody sleeps, and destroying requires that nobody is inside any more. */
#include "base/queue.h"

#include "base/memory.h"

#include <pthread.h>

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t not_full, not_empty;
    size_t capacity;
    size_t head, length;       /* under lock */
    unsigned pushing, popping; /* sleepers, under lock */
    bool closed;               /* under lock */
    void *items[];
};

pst_status queue_create(struct queue **ret, size_t capacity, pst_error *reterr)
{
    size_t size;
    if (capacity == 0)
        return pst_fail(reterr, PST_EINVAL, "a queue needs a capacity of at least 1");
    if (__builtin_mul_overflow(capacity, sizeof(void *), &size) || __builtin_add_overflow(size, sizeof(struct queue), &size))
        return pst_fail(reterr, PST_ENOMEM, "a queue of %zu items does not fit into memory", capacity);
    struct queue *q = mem_zalloc(size);
    if (!q)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for a queue of %zu items", capacity);
    pthread_mutex_init(&q->lock, NULL); /* with default attributes these three cannot fail */
    pthread_cond_init(&q->not_full, NULL);
    pthread_cond_init(&q->not_empty, NULL);
    q->capacity = capacity;
    *ret = q;
    return PST_OK;
}

pst_status queue_push(struct queue *q, void *item)
{
    pst_status st = PST_ECANCELLED;
    pthread_mutex_lock(&q->lock);
    while (q->length == q->capacity && !q->closed) {
        q->pushing++;
        pthread_cond_wait(&q->not_full, &q->lock);
        q->pushing--;
    }
    if (!q->closed) {
        size_t at = q->head + q->length++;
        q->items[at < q->capacity ? at : at - q->capacity] = item;
        if (q->popping)
            pthread_cond_signal(&q->not_empty);
        st = PST_OK;
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

static void *take(struct queue *q)
{
    void *item = q->items[q->head];
    if (++q->head == q->capacity)
        q->head = 0;
    q->length--;
    return item;
}

pst_status queue_pop(struct queue *q, void **ret)
{
    pst_status st = PST_END;
    pthread_mutex_lock(&q->lock);
    while (q->length == 0 && !q->closed) {
        q->popping++;
        pthread_cond_wait(&q->not_empty, &q->lock);
        q->popping--;
    }
    if (q->length > 0) {
        *ret = take(q);
        if (q->pushing)
            pthread_cond_signal(&q->not_full);
        st = PST_OK;
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->not_full);
    pthread_cond_broadcast(&q->not_empty);
    pthread_mutex_unlock(&q->lock);
}

size_t queue_length(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t length = q->length;
    pthread_mutex_unlock(&q->lock);
    return length;
}

struct queue *queue_destroy(struct queue *q, void (*drop)(void *item))
{
    if (!q)
        return NULL;
    while (q->length > 0) {
        void *item = take(q);
        if (drop)
            drop(item);
    }
    pthread_cond_destroy(&q->not_empty);
    pthread_cond_destroy(&q->not_full);
    pthread_mutex_destroy(&q->lock);
    mem_free(q);
    return NULL;
}
