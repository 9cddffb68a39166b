/* callback.c: Python functions and generators, compiled functions and views as operations of the engine.
 *
 * They are ordinary pst_op_class operations: they run on the engine's workers, in its order, into its batches. A Python
 * function takes the GIL for its call; its inputs are copies, as it may keep them. A compiled one is called as it is. What a
 * Python function raises is kept, under a number that travels in the error, and becomes the cause of what the consumer sees. */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*compiled_fn)(const void *const *in, void *const *out, const int64_t *sizes);

struct callback {
    PyObject *object, *run; /* the Python side; NULL for views */
    PyObject *failures;
    char name[128], kind[16];
    compiled_fn compiled;
    bool seeded;
    uint64_t fingerprint; /* of the function */
    size_t reads[PST_MAX_FIELDS], read_count;
    pst_spec out;                                    /* as planned */
    char dtype[16], shape[64], field[PST_NAME_SIZE]; /* of a view, as written */
    size_t number;                                   /* of its field */
};

struct config {
    const char *function, *workers;
    struct callback *callback;
};

static _Atomic int failure_count;

void callback_destroy(struct callback *c)
{
    if (!c)
        return;
    Py_XDECREF(c->object);
    Py_XDECREF(c->run);
    Py_XDECREF(c->failures);
    free(c);
}

int callback_traverse(struct callback *c, visitproc visit, void *arg)
{
    Py_VISIT(c->object);
    Py_VISIT(c->run);
    Py_VISIT(c->failures);
    return 0;
}

/* ---- The GIL ---- */

/* A thread that Python does not know would be made known, and forgotten, with every call: 10 µs and more. It stays known until
 * it ends. */
static pthread_key_t known_thread;
static pthread_once_t known_once = PTHREAD_ONCE_INIT;

static void forget_thread(void *state)
{
    if (interpreter_exits()) /* Python forgets them all */
        return;
    PyEval_RestoreThread(state);
    PyThreadState_Clear(state);
    PyEval_SaveThread();
    PyThreadState_Delete(state);
}

static void make_key(void)
{
    pthread_key_create(&known_thread, forget_thread);
}

static PyGILState_STATE enter_python(void)
{
    if (!PyGILState_GetThisThreadState()) {
        pthread_once(&known_once, make_key);
        PyGILState_Ensure();
        pthread_setspecific(known_thread, PyEval_SaveThread());
    }
    return PyGILState_Ensure();
}

/* ---- From and to Python ---- */

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

static bool take_shape(PyObject *shape, pst_field *f)
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

static bool take_fields(PyObject *list, const pst_spec *in, pst_spec *ret)
{
    Py_ssize_t count = PyTuple_Check(list) ? PyTuple_Size(list) : -1;
    if (count < 1 || count > PST_MAX_FIELDS)
        return PyErr_Format(PyExc_ValueError, "an element has 1 to %d fields", PST_MAX_FIELDS), false;
    ret->count = (size_t)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!take_field(PyTuple_GetItem(list, i), in, &ret->field[i]))
            return false;
    return true;
}

/* Keeps the exception that is set, and turns it into an error of the engine. */
static pst_status fail_python(struct callback *c, pst_error *reterr)
{
    PyObject *type, *value, *traceback;
    int number = atomic_fetch_add(&failure_count, 1) % 1000000 + 1000000; /* beyond all of errno */
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    PyObject *key = PyLong_FromLong(number), *text = PyObject_Str(value), *kind = PyObject_GetAttrString(type, "__name__");
    if (key && c->failures)
        PyDict_SetItem(c->failures, key, value);
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL,
               *name = kind ? PyUnicode_AsUTF8AndSize(kind, NULL) : NULL;
    pst_status st =
        pst_fail(reterr, PST_EINVAL, "%.60s: %.16s: %.150s", c->name, name ? name : "exception", words ? words : "");
    if (reterr)
        reterr->sys_errno = number;
    Py_XDECREF(key);
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Clear();
    return st;
}

/* ---- Values that Python made ---- */

