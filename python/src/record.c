/* record.c: records without a pipeline: writing, reading in order and by number, tf.train.Examples, packing, PNG. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writer ---- */

typedef struct {
    PyObject base;
    pst_writer *writer; /* NULL: closed */
} Writer;

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "compression", "level", "sync", "index", "overwrite", NULL};
    const char *compression = "none";
    int sync = 1, index = 1, overwrite = 0;
    PyObject *path = NULL;
    pst_writer_options o = {.size = sizeof(o)};
    pst_error e;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$sippp:Writer", names, PyUnicode_FSConverter, &path, &compression,
                                     &o.level, &sync, &index, &overwrite))
        return NULL;
    o.no_sync = !sync;
    o.no_index = !index;
    o.overwrite = overwrite;
    pst_writer *writer = NULL;
    const char *name = PyBytes_AsString(path);
    pst_status st = pst_compression_parse(&o.compression, compression, &e);
    PyThreadState *gil = PyEval_SaveThread(); /* files may lie in a store */
    if (st == PST_OK)
        st = pst_writer_open(&writer, name, &o, &e);
    PyEval_RestoreThread(gil);
    Py_DECREF(path);
    if (st < 0)
        return raise_error(&e);
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Writer *self = (Writer *)make(type, 0);
    if (self)
        self->writer = writer;
    else
        pst_writer_close(writer);
    return (PyObject *)self;
}

static void writer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pst_writer_close(((Writer *)object)->writer);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *writer_write(PyObject *object, PyObject *record)
{
    Writer *self = (Writer *)object;
    Py_buffer view;
    pst_error e;
    if (PyObject_GetBuffer(record, &view, PyBUF_SIMPLE) < 0) /* may run Python code, which may close the writer */
        return NULL;
    if (!self->writer) {
        PyBuffer_Release(&view);
        return raise_status(PST_EINVAL, "the writer is closed");
    }
    pst_status st = pst_writer_write(self->writer, view.buf, (size_t)view.len, &e); /* with the GIL: one thread at a time */
    PyBuffer_Release(&view);
    return st < 0 ? raise_error(&e) : Py_NewRef(Py_None);
}

static PyObject *writer_commit(PyObject *object, PyObject *unused)
{
    Writer *self = (Writer *)object;
    pst_error e;
    (void)unused;
    pst_writer *writer = self->writer;
    if (!writer)
        Py_RETURN_NONE;
    self->writer = NULL; /* before other threads run: to them the writer is closed */
    PyThreadState *gil = PyEval_SaveThread();
    pst_status st = pst_writer_commit(writer, &e);
    pst_writer_close(writer);
    PyEval_RestoreThread(gil);
    return st < 0 ? raise_error(&e) : Py_NewRef(Py_None);
}

static PyObject *writer_discard(PyObject *object, PyObject *unused)
{
    Writer *self = (Writer *)object;
    (void)unused;
    self->writer = pst_writer_close(self->writer);
    Py_RETURN_NONE;
}

/* ---- Reading by number ---- */

typedef struct {
    PyObject base;
    pst_shard *shard;
} Shard;

static PyObject *shard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "verify", "cache_dir", "write_index", NULL};
    PyObject *path = NULL;
    Py_ssize_t length;
    int verify = 1, write_index = 1;
    pst_shard_options o = {.size = sizeof(o)};
    pst_shard *shard = NULL;
    pst_error e;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$pz#p:Shard", names, PyUnicode_FSConverter, &path, &verify, &o.cache_dir,
                                     &length, &write_index))
        return NULL;
    o.no_verify = !verify;
    o.no_write = !write_index;
    const char *name = PyBytes_AsString(path);
    PyThreadState *gil = PyEval_SaveThread();
    pst_status st = pst_shard_open(&shard, name, &o, &e);
    PyEval_RestoreThread(gil);
    Py_DECREF(path);
    if (st < 0)
        return raise_error(&e);
    Shard *self = (Shard *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        self->shard = shard;
    else
        pst_shard_close(shard);
    return (PyObject *)self;
}

static void shard_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pst_shard_close(((Shard *)object)->shard);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static Py_ssize_t shard_length(PyObject *self)
{
    return (Py_ssize_t)pst_shard_count(((Shard *)self)->shard);
}

