/* shutdown.c: how threads of the engine come into Python, and how an engine ends although a function of the program may not
 * return.
 *
 * An engine is taken apart by a thread of its own. Closing waits for that thread, up to a limit: then the engine,
 * the functions and the arrays that they use are left to the thread, which frees them when the last function has come back.
 * Nothing that a function may still touch goes before that. When the interpreter is gone, threads that would come into it are
 * held for good; the process ends with them. */
#include "shutdown.h"

#include "callback.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AFTER_STOP 1.0 /* seconds more for those whose processes were ended */
#define OF_ITSELF  1.0 /* seconds that an engine has in any case, when no function holds it up */

static _Atomic enum { RUNNING, EXITING, GONE } interpreter;

bool interpreter_exits(void)
{
    return atomic_load(&interpreter) != RUNNING;
}

static pthread_t last_thread; /* set before `interpreter` */

bool is_last_thread(void)
{
    return interpreter_exits() && pthread_equal(pthread_self(), last_thread);
}

void interpreter_set_exiting(void)
{
    last_thread = pthread_self();
    atomic_store(&interpreter, EXITING);
}

void interpreter_set_gone(void)
{
    atomic_store(&interpreter, GONE);
}

/* ---- The GIL ---- */

/* A thread that Python does not know would be made known, and forgotten, with every call: 10 µs and more. It stays known until
 * it ends. */
static pthread_key_t known_thread;
static pthread_once_t known_once = PTHREAD_ONCE_INIT;

static void forget_thread(void *state)
{
    if (interpreter_exits()) /* Python forgets them all */
        return;
    if (PyGILState_GetThisThreadState()) {
        PyEval_RestoreThread(state);
        PyGILState_Release(PyGILState_UNLOCKED); /* of the first Ensure: nothing is left of it */
        return;
    }
    /* The system has taken from the thread what Python knows it by. What goes with its state may need the GIL in its own way:
     * the thread is made known once more for that. */
    PyGILState_STATE gil = PyGILState_Ensure();
    PyThreadState_Clear(state);
    PyThreadState_Delete(state);
    PyGILState_Release(gil);
}

static void make_key(void)
{
    pthread_key_create(&known_thread, forget_thread);
}

PyGILState_STATE enter_python(void)
{
    while (atomic_load(&interpreter) == GONE)
        pause();
    if (!PyGILState_GetThisThreadState()) {
        pthread_once(&known_once, make_key);
        PyGILState_Ensure();
        pthread_setspecific(known_thread, PyEval_SaveThread());
    }
    return PyGILState_Ensure();
}

/* ---- Time ---- */

double monotonic_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Endings ---- */

struct shutdown {
    pst_pipeline *p;
    struct callback **callbacks;
    size_t callback_count;
    PyObject *keep; /* what the engine borrows */
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool done, abandoned; /* under lock */
};

struct shutdown *shutdown_create(pst_pipeline *p, struct callback **callbacks, size_t count, PyObject *keep)
{
    struct shutdown *e = calloc(1, sizeof(*e));
    pthread_condattr_t monotonic;
    if (!e)
        return NULL;
    e->p = p;
    e->callbacks = callbacks;
    e->callback_count = count;
    e->keep = Py_XNewRef(keep);
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&e->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return e;
}

/* With the GIL; the engine is gone. */
static void shutdown_destroy(struct shutdown *e)
{
    for (size_t i = 0; i < e->callback_count; i++)
        callback_destroy(e->callbacks[i]);
    free(e->callbacks);
    Py_XDECREF(e->keep);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->change);
    free(e);
}

/* Without the GIL, which functions and generators need to come to an end. */
static void *shutdown_run(void *argument)
{
    struct shutdown *e = argument;
    pst_pipeline_destroy(e->p);
    pthread_mutex_lock(&e->lock);
    e->done = true;
    bool abandoned = e->abandoned;
    pthread_cond_signal(&e->change);
    pthread_mutex_unlock(&e->lock);
    if (abandoned) { /* there is no other owner */
        PyGILState_STATE gil = enter_python();
        shutdown_destroy(e);
        PyGILState_Release(gil);
    }
    return NULL;
}

