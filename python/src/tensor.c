/* tensor.c: penstock.Tensor: the data of a field, exported without a copy: DLPack, the buffer protocol, __array_interface__.
 *
 * A tensor, and whatever was made from it, keeps the memory of its batch alive. Deleters run on any thread, without the GIL. */
#include "tensor.h"

#include <string.h>

PyTypeObject *tensor_type;

PyObject *tensor_create(const pst_tensor *t, keeper k)
{
    Tensor *self = PyObject_New(Tensor, tensor_type);
    if (!self) {
        keeper_unref(&k);
        return NULL;
    }
    self->t = *t;
    self->keep = k;
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    keeper_unref(&((Tensor *)object)->keep);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- Types of values ---- */

static const struct {
    pst_dtype dtype;
    const char *format, *array; /* PEP 3118, __array_interface__ */
} types[] = {
    {PST_DTYPE_U8, "B", "|u1"},  {PST_DTYPE_I32, "i", "<i4"}, {PST_DTYPE_I64, "q", "<i8"}, {PST_DTYPE_F16, "e", "<f2"},
    {PST_DTYPE_BF16, "", "<V2"}, {PST_DTYPE_F32, "f", "<f4"}, {PST_DTYPE_F64, "d", "<f8"},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

static size_t type_index(pst_dtype dtype)
{
    size_t i = 0;
    while (i < TYPES && types[i].dtype != dtype)
        i++;
    return i; /* TYPES: bytes */
}

static pst_dtype dtype_of_letter(const char *format)
{
    if (!format)
        return PST_DTYPE_U8;
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (strcmp(format, "l") == 0)
        return sizeof(long) == 8 ? PST_DTYPE_I64 : PST_DTYPE_I32;
    if (strcmp(format, "?") == 0)
        return PST_DTYPE_U8;
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(format, types[i].format) == 0 && *format)
            return types[i].dtype;
    return PST_DTYPE_NONE;
}

/* The meaning of a letter depends on the prefix, and some exporters ignore that: the size of an item decides. */
pst_dtype dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    pst_dtype dtype = dtype_of_letter(format);
    return dtype != PST_DTYPE_NONE && pst_dtype_size(dtype) == (size_t)itemsize ? dtype : PST_DTYPE_NONE;
}

pst_dtype dtype_of_name(PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    for (int d = PST_DTYPE_BYTES; text && d <= PST_DTYPE_F64; d++)
        if (strcmp(text, pst_dtype_name((pst_dtype)d)) == 0)
            return (pst_dtype)d;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError,
                     "%R is not a field type; those are bytes, uint8, int32, int64, float16, bfloat16, float32 and float64",
                     name);
    return PST_DTYPE_NONE;
}

static bool is_ragged(const pst_tensor *t)
{
    return t->row_splits != NULL;
}

/* Rows of the first dimension of the values as they lie. */
static uint64_t row_bytes(const pst_tensor *t, uint32_t from)
{
    uint64_t bytes = pst_dtype_size(t->dtype);
    for (uint32_t d = from; d < t->rank; d++)
        bytes *= t->shape[d];
    return bytes;
}

size_t values_bytes(const pst_tensor *t)
{
    return is_ragged(t) ? (size_t)((uint64_t)t->row_splits[t->shape[0]] * row_bytes(t, 2)) : (size_t)row_bytes(t, 0);
}

static float half_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023, bits;
    float value;
    if (exponent == 0) { /* zero and subnormal: mantissa × 2^-24 */
        value = (float)mantissa / 16777216.0f;
        return sign ? -value : value;
    }
    bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static PyObject *scalar(pst_dtype dtype, const void *at)
{
    int32_t i32;
    int64_t i64;
    uint16_t u16;
    uint32_t bits;
    float f32;
    double f64;
    pst_bytes bytes;
    switch (dtype) {
    case PST_DTYPE_U8:
        return PyLong_FromLong(*(const uint8_t *)at);
    case PST_DTYPE_I32:
        memcpy(&i32, at, sizeof(i32));
        return PyLong_FromLong(i32);
    case PST_DTYPE_I64:
        memcpy(&i64, at, sizeof(i64));
        return PyLong_FromLongLong(i64);
    case PST_DTYPE_F16:
        memcpy(&u16, at, sizeof(u16));
        return PyFloat_FromDouble(half_value(u16));
    case PST_DTYPE_BF16:
        memcpy(&u16, at, sizeof(u16));
        bits = (uint32_t)u16 << 16;
        memcpy(&f32, &bits, sizeof(f32));
        return PyFloat_FromDouble(f32);
    case PST_DTYPE_F32:
        memcpy(&f32, at, sizeof(f32));
        return PyFloat_FromDouble(f32);
    case PST_DTYPE_F64:
        memcpy(&f64, at, sizeof(f64));
        return PyFloat_FromDouble(f64);
    case PST_DTYPE_BYTES:
        memcpy(&bytes, at, sizeof(bytes));
        return PyBytes_FromStringAndSize((const char *)bytes.data, (Py_ssize_t)bytes.length);
    case PST_DTYPE_NONE:
        break;
    }
    return PyErr_Format(PyExc_SystemError, "a tensor without a type");
}

