/* pipeline.c: _core.Pipeline and its Iterator: the engine as Python sees it.
 *
 * One thread at a time is the engine's consumer: a lock, waited for without the GIL. Every wait is cut into slices in which
 * signals are looked for, so that Ctrl-C works at any moment. In a fork the workers of the parent do not exist: whatever is
 * asked of the parent's pipeline there is an error that says so. At the interpreter's exit all pipelines are stopped while
 * Python is still whole. */
#include "pipeline.h"

#include <math.h>
#include <unistd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

PyTypeObject *pipeline_type, *iterator_type;

static Pipeline *alive; /* the head of the list; under the GIL */

/* ---- Whose turn it is ---- */

bool pipeline_usable(const Pipeline *self)
{
    if (self->generation != fork_generation())
        raise_status(PST_EINVAL,
                     "the pipeline belongs to the process that this one was forked from, and its workers are there; "
                     "iterate over the dataset anew in this process");
    else if (interpreter_exits())
        raise_status(PST_ECANCELLED, "the interpreter exits, and its pipelines are closed; take batches before that");
    else if (!self->p || self->left)
        raise_status(PST_ECANCELLED, "the pipeline is closed");
    else
        return true;
    return false;
}

/* Waits a slice for the lock, without the GIL. */
static bool lock_soon(Pipeline *self)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += (long)(SLICE * 1e9);
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    PyThreadState *gil = PyEval_SaveThread();
    int busy = pthread_mutex_timedlock(&self->lock, &limit);
    PyEval_RestoreThread(gil);
    return !busy;
}

bool pipeline_outside(Pipeline *self)
{
    if (!lineage_is_inside(self->lineage))
        return true;
    return PyErr_Format(PyExc_RuntimeError,
                        "a function or generator called a method of the same dataset, which would wait for the function; call "
                        "the method before iterating"),
           false;
}

bool pipeline_enter(Pipeline *self)
{
    return pipeline_outside(self) && pipeline_enter_until(self, INFINITY);
}

bool pipeline_enter_until(Pipeline *self, double until)
{
    if (!pipeline_usable(self))
        return false;
    bool mine = pthread_mutex_trylock(&self->lock) == 0;
    while (!mine) {
        mine = lock_soon(self);
        if (PyErr_CheckSignals() < 0) {
            if (mine)
                pthread_mutex_unlock(&self->lock);
            return false;
        }
        if (!mine && monotonic_seconds() >= until)
            return false;
    }
    if (pipeline_usable(self))
        return true;
    pthread_mutex_unlock(&self->lock);
    return false;
}

void pipeline_leave(Pipeline *self)
{
    pthread_mutex_unlock(&self->lock);
}

PyObject *pipeline_raise(Pipeline *self, const pst_error *error)
{
    PyObject *number = error->sys_errno ? PyLong_FromLong(error->sys_errno) : NULL;
    PyObject *cause = number ? PyDict_GetItemWithError(self->failures, number) : NULL;
    bool interrupted = cause && error->status == PST_ECANCELLED && PyErr_GivenExceptionMatches(cause, PyExc_KeyboardInterrupt);
    Py_XINCREF(cause);
    if (interrupted) {
        PyErr_SetObject(PyExc_KeyboardInterrupt, cause);
        Py_CLEAR(cause);
    } else if (cause && error->status == PST_EINVAL) {
        pst_error plain = *error;
        plain.sys_errno = 0;
        raise_error(&plain);
    } else {
        Py_CLEAR(cause);
        raise_error(error);
    }
    PyDict_Clear(self->failures);
    if (cause) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        if (PyDict_SetItem(self->failures, number, cause) < 0) /* the engine repeats its last error */
            PyErr_Clear();
        PyException_SetCause(value, cause);
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(number);
    return NULL;
}

PyObject *pipeline_finish(Pipeline *self, pst_status st, const pst_error *e)
{
    pipeline_leave(self);
    if (st < 0)
        return pipeline_raise(self, e);
    Py_RETURN_NONE;
}

/* ---- Making and closing ---- */

static void link_in(Pipeline *self)
{
    self->next = alive;
    if (alive)
        alive->previous = self;
    alive = self;
}

static void link_out(Pipeline *self)
{
    if (self->previous)
        self->previous->next = self->next;
    else if (alive == self)
        alive = self->next;
    if (self->next)
        self->next->previous = self->previous;
    self->next = self->previous = NULL;
}

