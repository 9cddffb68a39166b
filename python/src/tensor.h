/* tensor.h: penstock.Tensor from the inside. */
#ifndef PYTHON_TENSOR_H
#define PYTHON_TENSOR_H

#include "core.h"

typedef struct {
    PyObject base;
    pst_tensor t;
    keeper keep;
    Py_ssize_t strides[PST_MAX_RANK]; /* in bytes; filled when a buffer is asked for */
} Tensor;

/* True: numbers of a fixed shape. Otherwise raises `exception` with what to do instead. */
bool tensor_is_plain(const pst_tensor *t, PyObject *exception);

PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused);

#endif