void shutdown_run_alone(struct shutdown *e)
{
    e->abandoned = true;
    shutdown_run(e);
}

/* Signals are for the program's own threads. */
static bool start_thread(struct shutdown *e)
{
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = pthread_create(&thread, NULL, shutdown_run, e) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

/* Waits in slices, for the sake of Ctrl-C; without the GIL. Returns whether the engine is gone. */
static bool shutdown_wait(struct shutdown *e, double until, bool *ret_interrupted)
{
    bool done = false;
    for (bool late = false; !done && !late && !*ret_interrupted;) {
        double now = monotonic_seconds(), end = now + SLICE < until ? now + SLICE : until;
        struct timespec t = {.tv_sec = (time_t)end, .tv_nsec = (long)((end - (double)(time_t)end) * 1e9)};
        PyThreadState *gil = PyEval_SaveThread();
        pthread_mutex_lock(&e->lock);
        int timed_out = 0;
        while (!e->done && !timed_out)
            timed_out = pthread_cond_timedwait(&e->change, &e->lock, &t);
        done = e->done;
        pthread_mutex_unlock(&e->lock);
        PyEval_RestoreThread(gil);
        late = monotonic_seconds() >= until;
        *ret_interrupted = *ret_interrupted || (!done && PyErr_CheckSignals() < 0);
    }
    return done;
}

/* Functions in other processes can be ended from outside: their objects have a method for that. */
static bool stop_callbacks(struct shutdown *e)
{
    bool any = false;
    for (size_t i = 0; i < e->callback_count; i++) {
        struct callback *c = e->callbacks[i];
        if (!c->object || strcmp(c->kind, "process") != 0)
            continue;
        PyObject *result = PyObject_CallMethod(c->object, "stop", NULL);
        if (!result)
            PyErr_WriteUnraisable(c->object);
        Py_XDECREF(result);
        any = true;
    }
    return any;
}

static bool nobody_inside(const struct shutdown *e)
{
    for (size_t i = 0; i < e->callback_count; i++)
        if (atomic_load(&e->callbacks[i]->inside))
            return false;
    return true;
}

void callbacks_name_inside(struct callback *const *callbacks, size_t count, char *names, size_t size)
{
    names[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (atomic_load(&callbacks[i]->inside))
            snprintf(names + strlen(names), size - strlen(names), "%s%s", names[0] ? ", " : "", callbacks[i]->name);
    if (!names[0])
        snprintf(names, size, "an operation");
}

bool shutdown_finish(struct shutdown *e, double until, bool *ret_interrupted, char *late, size_t late_size)
{
    *ret_interrupted = false;
    late[0] = '\0';
    pst_pipeline_cancel(e->p);
    if (!start_thread(e)) { /* the system has no thread left: as it was done without one */
        PyThreadState *gil = PyEval_SaveThread();
        shutdown_run(e);
        PyEval_RestoreThread(gil);
    }
    bool done = shutdown_wait(e, until, ret_interrupted);
    if (!done && !*ret_interrupted && nobody_inside(e))
        done = shutdown_wait(e, monotonic_seconds() + OF_ITSELF, ret_interrupted);
    if (!done && !*ret_interrupted && stop_callbacks(e))
        done = shutdown_wait(e, monotonic_seconds() + AFTER_STOP, ret_interrupted);
    if (!done) {
        callbacks_name_inside(e->callbacks, e->callback_count, late, late_size);
        pthread_mutex_lock(&e->lock);
        done = e->done;
        e->abandoned = !done;
        pthread_mutex_unlock(&e->lock);
    }
    if (done)
        shutdown_destroy(e);
    return done;
}

void shutdown_finish_idle(struct shutdown *e)
{
    PyThreadState *gil = PyEval_SaveThread();
    pst_pipeline_destroy(e->p);
    PyEval_RestoreThread(gil);
    shutdown_destroy(e);
}
