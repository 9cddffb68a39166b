/* watch.h: an eye on a pipeline from a second thread: hands on an interruption while the first one waits for a batch, and
 * calls back at regular times. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <penstock/pipeline.h>
#include <pthread.h>

typedef void (*watch_fn)(void *user);

struct watch {
    pst_pipeline *pipeline;
    pst_pipeline *other; /* under lock; NULL: none */
    watch_fn look; /* called on the watching thread; NULL: none */
    void *user;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop; /* under lock */
};

/* If the thread cannot be created, interruptions are noticed between batches. */
void watch_start(struct watch *w, pst_pipeline *pipeline, watch_fn look, void *user);
/* A second pipeline that an interruption cancels; NULL: none. */
void watch_also(struct watch *w, pst_pipeline *pipeline);
void watch_stop(struct watch *w); /* joins */

#endif
