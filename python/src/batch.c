/* batch.c: penstock.Batch: named tensors, by name, by number, or unpacked in order: `image, label = batch`. */
#include "core.h"

PyTypeObject *batch_type;

typedef struct {
    PyObject base;
    keeper keep;
    PyObject *names; /* a tuple of str, shared by all batches of a pipeline */
    bool batched;    /* false: an element of a pipeline without batches */
} Batch;

PyObject *batch_create(pst_batch *batch, PyObject *names, bool batched)
{
    keeper k = {.batch = batch, .generation = fork_generation()};
    Batch *self = PyObject_New(Batch, batch_type);
    if (!self) {
        keeper_unref(&k);
        return NULL;
    }
    self->keep = k;
    self->names = Py_NewRef(names);
    self->batched = batched;
    return (PyObject *)self;
}

pst_batch *batch_of(PyObject *batch)
{
    if (!PyObject_TypeCheck(batch, batch_type))
        return (pst_batch *)(void *)PyErr_Format(PyExc_TypeError, "expected a Batch");
    const keeper *k = &((Batch *)batch)->keep;
    if (k->generation != fork_generation())
        return (pst_batch *)(void *)raise_status(PST_EINVAL, "the batch belongs to the process that this one was forked from");
    return k->batch;
}

static void batch_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Batch *self = (Batch *)object;
    keeper_unref(&self->keep);
    Py_XDECREF(self->names);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *field(Batch *self, size_t i)
{
    const pst_tensor *t = pst_batch_at(self->keep.batch, i);
    return self->batched ? tensor_create(t, keeper_ref(&self->keep)) : tensor_element(t, &self->keep);
}

static Py_ssize_t batch_length(PyObject *self)
{
    return (Py_ssize_t)pst_batch_fields(((Batch *)self)->keep.batch);
}

static PyObject *batch_item(PyObject *self, Py_ssize_t i)
{
    Py_ssize_t count = batch_length(self);
    if (i < 0 || i >= count)
        return PyErr_Format(PyExc_IndexError, "field %zd of %zd", i, count);
    return field((Batch *)self, (size_t)i);
}

/* The number of a field; -1: none, or an exception that is set. */
static Py_ssize_t find(Batch *self, PyObject *name)
{
    Py_ssize_t count = batch_length((PyObject *)self);
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyTuple_GetItem(self->names, i) == name)
            return i;
    for (Py_ssize_t i = 0; i < count; i++) {
        int same = PyObject_RichCompareBool(PyTuple_GetItem(self->names, i), name, Py_EQ);
        if (same)
            return same < 0 ? -1 : i;
    }
    return -1;
}

static PyObject *batch_subscript(PyObject *object, PyObject *key)
{
    Batch *self = (Batch *)object;
    Py_ssize_t i;
    if (PyIndex_Check(key)) {
        i = PyNumber_AsSsize_t(key, PyExc_IndexError);
        if (i == -1 && PyErr_Occurred())
            return NULL;
        return batch_item(object, i < 0 ? i + batch_length(object) : i);
    }
    i = find(self, key);
    if (i < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_KeyError, "no field %R; there are %R", key, self->names);
    return field(self, (size_t)i);
}

static int batch_contains(PyObject *self, PyObject *name)
{
    Py_ssize_t i = find((Batch *)self, name);
    return i < 0 && PyErr_Occurred() ? -1 : i >= 0;
}

static PyObject *batch_values(PyObject *self, PyObject *unused)
{
    Py_ssize_t count = batch_length(self);
    PyObject *values = PyTuple_New(count);
    (void)unused;
    for (Py_ssize_t i = 0; values && i < count; i++) {
        PyObject *value = field((Batch *)self, (size_t)i);
        if (!value || PyTuple_SetItem(values, i, value) < 0)
            Py_CLEAR(values);
    }
    return values;
}

