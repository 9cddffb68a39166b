/* run.c: batches, iterators, resuming, statistics. */
#include "pipeline.h"

#include <string.h>
#include <unistd.h>

/* ---- Batches ---- */

/* Stops the workers, who may need the GIL for that, or be in a function that does not return. False: an exception is set. */
static bool halt(Pipeline *self)
{
    self->halted = true;
    for (pst_status st = PST_TIMEOUT; st == PST_TIMEOUT;) {
        PyThreadState *gil = PyEval_SaveThread();
        st = pst_pipeline_halt(self->p, SLICE);
        PyEval_RestoreThread(gil);
        if (st == PST_TIMEOUT && PyErr_CheckSignals() < 0)
            return false;
        if (st == PST_TIMEOUT && self->closing)
            return raise_status(PST_ECANCELLED, "the pipeline was closed"), false;
    }
    return true;
}

/* With the lock. A cursor that is refused leaves everything where it is. PST_END: an exception is set. */
static pst_status seek(Pipeline *self, const pst_cursor *c, pst_error *e)
{
    pst_cursor here;
    pst_status st = pst_pipeline_tell(self->p, &here, e);
    if (st < 0)
        return st;
    if (!halt(self))
        return PST_END;
    PyThreadState *gil = PyEval_SaveThread(); /* a generator that is given up may have to do something */
    st = pst_pipeline_seek(self->p, c, e);
    if (st < 0)
        (void)pst_pipeline_seek(self->p, &here, NULL);
    PyEval_RestoreThread(gil);
    self->started = self->halted = false;
    pipeline_mark(self);
    if (self->left) /* closed meanwhile, without waiting for this any longer */
        return raise_status(PST_ECANCELLED, "the pipeline was closed"), PST_END;
    return st;
}

/* Makes sure that `next` would not wait, by waiting here. */
static bool await_batch(Pipeline *self, pst_error *e)
{
    pst_cursor here;
    pst_status st = self->halted ? pst_pipeline_tell(self->p, &here, e) : PST_OK;
    if (self->halted && st == PST_OK)
        st = seek(self, &here, e);
    if (st != PST_OK) {
        if (st < 0)
            pipeline_raise(self, e);
        return false;
    }
    st = self->started ? pst_pipeline_wait(self->p, 0, e) : PST_TIMEOUT;
    while (st == PST_TIMEOUT) {
        PyThreadState *gil = PyEval_SaveThread();
        st = pst_pipeline_wait(self->p, SLICE, e);
        PyEval_RestoreThread(gil);
        self->started = true;
        if (PyErr_CheckSignals() < 0)
            return false;
    }
    if (st < 0)
        pipeline_raise(self, e);
    return st == PST_OK;
}

/* Beside the thread that ends the interpreter only daemon threads are left at its exit. Exceptions there would be lost:
 * they stop here, as Python itself stops them. */
static void park_at_exit(void)
{
    if (!interpreter_exits() || is_last_thread())
        return;
    PyEval_SaveThread();
    for (;;)
        pause();
}

/* The next batch; NULL without an exception: the end of the epoch, which only one of several threads sees happen. */
static PyObject *take(Pipeline *self, Iterator *iterator)
{
    pst_batch *batch = NULL;
    pst_error e;
    if (!pipeline_enter(self))
        return park_at_exit(), NULL;
    if (iterator->done || !pipeline_planned(self) || !await_batch(self, &e)) {
        pipeline_leave(self);
        return park_at_exit(), NULL;
    }
    pst_status st = pst_pipeline_next(self->p, &batch, &e);
    self->position = st == PST_END ? AT_EPOCH : MIDWAY;
    pipeline_mark(self);
    iterator->done = st == PST_END;
    pipeline_leave(self);
    if (st < 0)
        return park_at_exit(), pipeline_raise(self, &e);
    return st == PST_OK ? batch_create(batch, self->names, self->batched) : NULL;
}

/* Needs no turn: the plan does not change, and the engine does not go while the GIL is held. */
PyObject *pipeline_locate(PyObject *object, PyObject *batch)
{
    Pipeline *self = (Pipeline *)object;
    pst_batch *b = batch_of(batch);
    PyObject *places = b && pipeline_usable(self) ? PyList_New(0) : NULL;
    for (size_t i = 0; places && i < pst_batch_size(b); i++) {
        pst_place at;
        pst_error e;
        if (pst_pipeline_locate(self->p, b, i, &at, &e) < 0) {
            Py_DECREF(places);
            return raise_error(&e);
        }
        PyObject *place = Py_BuildValue("(NNN)", text_or_none(at.path), number_or_none(at.record), number_or_none(at.offset));
        if (!place || PyList_Append(places, place) < 0)
            Py_CLEAR(places);
        Py_XDECREF(place);
    }
    return places;
}

