/* build.c: what a pipeline consists of: operations, arrays that the engine borrows, functions; or all of it from text. */
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

/* A chain that a thread plans is not changed, even if no thread waits for the plan at the moment. */
static bool enter_to_build(Pipeline *self)
{
    if (!pipeline_enter(self))
        return false;
    if (!self->job)
        return true;
    pipeline_leave(self);
    return raise_status(PST_EINVAL, "the pipeline is being planned; what it consists of is settled"), false;
}

PyObject *pipeline_add(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    const char *op, *arguments;
    pst_error e;
    if (!PyArg_ParseTuple(args, "ss:add", &op, &arguments) || !enter_to_build(self))
        return NULL;
    return pipeline_finish(self, pst_pipeline_add(self->p, op, arguments, &e), &e);
}

/* Takes the engines of the pipelines, which are kept for what they borrow. */
PyObject *pipeline_add_pipelines(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    const char *op, *arguments;
    PyObject *branches;
    pst_error e;
    if (!PyArg_ParseTuple(args, "ssO!:add_pipelines", &op, &arguments, &PyTuple_Type, &branches))
        return NULL;
    size_t count = (size_t)PyTuple_Size(branches);
    pst_pipeline **engines = calloc(count + 1, sizeof(*engines));
    if (!engines)
        return PyErr_NoMemory();
    for (size_t i = 0; i < count; i++) {
        PyObject *branch = PyTuple_GetItem(branches, (Py_ssize_t)i);
        if (!PyObject_TypeCheck(branch, Py_TYPE(object)) || !((Pipeline *)branch)->p) {
            free(engines);
            return PyErr_Format(PyExc_TypeError, "branches are pipelines that were not used yet");
        }
        engines[i] = ((Pipeline *)branch)->p;
    }
    if (PyList_Append(self->keep, branches) < 0 || !enter_to_build(self)) {
        free(engines);
        return NULL;
    }
    pst_status st = pst_pipeline_add_pipelines(self->p, op, arguments, engines, count, &e);
    for (size_t i = 0; i < count && st == PST_OK; i++)
        ((Pipeline *)PyTuple_GetItem(branches, (Py_ssize_t)i))->p = NULL;
    free(engines);
    return pipeline_finish(self, st, &e);
}

/* Replaces the empty engine by one that was made from text. */
PyObject *pipeline_parse(PyObject *type, PyObject *args, PyObject *kwargs)
{
    const char *text;
    pst_pipeline_options options = {0};
    char *cache_dir = NULL;
    pst_error e;
    pst_pipeline *parsed = NULL;
    if (!PyArg_ParseTuple(args, "s:parse", &text))
        return NULL;
    Pipeline *self = (Pipeline *)pipeline_new((PyTypeObject *)type, NULL, kwargs);
    if (!self || !pipeline_options(kwargs, &options, &cache_dir)) {
        Py_XDECREF((PyObject *)self);
        return NULL;
    }
    pst_status st = pst_pipeline_parse(&parsed, text, &options, &e);
    free(cache_dir);
    if (st < 0) {
        Py_DECREF((PyObject *)self);
        return raise_error(&e);
    }
    pst_pipeline_destroy(self->p);
    self->p = parsed;
    return (PyObject *)self;
}

/* A buffer that the engine may borrow for as long as the pipeline lives. */
static void release_buffer(PyObject *capsule)
{
    Py_buffer *view = PyCapsule_GetPointer(capsule, NULL);
    PyBuffer_Release(view);
    free(view);
}

static bool keep_array(Pipeline *self, PyObject *array, pst_tensor *ret)
{
    Py_buffer *view = calloc(1, sizeof(*view));
    if (!view)
        return PyErr_NoMemory(), false;
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_ND) < 0) {
        free(view);
        return false;
    }
    PyObject *capsule = PyCapsule_New(view, NULL, release_buffer);
    bool kept = capsule && PyList_Append(self->keep, capsule) == 0;
    if (!capsule) {
        PyBuffer_Release(view);
        free(view);
    }
    Py_XDECREF(capsule);
    if (!kept)
        return false;
    *ret =
        (pst_tensor){.dtype = dtype_of_format(view->format, view->itemsize), .rank = (uint32_t)view->ndim, .data = view->buf};
    if (ret->dtype == PST_DTYPE_NONE || view->ndim < 1 || view->ndim > PST_MAX_RANK)
        return PyErr_Format(
                   PyExc_ValueError,
                   "an array of format %s and %d dimensions; expected 1 to %d dimensions of uint8, int32, int64, float16, "
                   "float32 or float64 (try .astype)",
                   view->format ? view->format : "B", view->ndim, PST_MAX_RANK),
               false;
    for (int d = 0; d < view->ndim; d++)
        ret->shape[d] = (uint64_t)view->shape[d];
    return true;
}

/* A list of bytes: the engine's pointers to them, in a bytearray that is kept with what the list holds now. */
static bool keep_strings(Pipeline *self, PyObject *list, pst_tensor *ret)
{
    PyObject *items = PyList_AsTuple(list);
    Py_ssize_t count = items ? PyTuple_Size(items) : 0;
    PyObject *memory = items ? PyByteArray_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(pst_bytes)) : NULL;
    if (!memory) {
        Py_XDECREF(items);
        return false;
    }
    pst_bytes *values = (pst_bytes *)(void *)PyByteArray_AsString(memory);
    bool fine = PyList_Append(self->keep, memory) == 0 && PyList_Append(self->keep, items) == 0;
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        char *data;
        Py_ssize_t length;
        fine = PyBytes_AsStringAndSize(PyTuple_GetItem(items, i), &data, &length) == 0;
        if (fine)
            values[i] = (pst_bytes){.data = (const uint8_t *)data, .length = (size_t)length};
    }
    Py_DECREF(memory);
    Py_DECREF(items);
    *ret = (pst_tensor){.dtype = PST_DTYPE_BYTES, .rank = 1, .shape = {(uint64_t)count}, .data = values};
    return fine;
}

