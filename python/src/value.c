/* value.c: what Python made, as the engine takes it: fields with types and shapes, values copied into tensors. */
#include "callback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Types and shapes ---- */

static PyObject *shape_object(const pst_field *f)
{
    PyObject *shape = PyTuple_New(f->rank);
    for (uint32_t d = 0; shape && d < f->rank; d++) {
        PyObject *n = f->shape[d] == PST_ANY ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(f->shape[d]);
        if (!n || PyTuple_SetItem(shape, d, n) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

PyObject *spec_object(const pst_spec *spec)
{
    PyObject *fields = PyTuple_New((Py_ssize_t)spec->count);
    for (size_t i = 0; fields && i < spec->count; i++) {
        const pst_field *f = &spec->field[i];
        PyObject *field = Py_BuildValue("(ssN)", f->name, pst_dtype_name(f->dtype), shape_object(f));
        if (!field || PyTuple_SetItem(fields, (Py_ssize_t)i, field) < 0)
            Py_CLEAR(fields);
    }
    return fields;
}

bool take_shape(PyObject *shape, pst_field *f)
{
    if (!PyTuple_Check(shape) || PyTuple_Size(shape) > PST_MAX_RANK - 1)
        return PyErr_Format(PyExc_ValueError, "shape %R; expected a tuple of at most %d dimensions", shape, PST_MAX_RANK - 1),
               false;
    f->rank = (uint32_t)PyTuple_Size(shape);
    for (uint32_t d = 0; d < f->rank; d++) {
        PyObject *n = PyTuple_GetItem(shape, d);
        f->shape[d] = n == Py_None ? PST_ANY : PyLong_AsUnsignedLongLong(n);
        if (PyErr_Occurred())
            return false;
    }
    return true;
}

/* (name, alias, dtype, shape): an alias has neither type nor shape. */
static bool take_field(PyObject *tuple, const pst_spec *in, pst_field *f)
{
    const char *name;
    int alias;
    PyObject *dtype, *shape;
    *f = (pst_field){.alias = -1};
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "siOO", &name, &alias, &dtype, &shape))
        return false;
    if (strlen(name) >= PST_NAME_SIZE)
        return PyErr_Format(PyExc_ValueError, "the name of a field has at most %d bytes: %s", PST_NAME_SIZE - 1, name), false;
    if (alias >= 0 && in && (size_t)alias < in->count)
        *f = in->field[alias];
    f->alias = in && (size_t)alias < in->count ? alias : -1;
    memset(f->name, 0, sizeof(f->name));
    memcpy(f->name, name, strlen(name));
    if (f->alias >= 0)
        return true;
    f->dtype = dtype_of_name(dtype);
    return f->dtype != PST_DTYPE_NONE && take_shape(shape, f);
}

bool take_fields(PyObject *list, const pst_spec *in, pst_field **ret, size_t *ret_count)
{
    Py_ssize_t count = PyTuple_Check(list) ? PyTuple_Size(list) : -1;
    if (count < 1 || count > PST_MAX_FIELDS)
        return PyErr_Format(PyExc_ValueError, "an element has 1 to %d fields", PST_MAX_FIELDS), false;
    *ret = calloc((size_t)count, sizeof(**ret));
    if (!*ret)
        return PyErr_NoMemory(), false;
    *ret_count = (size_t)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!take_field(PyTuple_GetItem(list, i), in, *ret + i))
            return false;
    return true;
}

/* ---- Values that Python made ---- */

static bool put_bytes(pst_ctx *ctx, PyObject *value, pst_bytes *ret)
{
    Py_buffer view;
    PyObject *text = PyUnicode_Check(value) ? PyUnicode_AsEncodedString(value, "utf-8", "surrogateescape") : Py_NewRef(value);
    if (!text || PyObject_GetBuffer(text, &view, PyBUF_SIMPLE) < 0) {
        Py_XDECREF(text);
        return false;
    }
    size_t size = (size_t)view.len;
    uint8_t *copy = pst_scratch(ctx, size ? size : 1);
    if (copy && size)
        memcpy(copy, view.buf, size);
    PyBuffer_Release(&view);
    Py_DECREF(text);
    if (!copy)
        return PyErr_NoMemory(), false;
    *ret = (pst_bytes){.data = copy, .length = size};
    return true;
}

static bool put_strings(pst_ctx *ctx, PyObject *value, const pst_field *f, pst_tensor *out)
{
    PyObject *list = f->rank == 1 ? PySequence_List(value) : NULL;
    if (!list)
        return PyErr_Occurred() ? false : (PyErr_SetString(PyExc_TypeError, "expected bytes, or a list of them"), false);
    Py_ssize_t count = PyList_Size(list);
    bool fine = f->shape[0] == PST_ANY || (uint64_t)count == f->shape[0];
    if (!fine)
        PyErr_Format(PyExc_ValueError, "field %s: %zd values, planned %llu", f->name, count, (unsigned long long)f->shape[0]);
    if (fine && !out->data)
        out->data = pst_scratch(ctx, (size_t)(count ? count : 1) * sizeof(pst_bytes));
    fine = fine && out->data;
    for (Py_ssize_t i = 0; fine && i < count; i++)
        fine = put_bytes(ctx, PyList_GetItem(list, i), (pst_bytes *)out->data + i);
    out->shape[0] = (uint64_t)count;
    Py_DECREF(list);
    return fine;
}