static bool put_bytes(pst_ctx *ctx, PyObject *value, pst_bytes *ret)
{
    Py_buffer view;
    const char *text = NULL;
    Py_ssize_t length = 0;
    bool is_text = PyUnicode_Check(value);
    if (is_text ? !(text = PyUnicode_AsUTF8AndSize(value, &length)) : PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return false;
    size_t size = is_text ? (size_t)length : (size_t)view.len;
    uint8_t *copy = pst_scratch(ctx, size ? size : 1);
    if (copy && size)
        memcpy(copy, is_text ? text : view.buf, size);
    if (!is_text)
        PyBuffer_Release(&view);
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

/* A number without dimensions, as Python has them. */
static bool put_number(PyObject *value, const pst_field *f, void *to)
{
    if (f->dtype == PST_DTYPE_F32 || f->dtype == PST_DTYPE_F64) {
        double d = PyFloat_AsDouble(value);
        float f32 = (float)d;
        memcpy(to, f->dtype == PST_DTYPE_F32 ? (void *)&f32 : (void *)&d, pst_dtype_size(f->dtype));
    } else if (f->dtype == PST_DTYPE_U8 || f->dtype == PST_DTYPE_I32 || f->dtype == PST_DTYPE_I64) {
        int64_t i = PyLong_AsLongLong(value);
        memcpy(to, &i, pst_dtype_size(f->dtype)); /* little-endian: the low bytes */
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

static bool put_value(pst_ctx *ctx, PyObject *value, const pst_field *f, pst_tensor *out)
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

/* ---- map ---- */

static const pst_param map_params[] = {
    {"function", PST_PARAM_STRING, offsetof(struct config, function), "", 0, 0, NULL, "its name"},
    {"workers", PST_PARAM_STRING, offsetof(struct config, workers), "", 0, 0, NULL, "where it runs"},
    {0},
};

static bool plan_python(struct callback *c, const pst_spec *in, pst_spec *ret)
{
    PyObject *spec = spec_object(in), *reads = NULL, *fields = NULL;
    PyObject *plan = spec ? PyObject_CallMethod(c->object, "plan", "(N)", spec) : NULL;
    bool fine = plan && PyTuple_Check(plan) && PyArg_ParseTuple(plan, "O!O!", &PyTuple_Type, &reads, &PyTuple_Type, &fields);
    c->read_count = fine ? (size_t)PyTuple_Size(reads) : 0;
    fine = fine && c->read_count <= PST_MAX_FIELDS;
    for (size_t i = 0; fine && i < c->read_count; i++) {
        c->reads[i] = PyLong_AsSize_t(PyTuple_GetItem(reads, (Py_ssize_t)i));
        fine = !PyErr_Occurred() && c->reads[i] < in->count;
        if (fine)
            ret->reads |= UINT64_C(1) << c->reads[i];
    }
    fine = fine && take_fields(fields, in, ret);
    Py_XDECREF(plan);
    if (!fine && !PyErr_Occurred())
        PyErr_SetString(PyExc_SystemError, "the plan of a function is malformed");
    return fine;
}

static pst_status map_plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct callback *c = ((struct config *)config)->callback;
    pst_spec out = {0};
    PyGILState_STATE gil = enter_python();
    pst_status st = plan_python(c, in, &out) ? PST_OK : fail_python(c, reterr);
    PyGILState_Release(gil);
    if (st < 0)
        return st;
    c->out = out;
    *ret_out = out;
    return PST_OK;
}

static bool run_python(struct callback *c, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out)
{
    PyObject *args = PyTuple_New((Py_ssize_t)(c->read_count + c->seeded));
    for (size_t i = 0; args && i < c->read_count + c->seeded; i++) {
        PyObject *value = i < c->read_count ? tensor_copy(&in[c->reads[i]]) : PyLong_FromUnsignedLongLong(pst_random(ctx));
        if (!value || PyTuple_SetItem(args, (Py_ssize_t)i, value) < 0)
            Py_CLEAR(args);
    }
    PyObject *values = args ? PyObject_CallObject(c->run, args) : NULL;
    bool fine = values && PyTuple_Check(values);
    Py_ssize_t taken = 0;
    for (size_t f = 0; fine && f < c->out.count; f++)
        if (c->out.field[f].alias < 0)
            fine = taken < PyTuple_Size(values) && put_value(ctx, PyTuple_GetItem(values, taken++), &c->out.field[f], &out[f]);
    if (!fine && !PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(values);
    Py_XDECREF(args);
    return fine;
}

static pst_status run_compiled(struct callback *c, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const void *input[PST_MAX_FIELDS];
    void *output[PST_MAX_FIELDS];
    int64_t sizes[PST_MAX_FIELDS];
    size_t outputs = 0;
    for (size_t i = 0; i < c->read_count; i++) {
        const pst_tensor *t = &in[c->reads[i]];
        input[i] = t->data;
        sizes[i] = 1;
        for (uint32_t d = 0; d < t->rank; d++)
            sizes[i] *= (int64_t)t->shape[d];
    }
    for (size_t f = 0; f < c->out.count; f++)
        if (c->out.field[f].alias < 0)
            output[outputs++] = out[f].data;
    int status = c->compiled(input, output, sizes);
    return status == 0 ? PST_OK : pst_fail(reterr, PST_EINVAL, "%s returned %d; 0 means success", c->name, status);
}

static pst_status map_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                          pst_error *reterr)
{
    struct callback *c = ((const struct config *)config)->callback;
    (void)worker;
    if (c->compiled)
        return run_compiled(c, in, out, reterr);
    PyGILState_STATE gil = enter_python();
    pst_status st = run_python(c, ctx, in, out) ? PST_OK : fail_python(c, reterr);
    PyGILState_Release(gil);
    return st;
}

static uint64_t map_fingerprint(const void *config)
{
    return ((const struct config *)config)->callback->fingerprint;
}

/* Those whose functions take a seed are random. */
static const pst_op_class map_classes[2] = {
    {.abi = PST_OP_ABI,
     .name = "map",
     .doc = "A function of the program.",
     .example = "range 10 | map",
     .params = map_params,
     .config_size = sizeof(struct config),
     .plan = map_plan,
     .run = map_run,
     .fingerprint = map_fingerprint},
    {.abi = PST_OP_ABI,
     .name = "map",
     .doc = "A function of the program that draws random numbers.",
     .example = "range 10 | map",
     .params = map_params,
     .config_size = sizeof(struct config),
     .plan = map_plan,
     .run = map_run,
     .flags = PST_OP_RANDOM,
     .fingerprint = map_fingerprint},
};

static bool take_text(PyObject *object, const char *attribute, char *to, size_t size)
{
    PyObject *text = PyObject_GetAttrString(object, attribute);
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (words)
        snprintf(to, size, "%s", words);
    Py_XDECREF(text);
    return words != NULL;
}

static struct callback *callback_create(PyObject *object, PyObject *failures, const char *run)
{
    struct callback *c = calloc(1, sizeof(*c));
    if (!c)
        return (struct callback *)(void *)PyErr_NoMemory();
    c->object = Py_NewRef(object);
    c->failures = Py_NewRef(failures);
    c->run = PyObject_GetAttrString(object, run);
    if (!c->run || !take_text(object, "name", c->name, sizeof(c->name)) ||
        !take_text(object, "kind", c->kind, sizeof(c->kind))) {
        callback_destroy(c);
        return NULL;
    }
    return c;
}

pst_status callback_add_map(pst_pipeline *p, PyObject *function, PyObject *failures, struct callback **ret, pst_error *reterr)
{
    struct callback *c = callback_create(function, failures, "run");
    if (!c)
        return PST_EINVAL;
    PyObject *address = PyObject_GetAttrString(function, "address"), *seeded = PyObject_GetAttrString(function, "seeded");
    PyObject *fingerprint = PyObject_GetAttrString(function, "fingerprint");
    c->fingerprint = fingerprint ? PyLong_AsUnsignedLongLong(fingerprint) : 0;
    Py_XDECREF(fingerprint);
    c->compiled = (compiled_fn)(uintptr_t)(address ? PyLong_AsVoidPtr(address) : NULL);
    c->seeded = seeded && PyObject_IsTrue(seeded) == 1;
    Py_XDECREF(address);
    Py_XDECREF(seeded);
    *ret = c;
    struct config config = {.function = c->name, .workers = c->kind, .callback = c};
    return PyErr_Occurred() ? PST_EINVAL : pst_pipeline_add_op(p, &map_classes[c->seeded], &config, reterr);
}

/* ---- Generators ---- */

struct pass {
    struct callback *callback;
    PyObject *iterator;
};

static pst_status generator_open(void *user, void **ret, pst_error *reterr)
{
    struct pass *pass = calloc(1, sizeof(*pass));
    if (!pass)
        return pst_fail(reterr, PST_ENOMEM, "starting the generator: out of memory");
    pass->callback = user;
    PyGILState_STATE gil = enter_python();
    pass->iterator = PyObject_CallObject(pass->callback->run, NULL);
    pst_status st = pass->iterator ? PST_OK : fail_python(pass->callback, reterr);
    PyGILState_Release(gil);
    if (st < 0)
        free(pass);
    else
        *ret = pass;
    return st;
}

static pst_status generator_next(void *user, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct pass *pass = user;
    struct callback *c = pass->callback;
    PyGILState_STATE gil = enter_python();
    PyObject *values = PyIter_Next(pass->iterator);
    pst_status st = values ? PST_OK : PST_END;
    bool fine = values || !PyErr_Occurred();
    for (size_t f = 0; fine && values && f < c->out.count; f++) {
        PyObject *value = PyTuple_GetItem(values, (Py_ssize_t)f);
        out[f].data = NULL;
        if (c->out.field[f].dtype != PST_DTYPE_BYTES || c->out.field[f].rank == 0)
            fine = value && put_value(ctx, value, &c->out.field[f], &out[f]);
        else
            fine = value && put_strings(ctx, value, &c->out.field[f], &out[f]);
    }
    if (!fine)
        st = fail_python(c, reterr);
    Py_XDECREF(values);
    PyGILState_Release(gil);
    return st;
}

static void generator_close(void *user)
{
    struct pass *pass = user;
    PyGILState_STATE gil = enter_python();
    Py_XDECREF(pass->iterator);
    PyGILState_Release(gil);
    free(pass);
}

/* `source` has name, kind, fingerprint, fields ((name, -1, dtype, shape), …) and rows(): an iterator of tuples. */
pst_status callback_add_generator(pst_pipeline *p, PyObject *source, PyObject *failures, struct callback **ret,
                                  pst_error *reterr)
{
    struct callback *c = callback_create(source, failures, "rows");
    if (!c)
        return PST_EINVAL;
    *ret = c;
    PyObject *fields = PyObject_GetAttrString(source, "fields"),
             *print = fields ? PyObject_GetAttrString(source, "fingerprint") : NULL;
    bool fine = print && take_fields(fields, NULL, &c->out);
    pst_generator g = {.spec = c->out, .open = generator_open, .next = generator_next, .close = generator_close, .user = c};
    g.fingerprint = fine ? PyLong_AsUnsignedLongLong(print) : 0;
    Py_XDECREF(fields);
    Py_XDECREF(print);
    return PyErr_Occurred() ? PST_EINVAL : pst_pipeline_add_generator(p, &g, reterr);
}

/* ---- Views: the same bytes, read as another type or shape ---- */

struct view_config {
    const char *dtype, *shape, *field;
    struct callback *callback;
};

static const pst_param view_params[] = {
    {"dtype", PST_PARAM_STRING, offsetof(struct view_config, dtype), "", 0, 0, NULL, "type of the values"},
    {"shape", PST_PARAM_STRING, offsetof(struct view_config, shape), "", 0, 0, NULL, "its dimensions"},
    {"field", PST_PARAM_STRING, offsetof(struct view_config, field), "", 0, 0, NULL, "the field"},
    {0},
};

static pst_status view_plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct callback *c = ((struct view_config *)config)->callback;
    int number = pst_spec_find(in, c->field);
    if (number < 0)
        return pst_fail(reterr, PST_ENOTFOUND, "there is no field \"%s\"", c->field);
    const pst_field *from = &in->field[number];
    bool fixed = true;
    for (uint32_t d = 0; d < from->rank; d++)
        fixed = fixed && from->shape[d] != PST_ANY;
    if (!fixed || (from->dtype == PST_DTYPE_BYTES && from->rank > 0))
        return pst_fail(reterr, PST_ETYPE, "field \"%s\" must be bytes, or numbers of a fixed shape", c->field);
    pst_spec_pass(in, ret_out);
    pst_field *to = &ret_out->field[number];
    to->dtype = c->out.field[0].dtype;
    to->rank = c->out.field[0].rank;
    memcpy(to->shape, c->out.field[0].shape, sizeof(to->shape));
    to->alias = -1;
    ret_out->reads = UINT64_C(1) << number;
    c->number = (size_t)number;
    return PST_OK;
}

static pst_status view_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                           pst_error *reterr)
{
    const struct callback *c = ((const struct view_config *)config)->callback;
    const pst_tensor *from = &in[c->number];
    pst_tensor *to = &out[c->number];
    const void *data = from->data;
    size_t have = values_bytes(from), unit = pst_dtype_size(to->dtype), row = unit;
    bool open = false;
    (void)worker;
    if (from->dtype == PST_DTYPE_BYTES) {
        const pst_bytes *bytes = from->data;
        data = bytes->data;
        have = bytes->length;
    }
    for (uint32_t d = 0; d < c->out.field[0].rank; d++) {
        open = open || c->out.field[0].shape[d] == PST_ANY;
        row *= c->out.field[0].shape[d] == PST_ANY ? 1 : (size_t)c->out.field[0].shape[d];
    }
    if (open ? row == 0 || have % row != 0 : have != row)
        return pst_fail(reterr, PST_ETYPE, "field \"%s\" has %zu bytes, expected %s%zu for %s of shape %s", c->field, have,
                        open ? "a multiple of " : "", row, c->dtype, c->shape);
    for (uint32_t d = 0; d < c->out.field[0].rank; d++)
        to->shape[d] = c->out.field[0].shape[d] == PST_ANY ? have / row : c->out.field[0].shape[d];
    if (!to->data)
        to->data = pst_scratch(ctx, have ? have : 1); /* copied: the bytes may lie unaligned */
    if (!to->data)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for %zu bytes", have);
    if (have)
        memcpy(to->data, data, have);
    return PST_OK;
}

static const pst_op_class view_class = {
    .abi = PST_OP_ABI,
    .name = "decode_raw",
    .doc = "Reads bytes as numbers, or numbers as another shape.",
    .example = "tfrecord shards/ | example | decode_raw",
    .params = view_params,
    .config_size = sizeof(struct view_config),
    .plan = view_plan,
    .run = view_run,
};

/* (field, dtype, shape, shape as text) */
pst_status callback_add_view(pst_pipeline *p, PyObject *arguments, struct callback **ret, pst_error *reterr)
{
    const char *field, *shape_text;
    PyObject *dtype, *shape;
    if (!PyTuple_Check(arguments) || !PyArg_ParseTuple(arguments, "sOOs", &field, &dtype, &shape, &shape_text))
        return PST_EINVAL;
    struct callback *c = calloc(1, sizeof(*c));
    if (!c)
        return pst_fail(reterr, PST_ENOMEM, "out of memory");
    *ret = c;
    c->out.field[0].dtype = dtype_of_name(dtype);
    if (c->out.field[0].dtype == PST_DTYPE_NONE || !take_shape(shape, &c->out.field[0]))
        return PST_EINVAL;
    int open = 0;
    for (uint32_t d = 0; d < c->out.field[0].rank; d++)
        open += c->out.field[0].shape[d] == PST_ANY;
    if (open > 1 || c->out.field[0].dtype == PST_DTYPE_BYTES)
        return pst_fail(reterr, PST_EINVAL, "decode_raw: at most one dimension may be open, and the type is one of numbers");
    snprintf(c->field, sizeof(c->field), "%s", field);
    snprintf(c->dtype, sizeof(c->dtype), "%s", pst_dtype_name(c->out.field[0].dtype));
    snprintf(c->shape, sizeof(c->shape), "%s", shape_text);
    struct view_config config = {.dtype = c->dtype, .shape = c->shape, .field = c->field, .callback = c};
    return pst_pipeline_add_op(p, &view_class, &config, reterr);
}