PyObject *pipeline_add_arrays(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    PyObject *names, *arrays;
    PyObject *result = NULL;
    pst_error e;
    if (!PyArg_ParseTuple(args, "O!O!:add_arrays", &PyTuple_Type, &names, &PyTuple_Type, &arrays))
        return NULL;
    Py_ssize_t count = PyTuple_Size(names);
    if (count > PST_MAX_FIELDS || count != PyTuple_Size(arrays))
        return PyErr_Format(PyExc_ValueError, "%zd names for %zd arrays; at most %d", count, PyTuple_Size(arrays),
                            PST_MAX_FIELDS);
    const char **field = calloc((size_t)count + 1, sizeof(*field));
    pst_tensor *tensor = calloc((size_t)count + 1, sizeof(*tensor));
    bool fine = field && tensor;
    if (!fine)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        PyObject *array = PyTuple_GetItem(arrays, i);
        PyObject *name = PyTuple_GetItem(names, i);
        Py_ssize_t length = 0;
        field[i] = PyUnicode_AsUTF8AndSize(name, &length);
        fine = field[i] != NULL;
        if (fine && strlen(field[i]) != (size_t)length)
            fine = PyErr_Format(PyExc_ValueError, "field name %A contains a NUL", name) != NULL;
        fine = fine && (PyList_Check(array) ? keep_strings(self, array, &tensor[i]) : keep_array(self, array, &tensor[i]));
    }
    if (fine && enter_to_build(self))
        result = pipeline_finish(self, pst_pipeline_add_arrays(self->p, field, tensor, (size_t)count, &e), &e);
    free(field);
    free(tensor);
    return result;
}

/* The texts of a tuple of bytes, borrowed from it. NULL with an exception. */
static const char **texts_of(PyObject *tuple)
{
    size_t count = (size_t)PyTuple_Size(tuple);
    const char **texts = calloc(count + 1, sizeof(*texts));
    if (!texts)
        return PyErr_NoMemory(), NULL;
    for (size_t i = 0; i < count; i++) {
        char *text;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, (Py_ssize_t)i), &text, NULL) < 0) { /* none has a NUL in it */
            free(texts);
            return NULL;
        }
        texts[i] = text;
    }
    return texts;
}

/* (paths, labels): tuples of bytes of one length; labels may be None. */
PyObject *pipeline_add_files(PyObject *object, PyObject *args)
{
    Pipeline *self = (Pipeline *)object;
    PyObject *paths, *labels, *result = NULL;
    pst_error e;
    if (!PyArg_ParseTuple(args, "O!O:add_files", &PyTuple_Type, &paths, &labels))
        return NULL;
    if (labels != Py_None && (!PyTuple_Check(labels) || PyTuple_Size(labels) != PyTuple_Size(paths)))
        return PyErr_Format(PyExc_ValueError, "labels are a tuple of as many, or None");
    const char **path = texts_of(paths), **label = path && labels != Py_None ? texts_of(labels) : NULL;
    if (path && (label || labels == Py_None) && enter_to_build(self)) {
        pst_status st = pst_pipeline_add_files(self->p, path, label, (size_t)PyTuple_Size(paths), &e);
        result = pipeline_finish(self, st, &e);
    }
    free(path);
    free(label);
    return result;
}

/* Makes room for one more callback first, so that none is ever lost. */
static PyObject *add_callback(Pipeline *self, PyObject *what,
                              pst_status (*add)(Pipeline *self, PyObject *what, struct callback **ret, pst_error *e))
{
    pst_error e;
    if (!enter_to_build(self))
        return NULL;
    struct callback **grown = realloc(self->callbacks, (self->callback_count + 1) * sizeof(struct callback *));
    if (!grown) {
        pipeline_leave(self);
        return PyErr_NoMemory();
    }
    self->callbacks = grown;
    self->callbacks[self->callback_count] = NULL;
    pst_status st = add(self, what, &self->callbacks[self->callback_count], &e);
    if (self->callbacks[self->callback_count])
        self->callback_count++;
    pipeline_leave(self);
    if (PyErr_Occurred())
        return NULL;
    if (st < 0)
        return raise_error(&e);
    Py_RETURN_NONE;
}

static pst_status add_map(Pipeline *self, PyObject *what, struct callback **ret, pst_error *e)
{
    return callback_add_map(self->p, what, self->failures, self->lineage, ret, e);
}

static pst_status add_generator(Pipeline *self, PyObject *what, struct callback **ret, pst_error *e)
{
    return callback_add_generator(self->p, what, self->failures, self->lineage, ret, e);
}

static pst_status add_view(Pipeline *self, PyObject *what, struct callback **ret, pst_error *e)
{
    return callback_add_view(self->p, what, ret, e);
}

PyObject *pipeline_add_map(PyObject *self, PyObject *function)
{
    return add_callback((Pipeline *)self, function, add_map);
}

PyObject *pipeline_add_generator(PyObject *self, PyObject *source)
{
    return add_callback((Pipeline *)self, source, add_generator);
}

PyObject *pipeline_add_view(PyObject *self, PyObject *arguments)
{
    return add_callback((Pipeline *)self, arguments, add_view);
}