static pst_tensor row_of(const pst_tensor *t, Py_ssize_t i)
{
    pst_tensor row = {.dtype = t->dtype, .rank = t->rank - 1};
    memcpy(row.shape, t->shape + 1, row.rank * sizeof(*row.shape));
    if (is_ragged(t)) {
        row.shape[0] = (uint64_t)(t->row_splits[i + 1] - t->row_splits[i]);
        row.data = (uint8_t *)t->data + (uint64_t)t->row_splits[i] * row_bytes(t, 2);
    } else {
        row.data = (uint8_t *)t->data + (uint64_t)i * row_bytes(t, 1);
    }
    return row;
}

PyObject *tensor_row(const pst_tensor *t, const keeper *k, Py_ssize_t i)
{
    pst_tensor row = row_of(t, i);
    return row.rank == 0 ? scalar(row.dtype, row.data) : tensor_create(&row, keeper_ref(k));
}

PyObject *tensor_element(const pst_tensor *t, const keeper *k)
{
    pst_tensor row = row_of(t, 0);
    return row.rank == 0 && row.dtype == PST_DTYPE_BYTES ? scalar(row.dtype, row.data) : tensor_create(&row, keeper_ref(k));
}

PyObject *tensor_copy(const pst_tensor *t)
{
    size_t size = values_bytes(t);
    if (t->rank == 0)
        return scalar(t->dtype, t->data);
    if (is_ragged(t))
        return PyErr_Format(PyExc_TypeError, "a field whose length varies cannot be copied as one block");
    if (t->dtype == PST_DTYPE_BYTES) { /* payloads lie elsewhere: a list is a copy of them all */
        PyObject *list = PyList_New(0), *item = NULL;
        for (Py_ssize_t i = 0; list && i < (Py_ssize_t)t->shape[0]; i++) {
            pst_tensor row = *t;
            row.rank--;
            memmove(row.shape, t->shape + 1, row.rank * sizeof(*row.shape));
            row.data = (uint8_t *)t->data + (uint64_t)i * row_bytes(t, 1);
            item = tensor_copy(&row);
            if (!item || PyList_Append(list, item) < 0)
                Py_CLEAR(list);
            Py_XDECREF(item);
        }
        return list;
    }
    struct block *b = block_create(size);
    if (!b)
        return PyErr_NoMemory();
    if (size)
        memcpy(block_data(b), t->data, size);
    pst_tensor own = *t;
    own.data = block_data(b);
    return tensor_create(&own, (keeper){.block = b});
}

/* ---- Buffers ---- */

bool tensor_is_plain(const pst_tensor *t, PyObject *exception)
{
    if (t->dtype == PST_DTYPE_BYTES)
        PyErr_SetString(exception, "a field of bytes has no numbers to export: take its elements, or tolist()");
    else if (is_ragged(t))
        PyErr_SetString(exception, "a field whose length varies: take .values and .row_splits, its elements, or tolist()");
    else
        return true;
    return false;
}

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    Tensor *self = (Tensor *)object;
    size_t type = type_index(self->t.dtype);
    view->obj = NULL;
    if (!tensor_is_plain(&self->t, PyExc_BufferError))
        return -1;
    if (self->t.dtype == PST_DTYPE_BF16 && flags & PyBUF_FORMAT) {
        PyErr_SetString(PyExc_BufferError, "the buffer protocol does not support bfloat16: use DLPack (torch.from_dlpack, jax.numpy.from_dlpack)");
        return -1;
    }
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && self->t.rank > 1) {
        PyErr_SetString(PyExc_BufferError, "rows lie one after the other: ask for C order");
        return -1;
    }
    Py_ssize_t stride = (Py_ssize_t)pst_dtype_size(self->t.dtype);
    view->itemsize = stride;
    for (uint32_t d = self->t.rank; d-- > 0;) {
        self->strides[d] = stride;
        stride *= (Py_ssize_t)self->t.shape[d];
    }
    view->buf = self->t.data;
    view->len = stride;
    view->readonly = 0;
    view->ndim = (int)self->t.rank;
    view->format = flags & PyBUF_FORMAT ? (char *)types[type].format : NULL;
    view->shape = flags & PyBUF_ND ? (Py_ssize_t *)self->t.shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    view->obj = Py_NewRef(object);
    return 0;
}

