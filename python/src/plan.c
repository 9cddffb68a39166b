/* plan.c: planning, which may list, read and index files for minutes: in a thread of its own, so that waiting for it can be
 * interrupted, and taken up again. And what the plan says. */
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct job {
    pst_pipeline *p;
    struct shutdown *shutdown; /* set when it is abandoned: what is left to the thread */
    pst_status st;
    pst_error error;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool done; /* under lock, and so is `shutdown` */
};

static void job_destroy(struct job *j)
{
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->change);
    free(j);
}

static void *job_run(void *argument)
{
    struct job *j = argument;
    pst_status st = pst_pipeline_plan(j->p, &j->error);
    pthread_mutex_lock(&j->lock);
    j->st = st;
    j->done = true;
    struct shutdown *shutdown = j->shutdown;
    pthread_cond_signal(&j->change);
    pthread_mutex_unlock(&j->lock);
    if (shutdown) { /* there is no other owner */
        job_destroy(j);
        shutdown_run_alone(shutdown);
    }
    return NULL;
}

static bool job_wait(struct job *j)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(SLICE * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&j->lock);
    int st = 0;
    while (!j->done && st == 0)
        st = pthread_cond_timedwait(&j->change, &j->lock, &until);
    bool done = j->done;
    pthread_mutex_unlock(&j->lock);
    return done;
}

static struct job *job_start(pst_pipeline *p)
{
    struct job *j = calloc(1, sizeof(*j));
    pthread_t thread;
    pthread_condattr_t monotonic;
    if (!j)
        return NULL;
    j->p = p;
    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&j->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&thread, NULL, job_run, j) != 0) {
        job_destroy(j);
        return NULL;
    }
    pthread_detach(thread);
    return j;
}

bool pipeline_leave_planning(Pipeline *self)
{
    struct job *j = self->job;
    if (!j)
        return false;
    self->job = NULL;
    pthread_mutex_lock(&j->lock);
    bool done = j->done;
    if (!done)
        j->shutdown = shutdown_create(self->p, self->callbacks, self->callback_count, self->keep);
    bool lost = !done && !j->shutdown;
    pthread_mutex_unlock(&j->lock);
    if (done) {
        job_destroy(j);
        return false;
    }
    if (lost)
        Py_XINCREF(self->keep); /* no memory to say what is left: the thread has it for good */
    self->p = NULL;
    self->callbacks = NULL;
    self->callback_count = 0;
    return true;
}

static bool take_names(Pipeline *self)
{
    const pst_spec *spec = pst_pipeline_spec(self->p);
    PyObject *names = PyTuple_New((Py_ssize_t)spec->count);
    for (size_t i = 0; names && i < spec->count; i++) {
        PyObject *name = PyUnicode_InternFromString(spec->field[i].name);
        if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(names);
    }
    self->names = names;
    self->batched = pst_pipeline_batched(self->p);
    return names != NULL;
}

bool pipeline_planned(Pipeline *self)
{
    if (self->planned)
        return true;
    if (!self->job)
        self->job = job_start(self->p);
    struct job *j = self->job;
    if (!j)
        return PyErr_NoMemory(), false;
    bool done = false;
    while (!done) {
        PyThreadState *gil = PyEval_SaveThread();
        done = job_wait(j);
        PyEval_RestoreThread(gil);
        if (PyErr_CheckSignals() < 0)
            return false;
        if (self->closing && !done) {
            pipeline_leave_planning(self);
            return raise_status(PST_ECANCELLED, "the pipeline was closed while it was planned"), false;
        }
    }
    self->job = NULL;
    pst_status st = j->st;
    pst_error e = j->error;
    job_destroy(j);
    if (st < 0)
        return pipeline_raise(self, &e), false;
    self->planned = take_names(self);
    if (self->planned)
        pipeline_mark(self);
    return self->planned;
}

void pipeline_mark(Pipeline *self)
{
    if (pst_pipeline_tell(self->p, &self->cursor, NULL) == PST_OK) /* it fails only where it has to plan */
        (void)pst_cursor_get(&self->cursor, &self->where, NULL);
}

PyObject *pipeline_plan(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    (void)unused;
    if (!pipeline_enter(self))
        return NULL;
    bool planned = pipeline_planned(self);
    pipeline_leave(self);
    return planned ? Py_NewRef(Py_None) : NULL;
}

PyObject *pipeline_describe(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    int json = 0;
    char *text = NULL;
    pst_error e;
    if (!PyArg_ParseTuple(args, "|p:describe", &json) || !pipeline_enter(self))
        return NULL;
    pst_status st = pipeline_planned(self) ? pst_pipeline_describe(self->p, json, &text, &e) : PST_END;
    pipeline_leave(self);
    if (st != PST_OK)
        return st < 0 ? raise_error(&e) : NULL;
    PyObject *result = PyUnicode_FromString(text);
    pst_free(text);
    return result;
}

/* The fields of an element, from those of a batch. */
static PyObject *element_spec(const pst_spec *batch)
{
    pst_spec spec = *batch;
    pst_field *fields = PyMem_Calloc(spec.count ? spec.count : 1, sizeof(*fields));
    if (!fields)
        return PyErr_NoMemory();
    for (size_t i = 0; i < spec.count; i++) {
        fields[i] = batch->field[i];
        fields[i].rank--;
        memmove(fields[i].shape, fields[i].shape + 1, fields[i].rank * sizeof(*fields[i].shape));
    }
    spec.field = fields;
    PyObject *result = spec_object(&spec);
    PyMem_Free(fields);
    return result;
}

PyObject *pipeline_spec(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    PyObject *spec = NULL;
    (void)unused;
    if (!pipeline_enter(self))
        return NULL;
    if (pipeline_planned(self))
        spec = self->batched ? spec_object(pst_pipeline_spec(self->p)) : element_spec(pst_pipeline_spec(self->p));
    pipeline_leave(self);
    return spec;
}

PyObject *pipeline_batched(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    (void)unused;
    if (!pipeline_enter(self))
        return NULL;
    bool planned = pipeline_planned(self);
    pipeline_leave(self);
    return planned ? PyBool_FromLong(self->batched) : NULL;
}

/* A list of texts, or None where the source does not know them. */
PyObject *pipeline_class_names(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    const char *const *names = NULL;
    size_t count = 0;
    pst_error e;
    (void)unused;
    if (!pipeline_enter(self))
        return NULL;
    PyObject *list = NULL;
    pst_status st = pipeline_planned(self) ? pst_pipeline_class_names(self->p, &names, &count, &e) : PST_END;
    if (st == PST_OK)
        list = count ? PyList_New(0) : Py_NewRef(Py_None);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *name = PyUnicode_DecodeFSDefault(names[i]);
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    if (st < 0)
        pipeline_raise(self, &e);
    pipeline_leave(self);
    return list;
}

PyObject *pipeline_length(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    uint64_t length = PST_NOWHERE;
    (void)unused;
    if (!pipeline_enter(self))
        return NULL;
    bool planned = pipeline_planned(self);
    if (planned)
        length = pst_pipeline_length(self->p);
    pipeline_leave(self);
    if (!planned)
        return NULL;
    return length == PST_NOWHERE ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(length);
}