PyObject *pipeline_cancel(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    (void)unused;
    if (self->p && self->generation == fork_generation())
        pst_pipeline_cancel(self->p);
    Py_RETURN_NONE;
}

/* Batch k of an epoch. Several threads may compute batches at once, also beside an iterator. */
PyObject *pipeline_at(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    PyObject *given[2];
    uint64_t epoch, k;
    pst_batch *batch = NULL;
    pst_error e;
    if (!PyArg_ParseTuple(args, "OO:at", &given[0], &given[1]) || !number_option("epoch", given[0], UINT64_MAX, &epoch) ||
        !number_option("k", given[1], UINT64_MAX, &k) || !pipeline_outside(self))
        return NULL;
    if (!self->planned) {
        if (!pipeline_enter(self))
            return NULL;
        bool planned = pipeline_planned(self);
        pipeline_leave(self);
        if (!planned)
            return NULL;
    }
    if (!pipeline_usable(self))
        return NULL;
    self->reading++; /* the engine stays until it is 0 */
    PyThreadState *gil = PyEval_SaveThread();
    pst_status st = pst_pipeline_at(self->p, epoch, k, &batch, &e);
    PyEval_RestoreThread(gil);
    self->reading--;
    if (st < 0)
        return park_at_exit(), pipeline_raise(self, &e);
    return batch_create(batch, self->names, self->batched);
}

/* ---- Resume ---- */

PyObject *pipeline_tell(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    (void)unused;
    if (!self->planned) {
        if (!pipeline_enter(self))
            return NULL;
        bool planned = pipeline_planned(self);
        pipeline_leave(self);
        if (!planned)
            return NULL;
    }
    if (!pipeline_usable(self)) /* told without the lock, which another holds while it waits for a batch */
        return NULL;
    pst_position c = self->where;
    return Py_BuildValue("(KKKKy#)", (unsigned long long)c.fingerprint, (unsigned long long)c.seed, (unsigned long long)c.epoch,
                         (unsigned long long)c.next, (const char *)self->cursor.bytes, (Py_ssize_t)self->cursor.size);
}

/* The cursor at `at`: the one in `bytes`, which may hold more than these numbers, unless it has others: then `at` was edited. */
static pst_status make_cursor(const pst_position *at, const char *bytes, Py_ssize_t size, pst_cursor *ret, pst_error *reterr)
{
    pst_position stored;
    pst_cursor_set(ret, at);
    if (!bytes)
        return PST_OK;
    pst_cursor given = {.size = (size_t)size};
    if (given.size <= sizeof(given.bytes))
        memcpy(given.bytes, bytes, given.size);
    pst_status st = pst_cursor_get(&given, &stored, reterr);
    if (st == PST_OK && stored.fingerprint == at->fingerprint && stored.seed == at->seed && stored.epoch == at->epoch &&
        stored.next == at->next)
        *ret = given;
    return st;
}

PyObject *pipeline_seek(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    static const char *const names[] = {"fingerprint", "seed", "epoch", "next"};
    PyObject *given[4];
    uint64_t number[4];
    const char *bytes = NULL;
    Py_ssize_t size = 0;
    pst_error e;
    if (!PyArg_ParseTuple(args, "OOOO|y#:seek", &given[0], &given[1], &given[2], &given[3], &bytes, &size))
        return NULL;
    for (size_t i = 0; i < 4; i++)
        if (!number_option(names[i], given[i], UINT64_MAX, &number[i]))
            return NULL;
    if (!pipeline_enter(self))
        return NULL;
    if (!pipeline_planned(self)) {
        pipeline_leave(self);
        return NULL;
    }
    pst_cursor c;
    const pst_position at = {.fingerprint = number[0], .seed = number[1], .epoch = number[2], .next = number[3]};
    pst_status st = make_cursor(&at, bytes, size, &c, &e);
    if (st == PST_OK)
        st = seek(self, &c, &e);
    if (st == PST_OK) {
        self->position = SOUGHT;
        self->active = NULL;
    }
    if (st == PST_END)
        return pipeline_leave(self), NULL;
    return pipeline_finish(self, st, &e);
}

