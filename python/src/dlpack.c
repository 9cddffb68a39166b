/* dlpack.c: tensors as DLPack capsules, versioned and legacy. A consumer's deleter may run on any thread. */
#include "dlpack.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

static uint8_t code_of(pst_dtype dtype)
{
    switch (dtype) {
    case PST_DTYPE_U8:
        return DLPACK_UINT;
    case PST_DTYPE_I32:
    case PST_DTYPE_I64:
        return DLPACK_INT;
    case PST_DTYPE_BF16:
        return DLPACK_BFLOAT;
    default:
        return DLPACK_FLOAT;
    }
}

struct export
{
    union {
        struct dl_legacy legacy;
        struct dl_versioned versioned;
    };
    keeper keep;
    int64_t shape[PST_MAX_RANK], strides[PST_MAX_RANK];
};

static void export_free(struct export *e)
{
    keeper_unref(&e->keep);
    free(e);
}

static void delete_legacy(struct dl_legacy *self)
{
    export_free(self->context);
}

static void delete_versioned(struct dl_versioned *self)
{
    export_free(self->context);
}

/* The capsule was not consumed: a consumer renames it. */
static void capsule_destroy(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (name && (strcmp(name, "dltensor") == 0 || strcmp(name, "dltensor_versioned") == 0)) {
        struct dl_legacy *m = PyCapsule_GetPointer(capsule, name);
        if (strcmp(name, "dltensor") == 0)
            m->deleter(m);
        else
            ((struct dl_versioned *)(void *)m)->deleter((struct dl_versioned *)(void *)m);
    }
}

static void fill_dl(struct export *e, struct dl_tensor *dl, const pst_tensor *t)
{
    int64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        e->shape[d] = (int64_t)t->shape[d];
        e->strides[d] = stride;
        stride *= e->shape[d];
    }
    *dl = (struct dl_tensor){
        .data = t->data, .device = {DLPACK_CPU, 0}, .ndim = (int32_t)t->rank, .shape = e->shape, .strides = e->strides};
    dl->dtype.code = code_of(t->dtype);
    dl->dtype.bits = (uint8_t)(8 * pst_dtype_size(t->dtype));
    dl->dtype.lanes = 1;
}

static bool device_is_ours(PyObject *device)
{
    long type, id;
    if (device == Py_None)
        return true;
    if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ll", &type, &id))
        return false;
    return type == DLPACK_CPU && id == 0;
}

/* The tensor to export: itself, or a copy where one was asked for. */
static bool export_tensor(const Tensor *self, bool copy, struct export *e, pst_tensor *ret)
{
    *ret = self->t;
    if (!copy) {
        e->keep = keeper_ref(&self->keep);
        return true;
    }
    size_t size = values_bytes(&self->t);
    e->keep.block = block_create(size);
    if (!e->keep.block)
        return false;
    if (size)
        memcpy(block_data(e->keep.block), self->t.data, size);
    ret->data = block_data(e->keep.block);
    return true;
}

PyObject *tensor_dlpack(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    Tensor *self = (Tensor *)object;
    pst_tensor t;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device, &copy))
        return NULL;
    if (!tensor_is_plain(&self->t, PyExc_BufferError))
        return NULL;
    if (stream != Py_None || !device_is_ours(device)) {
        PyErr_Clear();
        return PyErr_Format(PyExc_BufferError, "the data is in the CPU's memory: no stream, and no device but (1, 0)");
    }
    bool versioned = false;
    if (PyTuple_Check(max_version) && PyTuple_Size(max_version) > 0)
        versioned = PyLong_AsLong(PyTuple_GetItem(max_version, 0)) >= 1;
    if (PyErr_Occurred())
        return NULL;
    struct export *e = calloc(1, sizeof(*e));
    if (!e || !export_tensor(self, copy == Py_True, e, &t)) {
        free(e);
        return PyErr_NoMemory();
    }
    if (versioned) {
        e->versioned.version.major = 1;
        e->versioned.context = e;
        e->versioned.deleter = delete_versioned;
        e->versioned.flags = copy == Py_True ? DLPACK_COPIED : 0;
        fill_dl(e, &e->versioned.tensor, &t);
    } else {
        e->legacy.context = e;
        e->legacy.deleter = delete_legacy;
        fill_dl(e, &e->legacy.tensor, &t);
    }
    PyObject *capsule = PyCapsule_New(e, versioned ? "dltensor_versioned" : "dltensor", capsule_destroy);
    if (!capsule)
        export_free(e);
    return capsule;
}

PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}
