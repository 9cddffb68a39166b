/* watch.c: see watch.h. */
#include "cli/watch.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include <string.h>
#include <time.h>

#define EVERY_MS    100
#define PATIENCE_MS 1500 /* time after an interruption before a note explains the delay */

/* Waits for the next call of `look`; false: stop. */
static bool wait(struct watch *w)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += EVERY_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    if (!w->stop)
        pthread_cond_timedwait(&w->changed, &w->lock, &until);
    stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return !stop;
}

static void cancel(struct watch *w)
{
    pthread_mutex_lock(&w->lock);
    pst_pipeline_cancel(w->pipeline);
    if (w->other)
        pst_pipeline_cancel(w->other);
    pthread_mutex_unlock(&w->lock);
}

static void *run(void *user)
{
    struct watch *w = user;
    int interrupted_ms = 0;

    while (wait(w)) {
        if (interrupt_requested()) {
            if (interrupted_ms == 0)
                cancel(w);
            interrupted_ms += EVERY_MS;
            if (interrupted_ms == PATIENCE_MS)
                say_note("finishing the current work; press Ctrl-C again to stop at once");
        } else if (w->look) {
            w->look(w->user);
        }
    }
    return NULL;
}

void watch_start(struct watch *w, pst_pipeline *pipeline, watch_fn look, void *user)
{
    pthread_condattr_t attributes;

    memset(w, 0, sizeof(*w));
    w->pipeline = pipeline;
    w->look = look;
    w->user = user;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    w->running = pthread_create(&w->thread, NULL, run, w) == 0;
}

void watch_also(struct watch *w, pst_pipeline *pipeline)
{
    pthread_mutex_lock(&w->lock);
    w->other = pipeline;
    pthread_mutex_unlock(&w->lock);
}

void watch_stop(struct watch *w)
{
    if (w->running) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_signal(&w->changed);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}