static PyObject *shard_item(PyObject *object, Py_ssize_t i)
{
    const pst_shard *shard = ((Shard *)object)->shard;
    uint64_t offset, length;
    size_t read;
    pst_error e;
    if (i < 0 || i >= shard_length(object))
        return PyErr_Format(PyExc_IndexError, "record %zd of %zd", i, shard_length(object));
    pst_shard_locate(shard, (uint64_t)i, &offset, &length);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (!bytes)
        return NULL;
    char *to = PyBytes_AsString(bytes);
    PyThreadState *gil = PyEval_SaveThread();
    pst_status st = pst_shard_read(shard, (uint64_t)i, to, (size_t)length, &read, &e);
    PyEval_RestoreThread(gil);
    if (st < 0) {
        Py_DECREF(bytes);
        return raise_error(&e);
    }
    return bytes;
}

/* ---- Reading in order ---- */

typedef struct {
    PyObject base;
    pst_reader *reader;
    pthread_mutex_t lock; /* threads may share the reader; taken without the GIL, which may be taken while it is held */
} Reader;

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "compression", "verify", NULL};
    const char *compression = "auto";
    PyObject *path = NULL;
    int verify = 1;
    pst_reader_options o = {.size = sizeof(o)};
    pst_reader *reader = NULL;
    pst_error e;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$sp:Reader", names, PyUnicode_FSConverter, &path, &compression, &verify))
        return NULL;
    o.no_verify = !verify;
    pst_status st = pst_compression_parse(&o.compression, compression, &e);
    const char *name = PyBytes_AsString(path);
    PyThreadState *gil = PyEval_SaveThread();
    if (st == PST_OK)
        st = pst_reader_open(&reader, name, &o, &e);
    PyEval_RestoreThread(gil);
    Py_DECREF(path);
    if (st < 0)
        return raise_error(&e);
    Reader *self = (Reader *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self) {
        self->reader = reader;
        pthread_mutex_init(&self->lock, NULL);
    } else {
        pst_reader_close(reader);
    }
    return (PyObject *)self;
}

static void reader_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pst_reader_close(((Reader *)object)->reader);
    pthread_mutex_destroy(&((Reader *)object)->lock);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *reader_next(PyObject *object)
{
    Reader *self = (Reader *)object;
    pst_record r;
    pst_error e;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&self->lock);
    pst_status st = pst_reader_next(self->reader, &r, &e);
    PyEval_RestoreThread(gil);
    PyObject *bytes = st == PST_OK ? PyBytes_FromStringAndSize((const char *)r.data, (Py_ssize_t)r.length) : NULL;
    pthread_mutex_unlock(&self->lock); /* the record is the reader's up to here */
    return st < 0 ? raise_error(&e) : bytes;
}

/* ---- tf.train.Example ---- */

static PyObject *value_object(const pst_value *v)
{
    if (v->kind == PST_BYTES) {
        const pst_bytes *values = v->data;
        PyObject *list = PyList_New(0);
        for (size_t i = 0; list && i < v->count; i++) {
            PyObject *bytes = PyBytes_FromStringAndSize((const char *)values[i].data, (Py_ssize_t)values[i].length);
            if (!bytes || PyList_Append(list, bytes) < 0)
                Py_CLEAR(list);
            Py_XDECREF(bytes);
        }
        return list;
    }
    pst_tensor t = {.dtype = v->kind == PST_FLOAT ? PST_DTYPE_F32 : PST_DTYPE_I64, .rank = 1, .shape = {v->count}};
    t.data = (void *)(uintptr_t)v->data;
    return tensor_copy(&t);
}