static PyObject *shape_tuple(const pst_tensor *t)
{
    PyObject *shape = PyTuple_New(t->rank);
    for (uint32_t d = 0; shape && d < t->rank; d++) {
        PyObject *n = t->shape[d] == PST_ANY ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(t->shape[d]);
        if (!n || PyTuple_SetItem(shape, d, n) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *get_array_interface(PyObject *object, void *closure)
{
    const pst_tensor *t = &((Tensor *)object)->t;
    (void)closure;
    if (!tensor_is_plain(t, PyExc_AttributeError))
        return NULL;
    return Py_BuildValue("{s:i,s:s,s:N,s:(Ki)}", "version", 3, "typestr", types[type_index(t->dtype)].array, "shape",
                         shape_tuple(t), "data", (unsigned long long)(uintptr_t)t->data, 0);
}

/* ---- As a Python object ---- */

static PyObject *get_shape(PyObject *self, void *closure)
{
    (void)closure;
    return shape_tuple(&((Tensor *)self)->t);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(pst_dtype_name(((Tensor *)self)->t.dtype));
}

static PyObject *get_ndim(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(((Tensor *)self)->t.rank);
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(values_bytes(&((Tensor *)self)->t));
}

static PyObject *get_row_splits(PyObject *object, void *closure)
{
    Tensor *self = (Tensor *)object;
    (void)closure;
    if (!is_ragged(&self->t))
        Py_RETURN_NONE;
    pst_tensor splits = {
        .dtype = PST_DTYPE_I64, .rank = 1, .shape = {self->t.shape[0] + 1}, .data = (void *)(uintptr_t)self->t.row_splits};
    return tensor_create(&splits, keeper_ref(&self->keep));
}

static PyObject *get_values(PyObject *object, void *closure)
{
    Tensor *self = (Tensor *)object;
    (void)closure;
    if (!is_ragged(&self->t))
        return Py_NewRef(object);
    pst_tensor flat = {.dtype = self->t.dtype, .rank = self->t.rank - 1, .data = self->t.data};
    memcpy(flat.shape, self->t.shape + 1, flat.rank * sizeof(*flat.shape));
    flat.shape[0] = (uint64_t)self->t.row_splits[self->t.shape[0]];
    return tensor_create(&flat, keeper_ref(&self->keep));
}

static PyObject *tensor_data_ptr(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((Tensor *)self)->t.data);
}

static Py_ssize_t tensor_length(PyObject *self)
{
    const pst_tensor *t = &((Tensor *)self)->t;
    if (t->rank > 0)
        return (Py_ssize_t)t->shape[0];
    PyErr_SetString(PyExc_TypeError, "a tensor without dimensions has no length");
    return -1;
}

static PyObject *tensor_item(PyObject *self, Py_ssize_t i)
{
    Py_ssize_t length = tensor_length(self);
    if (length < 0)
        return NULL;
    if (i < 0 || i >= length)
        return PyErr_Format(PyExc_IndexError, "element %zd of %zd", i, length);
    return tensor_row(&((Tensor *)self)->t, &((Tensor *)self)->keep, i);
}

static PyObject *tensor_subscript(PyObject *self, PyObject *key)
{
    if (!PyIndex_Check(key))
        return PyErr_Format(PyExc_TypeError, "a tensor's elements have numbers; for more, take numpy.asarray(tensor)");
    Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError), length = tensor_length(self);
    if (PyErr_Occurred())
        return NULL;
    return tensor_item(self, i < 0 ? i + length : i);
}

static PyObject *tensor_tolist(PyObject *self, PyObject *unused)
{
    const Tensor *tensor = (Tensor *)self;
    (void)unused;
    if (tensor->t.rank == 0)
        return scalar(tensor->t.dtype, tensor->t.data);
    Py_ssize_t length = tensor_length(self);
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < length; i++) {
        PyObject *item = tensor_item(self, i);
        if (item && Py_TYPE(item) == tensor_type) {
            PyObject *inner = tensor_tolist(item, NULL);
            Py_DECREF(item);
            item = inner;
        }
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* The number of a tensor without dimensions. */
static PyObject *tensor_number(PyObject *self, PyObject *unused)
{
    const Tensor *tensor = (Tensor *)self;
    (void)unused;
    if (tensor->t.rank > 0)
        return PyErr_Format(PyExc_TypeError, "a tensor of %u dimensions is not one number", (unsigned)tensor->t.rank);
    return scalar(tensor->t.dtype, tensor->t.data);
}

static PyObject *tensor_int(PyObject *self)
{
    PyObject *number = tensor_number(self, NULL), *result = number ? PyNumber_Long(number) : NULL;
    Py_XDECREF(number);
    return result;
}

static PyObject *tensor_index(PyObject *self)
{
    PyObject *number = tensor_number(self, NULL), *result = number ? PyNumber_Index(number) : NULL;
    Py_XDECREF(number);
    return result;
}

static PyObject *tensor_float(PyObject *self)
{
    PyObject *number = tensor_number(self, NULL), *result = number ? PyNumber_Float(number) : NULL;
    Py_XDECREF(number);
    return result;
}

static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    (void)unused;
    PyObject *array = numpy ? PyObject_CallMethod(numpy, "asarray", "(O)", self) : NULL;
    Py_XDECREF(numpy);
    return array;
}

/* NumPy asks here only where the buffer protocol refuses: bytes become an array of objects. */
static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None, *array = NULL;
    const pst_tensor *t = &((Tensor *)self)->t;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    if (t->dtype != PST_DTYPE_BYTES || is_ragged(t)) {
        if (tensor_is_plain(t, PyExc_TypeError))
            PyErr_SetString(PyExc_TypeError, "NumPy does not support bfloat16: use DLPack");
        return NULL;
    }
    PyObject *list = tensor_tolist(self, NULL), *numpy = list ? PyImport_ImportModule("numpy") : NULL;
    PyObject *make = numpy ? PyObject_GetAttrString(numpy, "array") : NULL;
    PyObject *type = dtype == Py_None ? (PyObject *)&PyBaseObject_Type : dtype;
    if (make)
        array = PyObject_CallFunctionObjArgs(make, list, type, NULL);
    Py_XDECREF(make);
    Py_XDECREF(numpy);
    Py_XDECREF(list);
    return array;
}

