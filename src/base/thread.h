/* thread.h: threads that run one function over numbered workers. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <penstock/base.h>
#include <pthread.h>

struct thread_group; /* a set of workers started together */

/* Starts `count` threads that call fn(user, worker). On failure none is left running. */
pst_status thread_group_start(struct thread_group **ret, unsigned count, const char *name,
                              void (*fn)(void *user, unsigned worker), void *user, pst_error *reterr);
/* Waits up to `milliseconds` (UINT32_MAX: no limit) for all workers; true when all have returned. */
bool thread_group_wait(struct thread_group *g, uint32_t milliseconds);
/* Joins and frees. NULL ok; returns NULL. */
struct thread_group *thread_group_join(struct thread_group *g);

/* Asks the scheduler for long turns of the calling thread: it keeps its share of the processor, but threads that wait for each other at short
 * intervals, such as those of a training step, get theirs sooner. Does nothing where the system refuses. */
void thread_take_long_turns(void);

#endif