/* An iterator over the next epoch, or over what is left of one after a seek; None: another iterator is at work. */
PyObject *pipeline_iterate(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    pst_cursor c;
    pst_position at = {0};
    pst_error e;
    (void)unused;
    if (!pipeline_outside(self))
        return NULL;
    if (self->active) /* told without the lock, which the other holds while it waits for a batch */
        Py_RETURN_NONE;
    Iterator *iterator = PyObject_GC_New(Iterator, iterator_type);
    if (!iterator)
        return NULL;
    iterator->pipeline = (Pipeline *)Py_NewRef(object);
    iterator->done = false;
    PyObject_GC_Track(iterator);
    if (!pipeline_enter(self)) {
        Py_DECREF(iterator);
        return NULL;
    }
    pst_status st = self->active || !pipeline_planned(self) ? PST_END : PST_OK;
    if (st == PST_OK && self->position == MIDWAY) {
        st = pst_pipeline_tell(self->p, &c, &e);
        if (st == PST_OK)
            st = pst_cursor_get(&c, &at, &e);
        at.epoch++;
        at.next = 0;
        pst_cursor_set(&c, &at);
        if (st == PST_OK)
            st = seek(self, &c, &e);
        if (st == PST_OK)
            self->position = AT_EPOCH;
    }
    if (st == PST_OK)
        self->active = (PyObject *)iterator;
    pipeline_leave(self);
    if (st == PST_OK)
        return (PyObject *)iterator;
    Py_DECREF(iterator);
    if (st < 0)
        return raise_error(&e);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void retire(Iterator *self)
{
    if (self->pipeline && self->pipeline->active == (PyObject *)self)
        self->pipeline->active = NULL;
    self->done = true;
}

int iterator_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((Iterator *)object)->pipeline);
    return 0;
}

int iterator_clear(PyObject *object)
{
    Iterator *self = (Iterator *)object;
    Pipeline *pipeline = self->pipeline;
    retire(self);
    self->pipeline = NULL;
    Py_XDECREF((PyObject *)pipeline);
    return 0;
}

void iterator_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    iterator_clear(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

PyObject *iterator_next(PyObject *object)
{
    Iterator *self = (Iterator *)object;
    PyObject *batch = self->done ? NULL : take(self->pipeline, self);
    if (!batch && !PyErr_Occurred())
        retire(self);
    else if (!batch && self->pipeline->active == object && !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        self->pipeline->active = NULL; /* failed: it repeats the failure, and does not keep others from beginning anew */
    return batch;
}

/* ---- Statistics ---- */

static PyObject *stage_list(const pst_stats *s)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < s->stages; i++) {
        PyObject *stage =
            Py_BuildValue("{s:s,s:K,s:K,s:d}", "name", s->stage[i].name, "calls", (unsigned long long)s->stage[i].calls,
                          "bytes", (unsigned long long)s->stage[i].bytes, "seconds", (double)s->stage[i].ns * 1e-9);
        if (!stage || PyList_Append(list, stage) < 0)
            Py_CLEAR(list);
        Py_XDECREF(stage);
    }
    return list;
}

PyObject *pipeline_stats(PyObject *object, PyObject *unused)
{
    Pipeline *self = (Pipeline *)object;
    pst_stats s = {.size = sizeof(s)};
    pst_error e;
    (void)unused;
    if (!pipeline_usable(self))
        return NULL;
    if (pst_pipeline_stats(self->p, &s, &e) < 0)
        return raise_error(&e);
    PyObject *stages = stage_list(&s);
    return stages ? Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:d,s:I,s:s,s:I,s:s,s:K,s:K,s:d,s:s,s:s,s:N}", //
                                  "samples", (unsigned long long)s.samples, "batches", (unsigned long long)s.batches, "bytes",
                                  (unsigned long long)s.bytes, "read_bytes", (unsigned long long)s.read_bytes, "skipped",
                                  (unsigned long long)s.skipped, "cache_hits", (unsigned long long)s.cache_hits, //
                                  "entropy_stored", (unsigned long long)s.entropy_stored, "entropy_made",
                                  (unsigned long long)s.entropy_made, "entropy_stale", (unsigned long long)s.entropy_stale, //
                                  "consumer_wait_seconds", (double)s.consumer_wait_ns * 1e-9, "worker_wait_seconds",
                                  (double)s.worker_wait_ns * 1e-9, "worker_busy_seconds", (double)s.worker_busy_ns * 1e-9, //
                                  "workers", s.workers, "workers_reason", s.workers_reason, "prefetch", s.prefetch,
                                  "prefetch_reason", s.prefetch_reason, "ram_planned", (unsigned long long)s.ram_planned,
                                  "ram_used", (unsigned long long)s.ram_used, "ready_mean", s.ready_mean, //
                                  "stall", s.stalled ? s.stall : "", "cache_note", s.cache_note, "stages", stages)
                  : NULL;
}
