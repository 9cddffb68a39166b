/* pipeline.h: _core.Pipeline from the inside; its methods are in pipeline.c, build.c, plan.c and run.c. */
#ifndef PYTHON_PIPELINE_H
#define PYTHON_PIPELINE_H

#include "core.h"
#include "shutdown.h"

#include <pthread.h>

enum position {
    AT_EPOCH, /* before an epoch: no batch was taken, or all of the last epoch */
    MIDWAY,   /* an iterator took batches and was left */
    SOUGHT    /* seek put it here: the next iterator goes on from here */
};

typedef struct Pipeline {
    PyObject base;
    pst_pipeline *p; /* NULL: closed. Changed with the GIL and the lock */
    pthread_mutex_t lock;
    unsigned generation;
    bool planned, started;
    bool batched; /* once planned: its chain has a batch operation */
    struct job *job; /* plans; the thread that waited for it was interrupted, and the next one resumes waiting */
    bool halted;     /* the workers were stopped for a seek that did not come about */
    bool closing;    /* threads that wait inside return */
    unsigned reading; /* threads that compute single batches, without the lock; under the GIL */
    bool left;       /* closed while a call was running that did not return: the engine goes with the object */
    enum position position;
    pst_cursor cursor;  /* where it stands, once planned; a copy that needs no lock, under the GIL */
    pst_position where; /* its numbers */
    PyObject *active;   /* the Iterator at work; borrowed, it says when it goes */
    PyObject *names;    /* of the fields of a batch */
    PyObject *failures; /* what Python functions raised: number → exception */
    PyObject *keep;     /* what the engine borrows: arrays, functions */
    PyObject *lineage;  /* its identity, and of those whose functions made it */
    struct callback **callbacks;
    size_t callback_count;
    struct Pipeline *next, *previous; /* of all that live, under the GIL */
} Pipeline;

typedef struct {
    PyObject base;
    Pipeline *pipeline;
    bool done;
} Iterator;

extern PyTypeObject *iterator_type;

/* False with RuntimeError: the thread is inside one of its functions, and would wait for itself. */
bool pipeline_outside(Pipeline *self);
/* Becomes the consumer, waiting for its turn. On success the pipeline is usable until pipeline_leave. */
bool pipeline_enter(Pipeline *self);
/* The same, at most until the time of monotonic_seconds(): false without an exception then. */
bool pipeline_enter_until(Pipeline *self, double until);
void pipeline_leave(Pipeline *self);
bool pipeline_usable(const Pipeline *self); /* raises */
/* Raises what the engine reported; if a Python function raised it, that is the cause. Returns NULL. */
PyObject *pipeline_raise(Pipeline *self, const pst_error *error);
/* Leaves; then raises, or returns None. */
PyObject *pipeline_finish(Pipeline *self, pst_status st, const pst_error *error);
/* Plans, if that was not done; the caller has entered. */
bool pipeline_planned(Pipeline *self);
/* If it is still being planned, leaves the engine and all that it borrows to the thread that does it: it is closed. */
bool pipeline_leave_planning(Pipeline *self);
/* Notes where it stands; the caller has entered, and it is planned. */
void pipeline_mark(Pipeline *self);

/* With keyword arguments only: the options. */
PyObject *pipeline_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
bool pipeline_options(PyObject *kwargs, pst_pipeline_options *ret, char **ret_cache_dir);

PyObject *pipeline_parse(PyObject *type, PyObject *args, PyObject *kwargs);
PyObject *pipeline_add(PyObject *self, PyObject *args);
PyObject *pipeline_add_arrays(PyObject *self, PyObject *args);
PyObject *pipeline_add_pipelines(PyObject *self, PyObject *args);
PyObject *pipeline_add_files(PyObject *self, PyObject *args);
PyObject *pipeline_add_map(PyObject *self, PyObject *args);
PyObject *pipeline_add_generator(PyObject *self, PyObject *args);
PyObject *pipeline_add_view(PyObject *self, PyObject *args);
PyObject *pipeline_plan(PyObject *self, PyObject *args);
PyObject *pipeline_describe(PyObject *self, PyObject *args);
PyObject *pipeline_spec(PyObject *self, PyObject *args);
PyObject *pipeline_class_names(PyObject *self, PyObject *args);
PyObject *pipeline_batched(PyObject *self, PyObject *args);
PyObject *pipeline_length(PyObject *self, PyObject *args);
PyObject *pipeline_iterate(PyObject *self, PyObject *args);
PyObject *pipeline_at(PyObject *self, PyObject *args);
PyObject *pipeline_tell(PyObject *self, PyObject *args);
PyObject *pipeline_seek(PyObject *self, PyObject *args);
PyObject *pipeline_stats(PyObject *self, PyObject *args);
PyObject *pipeline_locate(PyObject *self, PyObject *batch);
PyObject *pipeline_cancel(PyObject *self, PyObject *args);
PyObject *pipeline_close(PyObject *self, PyObject *args);

int iterator_traverse(PyObject *self, visitproc visit, void *arg);
int iterator_clear(PyObject *self);
void iterator_dealloc(PyObject *self);
PyObject *iterator_next(PyObject *self);

#endif