/* Waits for threads that compute single batches, which a cancelled pipeline gives up. False: they have not returned in time. */
static bool await_readers(const Pipeline *self, double until)
{
    while (self->reading > 0 && monotonic_seconds() < until) {
        PyThreadState *gil = PyEval_SaveThread();
        usleep(500);
        PyEval_RestoreThread(gil);
    }
    return self->reading == 0;
}

/* Ends the engine's part, at most until then. Called with the lock, or when there is no other thread. False: an exception is set. */
static bool close_engine(Pipeline *self, double until, char *late, size_t late_size)
{
    pst_pipeline *p = self->p;
    bool interrupted = false;
    late[0] = '\0';
    if (!p || self->generation != fork_generation()) { /* in a fork there is nothing to join */
        self->p = NULL;
        return true;
    }
    if (pipeline_leave_planning(self))
        return true;
    struct shutdown *e = shutdown_create(p, self->callbacks, self->callback_count, self->keep);
    if (!e)
        return PyErr_NoMemory(), false;
    self->p = NULL;
    self->callbacks = NULL;
    self->callback_count = 0;
    if (self->started)
        shutdown_finish(e, until, &interrupted, late, late_size);
    else
        shutdown_finish_idle(e);
    return !interrupted;
}

static bool warn_of_late(const char *late, double seconds)
{
    PyObject *names = PyUnicode_DecodeUTF8(late, (Py_ssize_t)strlen(late), "replace");
    PyObject *after = PyFloat_FromDouble(seconds);
    int st = names && after
                 ? PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                                    "penstock: %U has not returned %S s after the pipeline was closed; its thread, and "
                                    "the memory that it uses, stay until it does",
                                    names, after)
                 : -1;
    Py_XDECREF(names);
    Py_XDECREF(after);
    return st == 0;
}

/* The thread with the lock does not return: a generator that was given up does not end. False: an exception is set. */
static bool warn_of_left(Pipeline *self, double seconds)
{
    char late[256];
    self->left = true;
    callbacks_name_inside(self->callbacks, self->callback_count, late, sizeof(late));
    return warn_of_late(late, seconds);
}

/* For places where an exception could not be raised. */
static void close_quietly(Pipeline *self, double until)
{
    char late[256];
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool fine = close_engine(self, until, late, sizeof(late));
    if (fine && late[0])
        fine = warn_of_late(late, CLOSE_SECONDS);
    if (!fine && !interpreter_exits() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_Clear();
        PyErr_SetInterrupt(); /* for the program, which goes on */
    }
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    PyErr_Restore(type, value, traceback);
}

void pipelines_shutdown(void)
{
    double until = monotonic_seconds() + CLOSE_SECONDS; /* for all of them together */
    interpreter_set_exiting();
    for (Pipeline *self = alive; self; self = self->next) {
        self->closing = true;
        if (self->p && self->generation == fork_generation())
            pst_pipeline_cancel(self->p);
    }
    while (alive) {
        Pipeline *self = alive;
        bool ours = self->generation == fork_generation();
        Py_INCREF((PyObject *)self);
        /* A thread that is still inside left the engine when it was cancelled, and only needs the GIL; or a generator that it
         * gave up does not end. */
        bool mine = !ours || lock_soon(self);
        while (!mine && monotonic_seconds() < until) {
            mine = lock_soon(self);
            if (PyErr_CheckSignals() < 0) { /* Ctrl-C ends all waits */
                PyErr_WriteUnraisable(NULL);
                until = monotonic_seconds();
            }
        }
        bool alone = mine && (!ours || await_readers(self, until));
        if (alone)
            close_quietly(self, until);
        else if (!warn_of_left(self, CLOSE_SECONDS))
            PyErr_WriteUnraisable(NULL);
        if (mine && ours)
            pipeline_leave(self);
        link_out(self);
        Py_DECREF((PyObject *)self);
    }
    interpreter_set_gone();
}

/* The first options are numbers: their values in this order. */
enum { SEED, WORKERS, PREFETCH, RAM, RANK, WORLD, HOSTS, NUMBERS };
#define MOST_WORKERS 256 /* as many as the engine starts; more is a mistake */

bool number_option(const char *name, PyObject *value, uint64_t most, uint64_t *ret)
{
    PyObject *whole = PyNumber_Index(value);
    if (!whole)
        return PyErr_Format(PyExc_TypeError, "%s=%R; expected a whole number", name, value), false;
    *ret = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    if (PyErr_Occurred())
        PyErr_Clear(); /* negative, or beyond 64 bits */
    else if (*ret <= most)
        return true;
    return PyErr_Format(PyExc_ValueError, "%s=%S; expected 0 to %llu", name, value, (unsigned long long)most), false;
}

