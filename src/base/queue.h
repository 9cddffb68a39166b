/* queue.h: a bounded queue of pointers between threads. Batches and large pieces go through it, never samples. */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <penstock/base.h>

struct queue;

pst_status queue_create(struct queue **ret, size_t capacity, pst_error *reterr);
/* Takes `item` on PST_OK. PST_ECANCELLED (closed): the caller still owns it. Blocks while full. */
pst_status queue_push(struct queue *q, void *item);
/* PST_OK with an item, or PST_END once closed and empty. Blocks while empty. */
pst_status queue_pop(struct queue *q, void **ret);
/* No more pushes; pops drain what is left. Wakes everyone. May be called twice. */
void queue_close(struct queue *q);
size_t queue_length(struct queue *q);
/* Items still inside are handed to `drop` (NULL ok). Returns NULL. */
struct queue *queue_destroy(struct queue *q, void (*drop)(void *item));

#endif