static PyObject *tensor_repr(PyObject *self)
{
    PyObject *shape = shape_tuple(&((Tensor *)self)->t);
    PyObject *text =
        shape ? PyUnicode_FromFormat("penstock.Tensor(shape=%R, dtype=%s)", shape, pst_dtype_name(((Tensor *)self)->t.dtype))
              : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS, "A DLPack capsule; no copy."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "(1, 0): the CPU."},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_VARARGS | METH_KEYWORDS, "Bytes as an array of objects."},
    {"numpy", tensor_numpy, METH_NOARGS, "numpy.asarray(self): the same memory."},
    {"tolist", tensor_tolist, METH_NOARGS, "Nested lists of Python numbers or bytes."},
    {"item", tensor_number, METH_NOARGS, "The number of a tensor without dimensions."},
    {"data_ptr", tensor_data_ptr, METH_NOARGS, "The address of the first value."},
    {0},
};

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "Its dimensions; None for one that varies.", NULL},
    {"dtype", get_dtype, NULL, "The name of its type: uint8, float32, bytes…", NULL},
    {"ndim", get_ndim, NULL, "The number of its dimensions.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of its values.", NULL},
    {"row_splits", get_row_splits, NULL, "Where each element's rows begin in values; None if all are of one length.", NULL},
    {"values", get_values, NULL, "All rows, one after the other; the tensor itself if all elements are of one length.", NULL},
    {"__array_interface__", get_array_interface, NULL, NULL, NULL},
    {0},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_doc,
     "The data of one field. numpy.asarray, torch.from_dlpack, jax.numpy.from_dlpack and memoryview take it without a copy; "
     "writable, and valid for as long as anything refers to it."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {Py_nb_int, tensor_int},
    {Py_nb_index, tensor_index},
    {Py_nb_float, tensor_float},
    {Py_sq_length, tensor_length},
    {Py_sq_item, tensor_item},
    {Py_mp_length, tensor_length},
    {Py_mp_subscript, tensor_subscript},
    {Py_bf_getbuffer, tensor_getbuffer},
    {0},
};

static PyType_Spec tensor_spec = {.name = "penstock.Tensor",
                                  .basicsize = sizeof(Tensor),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  .slots = tensor_slots};

bool tensor_type_create(PyObject *module)
{
    tensor_type = type_add(module, &tensor_spec);
    return tensor_type != NULL;
}