bool pipeline_options(PyObject *kwargs, pst_pipeline_options *o, char **ret_cache_dir)
{
    static char *names[] = {"seed", "workers", "prefetch",  "ram",  "rank",    "world", "hosts", "uneven",
                            "bad",  "verify",  "cache_dir", "fuse", "monitor", NULL};
    PyObject *given[NUMBERS] = {NULL};
    static const uint64_t most[NUMBERS] = {UINT64_MAX, MOST_WORKERS, UINT32_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    uint64_t number[NUMBERS] = {0};
    const char *uneven = "pad", *bad = "error", *cache_dir = NULL, *monitor = NULL;
    int verify = 1, fuse = 1;
    PyObject *nothing = PyTuple_New(0);
    pst_error e;
    bool fine = nothing && PyArg_ParseTupleAndKeywords(nothing, kwargs, "|$OOOOOOOsspzpz:Pipeline", names, &given[SEED],
                                                       &given[WORKERS], &given[PREFETCH], &given[RAM], &given[RANK],
                                                       &given[WORLD], &given[HOSTS], &uneven, &bad, &verify, &cache_dir, &fuse, &monitor);
    Py_XDECREF(nothing);
    for (size_t i = 0; i < NUMBERS && fine; i++)
        fine = !given[i] || number_option(names[i], given[i], most[i], &number[i]);
    if (!fine)
        return false;
    o->size = sizeof(*o);
    o->seed = number[SEED];
    o->workers = (unsigned)number[WORKERS];
    o->prefetch = (unsigned)number[PREFETCH];
    o->ram = number[RAM];
    o->rank = (unsigned)number[RANK];
    o->world = (unsigned)number[WORLD];
    o->hosts = (unsigned)number[HOSTS];
    o->no_verify = !verify;
    o->no_fuse = !fuse;
    o->uneven = PST_UNEVEN_PAD;
    if (strcmp(uneven, "drop") == 0)
        o->uneven = PST_UNEVEN_DROP;
    else if (strcmp(uneven, "allow") == 0)
        o->uneven = PST_UNEVEN_ALLOW;
    else if (strcmp(uneven, "pad") != 0)
        return PyErr_Format(PyExc_ValueError, "uneven=\"%s\"; expected pad, drop or allow", uneven), false;
    pst_policy policy;
    if (pst_policy_parse(&policy, bad, &e) < 0)
        return raise_error(&e), false;
    o->bad = bad;
    *ret_cache_dir = cache_dir ? strdup(cache_dir) : NULL; /* the argument goes with its Python string */
    o->cache_dir = *ret_cache_dir;
    o->monitor = monitor; /* copied when the pipeline is created, while the arguments are alive */
    return !cache_dir || *ret_cache_dir || PyErr_NoMemory();
}

PyObject *pipeline_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    pst_pipeline_options options = {0};
    char *cache_dir = NULL;
    pst_error e;
    (void)args;
    if (interpreter_exits())
        return raise_status(PST_ECANCELLED, "the interpreter is about to exit");
    if (!pipeline_options(kwargs, &options, &cache_dir))
        return NULL;
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Pipeline *self = (Pipeline *)make(type, 0); /* zeroed */
    if (self) {
        pthread_mutex_init(&self->lock, NULL);
        self->generation = fork_generation();
        self->failures = PyDict_New();
        self->keep = PyList_New(0);
        self->lineage = lineage_create();
        link_in(self);
    }
    pst_status st =
        self && self->failures && self->keep && self->lineage ? pst_pipeline_create(&self->p, &options, &e) : PST_OK;
    free(cache_dir);
    if (st < 0)
        raise_error(&e);
    if (self && !self->p) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

/* A function may refer to the dataset that has the pipeline: such a circle is the collector's to find. */
static int pipeline_traverse(PyObject *object, visitproc visit, void *arg)
{
    Pipeline *self = (Pipeline *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->failures);
    Py_VISIT(self->keep);
    for (size_t i = 0; i < self->callback_count; i++)
        callback_traverse(self->callbacks[i], visit, arg);
    return 0;
}

static int pipeline_clear(PyObject *object)
{
    close_quietly((Pipeline *)object, monotonic_seconds() + CLOSE_SECONDS);
    return 0;
}

static void pipeline_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Pipeline *self = (Pipeline *)object;
    PyObject_GC_UnTrack(object);
    link_out(self);
    close_quietly(self, monotonic_seconds() + CLOSE_SECONDS);
    if (self->generation == fork_generation())
        pthread_mutex_destroy(&self->lock);
    Py_XDECREF(self->names);
    Py_XDECREF(self->failures);
    Py_XDECREF(self->keep);
    Py_XDECREF(self->lineage);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

PyObject *pipeline_close(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    double seconds = CLOSE_SECONDS;
    char late[256];
    if (!PyArg_ParseTuple(args, "|d:close", &seconds))
        return NULL;
    if (!(seconds >= 0))
        return PyErr_Format(PyExc_ValueError, "expected 0 or more seconds");
    if (!self->p || self->generation != fork_generation() || interpreter_exits())
        Py_RETURN_NONE;
    self->closing = true;
    pst_pipeline_cancel(self->p); /* threads that wait inside return */
    self->left = false;
    double until = monotonic_seconds() + seconds;
    if (!pipeline_enter_until(self, until)) {
        if (!PyErr_Occurred())
            return warn_of_left(self, seconds) ? Py_NewRef(Py_None) : NULL;
        if (self->p)
            return NULL;
        PyErr_Clear(); /* another thread closed it */
        Py_RETURN_NONE;
    }
    if (!await_readers(self, until)) {
        pipeline_leave(self);
        return warn_of_left(self, seconds) ? Py_NewRef(Py_None) : NULL;
    }
    bool fine = close_engine(self, until, late, sizeof(late));
    pipeline_leave(self);
    if (fine && late[0])
        fine = warn_of_late(late, seconds);
    return fine ? Py_NewRef(Py_None) : NULL;
}

/* ---- Types ---- */

static PyMethodDef pipeline_methods[] = {
    {"parse", (PyCFunction)(void (*)(void))pipeline_parse, METH_VARARGS | METH_KEYWORDS | METH_CLASS, NULL},
    {"add", pipeline_add, METH_VARARGS, NULL},
    {"add_arrays", pipeline_add_arrays, METH_VARARGS, NULL},
    {"add_pipelines", pipeline_add_pipelines, METH_VARARGS, NULL},
    {"add_files", pipeline_add_files, METH_VARARGS, NULL},
    {"add_map", pipeline_add_map, METH_O, NULL},
    {"add_generator", pipeline_add_generator, METH_O, NULL},
    {"add_view", pipeline_add_view, METH_O, NULL},
    {"plan", pipeline_plan, METH_NOARGS, NULL},
    {"describe", pipeline_describe, METH_VARARGS, NULL},
    {"spec", pipeline_spec, METH_NOARGS, NULL},
    {"class_names", pipeline_class_names, METH_NOARGS, NULL},
    {"batched", pipeline_batched, METH_NOARGS, NULL},
    {"length", pipeline_length, METH_NOARGS, NULL},
    {"iterate", pipeline_iterate, METH_NOARGS, NULL},
    {"at", pipeline_at, METH_VARARGS, "Batch k of an epoch: (epoch, k)."},
    {"tell", pipeline_tell, METH_NOARGS, NULL},
    {"seek", pipeline_seek, METH_VARARGS, NULL},
    {"stats", pipeline_stats, METH_NOARGS, NULL},
    {"locate", pipeline_locate, METH_O, "[(path, record, offset), …] of the elements of a batch"},
    {"cancel", pipeline_cancel, METH_NOARGS, NULL},
    {"close", pipeline_close, METH_VARARGS, "Waits up to `timeout` seconds for running functions."},
    {0},
};

static PyType_Slot pipeline_slots[] = {
    {Py_tp_new, pipeline_new},         {Py_tp_traverse, pipeline_traverse}, {Py_tp_clear, pipeline_clear},
    {Py_tp_dealloc, pipeline_dealloc}, {Py_tp_methods, pipeline_methods},   {0},
};
static PyType_Spec pipeline_spec_of_type = {.name = "penstock._core.Pipeline",
                                            .basicsize = sizeof(Pipeline),
                                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                            .slots = pipeline_slots};

static PyType_Slot iterator_slots[] = {
    {Py_tp_traverse, iterator_traverse}, {Py_tp_clear, iterator_clear},   {Py_tp_dealloc, iterator_dealloc},
    {Py_tp_iter, PyObject_SelfIter},     {Py_tp_iternext, iterator_next}, {0},
};
static PyType_Spec iterator_spec = {.name = "penstock._core.Iterator",
                                    .basicsize = sizeof(Iterator),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
                                    .slots = iterator_slots};

bool pipeline_types_create(PyObject *module)
{
    pipeline_type = type_add(module, &pipeline_spec_of_type);
    iterator_type = type_add(module, &iterator_spec);
    return pipeline_type && iterator_type;
}