/* Python's whole numbers have no bounds, a field has. */
static bool put_integer(PyObject *value, const pst_field *f, void *to)
{
    int64_t least = f->dtype == PST_DTYPE_U8 ? 0 : f->dtype == PST_DTYPE_I32 ? INT32_MIN : INT64_MIN;
    int64_t most = f->dtype == PST_DTYPE_U8 ? UINT8_MAX : f->dtype == PST_DTYPE_I32 ? INT32_MAX : INT64_MAX;
    int64_t i = PyLong_AsLongLong(value);
    bool beyond = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError);
    if (PyErr_Occurred() && !beyond) {
        PyErr_Clear();
        return PyErr_Format(PyExc_TypeError, "field %s: %R for %s; return a whole number", f->name, value,
                            pst_dtype_name(f->dtype)),
               false;
    }
    if (beyond || i < least || i > most) {
        PyErr_Clear();
        return PyErr_Format(PyExc_OverflowError, "field %s: %S does not fit %s, which holds %lld to %lld; declare a wider type",
                            f->name, value, pst_dtype_name(f->dtype), (long long)least, (long long)most),
               false;
    }
    memcpy(to, &i, pst_dtype_size(f->dtype)); /* little-endian: the low bytes */
    return true;
}

/* A number without dimensions, as Python has them. */
static bool put_number(PyObject *value, const pst_field *f, void *to)
{
    if (f->dtype == PST_DTYPE_F32 || f->dtype == PST_DTYPE_F64) {
        double d = PyFloat_AsDouble(value);
        float f32 = (float)d;
        if (f->dtype == PST_DTYPE_F32 && isinf(f32) && isfinite(d))
            return PyErr_Format(PyExc_OverflowError, "field %s: %S does not fit float32; declare a wider type", f->name, value), false;
        memcpy(to, f->dtype == PST_DTYPE_F32 ? (void *)&f32 : (void *)&d, pst_dtype_size(f->dtype));
    } else if (f->dtype == PST_DTYPE_U8 || f->dtype == PST_DTYPE_I32 || f->dtype == PST_DTYPE_I64) {
        return put_integer(value, f, to);
    } else {
        PyErr_Format(PyExc_TypeError, "field %s: a Python number for %s; return an array", f->name, pst_dtype_name(f->dtype));
    }
    return !PyErr_Occurred();
}

static bool check_array(const Py_buffer *view, const pst_field *f)
{
    pst_dtype found = dtype_of_format(view->format, view->itemsize);
    bool fits = found == f->dtype && (uint32_t)view->ndim == f->rank;
    for (uint32_t d = 0; fits && d < f->rank; d++)
        fits = f->shape[d] == PST_ANY || f->shape[d] == (uint64_t)view->shape[d];
    if (fits)
        return true;
    PyObject *planned = shape_object(f), *shape = PyTuple_New(view->ndim);
    for (int d = 0; shape && d < view->ndim; d++)
        PyTuple_SetItem(shape, d, PyLong_FromSsize_t(view->shape[d]));
    PyErr_Format(PyExc_ValueError, "field %s: %s %R, planned %s %R; declare what varies: spec={\"%s\": (\"%s\", (None, ...))}",
                 f->name,
                 found          ? pst_dtype_name(found)
                 : view->format ? view->format
                                : "B",
                 shape, pst_dtype_name(f->dtype), planned, f->name, pst_dtype_name(f->dtype));
    Py_XDECREF(planned);
    Py_XDECREF(shape);
    return false;
}

bool put_value(pst_ctx *ctx, PyObject *value, const pst_field *f, pst_tensor *out)
{
    Py_buffer view;
    if (f->dtype == PST_DTYPE_BYTES && f->rank > 0)
        return put_strings(ctx, value, f, out);
    if (!out->data && f->rank == 0)
        out->data = pst_scratch(ctx, pst_dtype_size(f->dtype));
    if (f->dtype == PST_DTYPE_BYTES)
        return out->data && put_bytes(ctx, value, out->data);
    if (f->rank == 0 && (PyLong_Check(value) || PyFloat_Check(value)))
        return out->data && put_number(value, f, out->data);
    if (PyObject_GetBuffer(value, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0)
        return false;
    bool fine = check_array(&view, f);
    for (int d = 0; fine && d < view.ndim; d++)
        out->shape[d] = (uint64_t)view.shape[d];
    if (fine && !out->data)
        out->data = pst_scratch(ctx, view.len ? (size_t)view.len : 1);
    if (fine && out->data)
        memcpy(out->data, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return fine && (out->data || PyErr_NoMemory());
}