static PyObject *parse_example(PyObject *module, PyObject *record)
{
    Py_buffer view;
    pst_parser *parser = NULL;
    const pst_named_value *values = NULL;
    size_t count = 0;
    pst_error e;
    (void)module;
    if (PyObject_GetBuffer(record, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    pst_status st = pst_parser_create(&parser, NULL, NULL, &e);
    if (st == PST_OK)
        st = pst_parser_walk(parser, view.buf, (size_t)view.len, &values, &count, &e);
    PyObject *dict = st == PST_OK ? PyDict_New() : raise_error(&e);
    for (size_t i = 0; dict && i < count; i++) {
        if (values[i].value.kind == PST_KIND_NONE)
            continue;
        PyObject *name =
            PyUnicode_DecodeUTF8((const char *)values[i].name.data, (Py_ssize_t)values[i].name.length, "surrogateescape");
        PyObject *value = name ? value_object(&values[i].value) : NULL;
        if (!value || PyDict_SetItem(dict, name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    pst_parser_destroy(parser);
    PyBuffer_Release(&view);
    return dict;
}

static pst_status add_bytes(pst_builder *b, const char *name, PyObject *list, pst_error *reterr)
{
    size_t count = (size_t)PyList_Size(list);
    pst_bytes *values = calloc(count + 1, sizeof(*values));
    bool fine = values != NULL;
    for (size_t i = 0; fine && i < count; i++) {
        char *data;
        Py_ssize_t length;
        fine = PyBytes_AsStringAndSize(PyList_GetItem(list, (Py_ssize_t)i), &data, &length) == 0;
        if (fine)
            values[i] = (pst_bytes){.data = (const uint8_t *)data, .length = (size_t)length};
    }
    pst_status st = !fine ? PST_EINVAL : pst_builder_add_bytes(b, name, values, count, reterr);
    if (!values)
        PyErr_NoMemory();
    free(values);
    return st;
}

static pst_status add_feature(pst_builder *b, const char *name, PyObject *value, pst_error *reterr)
{
    Py_buffer view;
    if (PyList_Check(value))
        return add_bytes(b, name, value, reterr);
    if (PyObject_GetBuffer(value, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0)
        return PST_EINVAL;
    pst_dtype dtype = dtype_of_format(view.format, view.itemsize);
    pst_status st = PST_EINVAL;
    if (dtype == PST_DTYPE_F32)
        st = pst_builder_add_floats(b, name, view.buf, (size_t)view.len / sizeof(float), reterr);
    else if (dtype == PST_DTYPE_I64)
        st = pst_builder_add_int64s(b, name, view.buf, (size_t)view.len / sizeof(int64_t), reterr);
    else
        PyErr_Format(PyExc_TypeError, "feature %s: expected float32 or int64", name);
    PyBuffer_Release(&view);
    return st;
}

/* The name as bytes; those of a parsed record that are not UTF-8 are restored. NULL with an exception. */
static PyObject *feature_name(PyObject *name)
{
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "the name of a feature is a str, not %R", name);
    PyObject *bytes = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
    if (bytes && strlen(PyBytes_AsString(bytes)) == (size_t)PyBytes_Size(bytes))
        return bytes;
    const char *what = bytes ? "contains a NUL" : "cannot be encoded as UTF-8";
    Py_XDECREF(bytes);
    return PyErr_Format(PyExc_ValueError, "feature name %A: %s; rename it", name, what);
}

/* {name: list of bytes, or a buffer of float32 or int64} */
static PyObject *build_example(PyObject *module, PyObject *features)
{
    pst_builder *b = NULL;
    pst_bytes bytes;
    pst_error e;
    PyObject *name, *value, *result = NULL;
    Py_ssize_t at = 0;
    (void)module;
    if (!PyDict_Check(features))
        return PyErr_Format(PyExc_TypeError, "expected a dict");
    pst_status st = pst_builder_create(&b, &e);
    if (st == PST_OK)
        pst_builder_allow_any_names(b, true);
    while (st == PST_OK && PyDict_Next(features, &at, &name, &value)) {
        PyObject *text = feature_name(name);
        st = text ? add_feature(b, PyBytes_AsString(text), value, &e) : PST_EINVAL;
        Py_XDECREF(text);
    }
    if (st == PST_OK)
        st = pst_builder_finish(b, &bytes, &e);
    if (st == PST_OK)
        result = PyBytes_FromStringAndSize((const char *)bytes.data, (Py_ssize_t)bytes.length);
    else if (!PyErr_Occurred())
        raise_error(&e);
    pst_builder_destroy(b);
    return result;
}

/* ---- Packing ---- */

/* Called on the thread that packs, about ten times a second: signals, and the user's function. */
static int on_progress(void *user, const pst_progress *progress)
{
    PyObject *function = user, *result = NULL;
    PyGILState_STATE gil = PyGILState_Ensure();
    int stop = PyErr_CheckSignals() < 0;
    if (!stop && function != Py_None) {
        result = PyObject_CallFunction(function, "sKKK", progress->stage, (unsigned long long)progress->done,
                                       (unsigned long long)progress->total, (unsigned long long)progress->bytes);
        stop = result == NULL;
    }
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return stop;
}

static PyObject *report_object(const pst_pack_report *r)
{
    PyObject *splits = PyDict_New(), *skips = PyList_New(0), *notes = PyList_New(0);
    bool fine = splits && skips && notes;
    for (size_t i = 0; fine && i < r->splits; i++) {
        PyObject *split =
            Py_BuildValue("{s:K,s:K,s:K}", "records", (unsigned long long)r->split[i].records, "bytes",
                          (unsigned long long)r->split[i].bytes, "shards", (unsigned long long)r->split[i].shards);
        PyObject *name = text_or_none(r->split[i].name);
        fine = split && name && PyDict_SetItem(splits, name, split) == 0;
        Py_XDECREF(name);
        Py_XDECREF(split);
    }
    for (size_t i = 0; fine && i < r->skips; i++) {
        PyObject *skip = Py_BuildValue("(NN)", text_or_none(r->skip[i].key), text_or_none(r->skip[i].why));
        fine = skip && PyList_Append(skips, skip) == 0;
        Py_XDECREF(skip);
    }
    for (size_t i = 0; fine && i < r->notes; i++) {
        PyObject *note = text_or_none(r->note[i]);
        fine = note && PyList_Append(notes, note) == 0;
        Py_XDECREF(note);
    }
    PyObject *report =
        fine
            ? Py_BuildValue("{s:K,s:K,s:K,s:K,s:O,s:d,s:n,s:O,s:O,s:O}", "records", (unsigned long long)r->records, "bytes",
                            (unsigned long long)r->bytes, "source_bytes", (unsigned long long)r->source_bytes, "resumed_shards",
                            (unsigned long long)r->resumed_shards, "up_to_date", r->up_to_date ? Py_True : Py_False, "seconds",
                            r->seconds, "classes", (Py_ssize_t)r->classes, "splits", splits, "skipped", skips, "notes", notes)
            : NULL;
    Py_XDECREF(splits);
    Py_XDECREF(skips);
    Py_XDECREF(notes);
    return report;
}

static bool pack_options(PyObject *kwargs, pst_pack_options *o, PyObject **ret_progress)
{
    static char *names[] = {"source_format", "name",     "version",  "features",    "shards", "shard_size",
                            "split",         "shuffle",  "seed",     "compression", "resize", "format",
                            "quality",       "channels", "augment",  "workers",     "bad",    "force",
                            "sync",          "entropy",  "progress", "part",        "parts",  "join",
                            NULL};
    unsigned long long shard_size = 0, seed = 0;
    const char *compression = "none", *format = NULL, *bad = "error";
    int shuffle = 0, force = 0, sync = 1, entropy = 0, join = 0;
    PyObject *nothing = PyTuple_New(0);
    pst_error e;
    bool fine =
        nothing && PyArg_ParseTupleAndKeywords(nothing, kwargs, "|$zzzzIKzpKszziIIIspppOIIp:pack", names, &o->from, &o->name,
                                               &o->version, &o->features, &o->shards, &shard_size, &o->split, &shuffle, &seed,
                                               &compression, &o->resize, &format, &o->quality, &o->channels, &o->augment,
                                               &o->workers, &bad, &force, &sync, &entropy, ret_progress, &o->part, &o->parts,
                                               &join);
    Py_XDECREF(nothing);
    if (!fine)
        return false;
    o->shard_size = shard_size;
    o->seed = seed;
    o->shuffle = shuffle;
    o->force = force;
    o->no_sync = !sync;
    o->entropy = entropy;
    o->join = join;
    pst_status st = pst_compression_parse(&o->compression, compression, &e);
    if (st == PST_OK && format)
        st = pst_image_format_parse(&o->format, format, &e);
    o->bad = bad;
    return st == PST_OK || raise_error(&e);
}

/* pack([path as bytes, …], out as bytes, **options) → a report */
PyObject *core_pack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *sources, *progress = Py_None;
    const char *out, **paths;
    pst_pack_options o = {.size = sizeof(o)};
    pst_pack_report *report = NULL;
    pst_error e;
    pst_status st = PST_OK;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!y:pack", &PyList_Type, &sources, &out) || !pack_options(kwargs, &o, &progress))
        return NULL;
    Py_ssize_t count = PyList_Size(sources);
    paths = calloc((size_t)count + 1, sizeof(*paths));
    if (!paths)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        char *path = NULL;
        if (PyBytes_AsStringAndSize(PyList_GetItem(sources, i), &path, NULL) < 0) { /* refuses a NUL */
            free(paths);
            return NULL;
        }
        paths[i] = path;
    }
    o.progress = on_progress;
    o.user = progress;
    if (!PyErr_Occurred()) {
        PyThreadState *gil = PyEval_SaveThread();
        st = pst_pack(paths, (size_t)count, out, &o, &report, &e);
        PyEval_RestoreThread(gil);
    }
    free(paths);
    PyObject *result = NULL;
    if (st < 0 && !PyErr_Occurred())
        raise_error(&e);
    else if (st == PST_OK && !PyErr_Occurred())
        result = report_object(report);
    pst_pack_report_destroy(report);
    return result;
}

/* encode_png(pixels of [height, width, channels] uint8) → bytes, for pictures in notebooks */
PyObject *core_encode_png(PyObject *self, PyObject *args)
{
    PyObject *pixels, *result = NULL;
    unsigned width, height, channels;
    Py_buffer view;
    uint8_t *bytes = NULL;
    size_t length;
    pst_error e;
    (void)self;
    if (!PyArg_ParseTuple(args, "OIII:encode_png", &pixels, &width, &height, &channels) ||
        PyObject_GetBuffer(pixels, &view, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    pst_image image = {
        .pixels = view.buf, .width = width, .height = height, .channels = channels, .stride = (size_t)width * channels};
    if ((uint64_t)view.len != (uint64_t)height * width * channels)
        raise_status(PST_EINVAL, "%zd bytes for %u x %u x %u pixels", view.len, width, height, channels);
    else if (pst_image_encode(&bytes, &length, &image, PST_IMAGE_PNG, NULL, &e) < 0)
        raise_error(&e);
    else
        result = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)length);
    pst_free(bytes);
    PyBuffer_Release(&view);
    return result;
}

/* ---- Types ---- */

static PyMethodDef writer_methods[] = {
    {"write", writer_write, METH_O, NULL},
    {"commit", writer_commit, METH_NOARGS, NULL},
    {"discard", writer_discard, METH_NOARGS, NULL},
    {0},
};
static PyType_Slot writer_slots[] = {
    {Py_tp_new, writer_new}, {Py_tp_dealloc, writer_dealloc}, {Py_tp_methods, writer_methods}, {0}};
static PyType_Slot shard_slots[] = {
    {Py_tp_new, shard_new}, {Py_tp_dealloc, shard_dealloc}, {Py_sq_length, shard_length}, {Py_sq_item, shard_item}, {0}};
static PyType_Slot reader_slots[] = {{Py_tp_new, reader_new},
                                     {Py_tp_dealloc, reader_dealloc},
                                     {Py_tp_iter, PyObject_SelfIter},
                                     {Py_tp_iternext, reader_next},
                                     {0}};
static PyType_Spec specs[] = {
    {.name = "penstock._core.Writer", .basicsize = sizeof(Writer), .flags = Py_TPFLAGS_DEFAULT, .slots = writer_slots},
    {.name = "penstock._core.Shard", .basicsize = sizeof(Shard), .flags = Py_TPFLAGS_DEFAULT, .slots = shard_slots},
    {.name = "penstock._core.Reader", .basicsize = sizeof(Reader), .flags = Py_TPFLAGS_DEFAULT, .slots = reader_slots},
};

static PyMethodDef functions[] = {
    {"parse_example", parse_example, METH_O, NULL},
    {"build_example", build_example, METH_O, NULL},
    {0},
};

bool record_types_create(PyObject *module)
{
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        if (!type_add(module, &specs[i]))
            return false;
    return PyModule_AddFunctions(module, functions) == 0;
}