/* Unpacking leaves out `key`, the name of a sample's file, unless there is nothing else: `for image, label in …`. */
static bool is_key(const Batch *self, Py_ssize_t i)
{
    return pst_batch_at(self->keep.batch, (size_t)i)->dtype == PST_DTYPE_BYTES &&
           PyUnicode_CompareWithASCIIString(PyTuple_GetItem(self->names, i), "key") == 0;
}

static PyObject *batch_iter(PyObject *object)
{
    Batch *self = (Batch *)object;
    Py_ssize_t count = batch_length(object);
    PyObject *values = PyList_New(0);
    for (Py_ssize_t i = 0; values && i < count; i++) {
        if (count > 1 && is_key(self, i))
            continue;
        PyObject *value = field(self, (size_t)i);
        if (!value || PyList_Append(values, value) < 0)
            Py_CLEAR(values);
        Py_XDECREF(value);
    }
    PyObject *iterator = values ? PyObject_GetIter(values) : NULL;
    Py_XDECREF(values);
    return iterator;
}

static PyObject *batch_keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(((Batch *)self)->names);
}

static PyObject *batch_items(PyObject *self, PyObject *unused)
{
    Py_ssize_t count = batch_length(self);
    PyObject *items = PyTuple_New(count);
    (void)unused;
    for (Py_ssize_t i = 0; items && i < count; i++) {
        PyObject *pair = Py_BuildValue("(ON)", PyTuple_GetItem(((Batch *)self)->names, i), field((Batch *)self, (size_t)i));
        if (!pair || PyTuple_SetItem(items, i, pair) < 0)
            Py_CLEAR(items);
    }
    return items;
}

static PyObject *batch_get(PyObject *self, PyObject *args)
{
    PyObject *name, *fallback = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:get", &name, &fallback))
        return NULL;
    Py_ssize_t i = find((Batch *)self, name);
    if (i < 0)
        return PyErr_Occurred() ? NULL : Py_NewRef(fallback);
    return field((Batch *)self, (size_t)i);
}

static PyObject *get_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(pst_batch_size(((Batch *)self)->keep.batch));
}

static PyObject *batch_repr(PyObject *self)
{
    PyObject *items = batch_items(self, NULL);
    PyObject *dict = items ? PyDict_New() : NULL, *text = NULL;
    if (dict && PyDict_MergeFromSeq2(dict, items, 1) == 0)
        text = PyUnicode_FromFormat("penstock.Batch(%R)", dict);
    Py_XDECREF(dict);
    Py_XDECREF(items);
    return text;
}

static PyMethodDef batch_methods[] = {
    {"keys", batch_keys, METH_NOARGS, "The names of the fields."},
    {"values", batch_values, METH_NOARGS, "The tensors."},
    {"items", batch_items, METH_NOARGS, "(name, tensor) of each field."},
    {"get", batch_get, METH_VARARGS, "The tensor of that name, or the second argument."},
    {0},
};

static PyGetSetDef batch_getset[] = {
    {"size", get_size, NULL, "How many elements it has; the last batch of an epoch may have fewer.", NULL},
    {0},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, "Named tensors. batch[\"image\"], dict(batch), **batch; and unpacked in order: image, label = batch. A field "
                "`key` of bytes, the name of a sample's file, is not unpacked: batch[\"key\"]. Without batch(…) in the "
                "dataset, the fields are those of one element."},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_repr, batch_repr},
    {Py_tp_iter, batch_iter},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_getset},
    {Py_sq_length, batch_length},
    {Py_sq_item, batch_item},
    {Py_sq_contains, batch_contains},
    {Py_mp_length, batch_length},
    {Py_mp_subscript, batch_subscript},
    {0},
};

static PyType_Spec batch_spec = {.name = "penstock.Batch",
                                 .basicsize = sizeof(Batch),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = batch_slots};

bool batch_type_create(PyObject *module)
{
    batch_type = type_add(module, &batch_spec);
    return batch_type != NULL;
}
