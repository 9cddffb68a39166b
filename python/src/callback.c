/* callback.c: Python functions and compiled ones as operations of the engine.
 *
 * They are ordinary pst_op_class operations: they run on the engine's workers, in its order, into its batches. A Python
 * function takes the GIL for its call; its inputs are copies, as it may keep them. A compiled one is called as it is. What a
 * Python function raises is kept, under a number that travels in the error, and becomes the cause of what the consumer sees. */
#include "callback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config {
    const char *function, *workers;
    struct callback *callback;
};

static _Atomic int failure_count;
static _Thread_local PyObject *inside_of; /* lineage of the callback that this thread is inside; borrowed from it */

void callback_destroy(struct callback *c)
{
    if (!c)
        return;
    Py_XDECREF(c->object);
    Py_XDECREF(c->run);
    Py_XDECREF(c->failures);
    free(c->reads);
    free(c->fields);
    Py_XDECREF(c->lineage);
    free(c);
}

int callback_traverse(struct callback *c, visitproc visit, void *arg)
{
    Py_VISIT(c->object);
    Py_VISIT(c->run);
    Py_VISIT(c->failures);
    for (struct pass *pass = c->passes; pass; pass = pass->next)
        Py_VISIT(pass->iterator); /* its frame may refer to the owner of the dataset */
    return 0;
}

struct entry callback_enter(struct callback *c)
{
    atomic_fetch_add(&c->inside, 1);
    struct entry entry = {.gil = enter_python(), .outer = inside_of};
    inside_of = c->lineage;
    return entry;
}

void callback_leave(struct callback *c, struct entry entry)
{
    inside_of = entry.outer;
    PyGILState_Release(entry.gil);
    atomic_fetch_sub(&c->inside, 1);
}

PyObject *lineage_create(void)
{
    static unsigned long long count; /* under the GIL */
    Py_ssize_t outer = inside_of ? PyTuple_Size(inside_of) : 0;
    PyObject *lineage = PyTuple_New(outer + 1), *identity = lineage ? PyLong_FromUnsignedLongLong(++count) : NULL;
    if (!identity || PyTuple_SetItem(lineage, 0, identity) < 0)
        Py_CLEAR(lineage);
    for (Py_ssize_t i = 0; lineage && i < outer; i++)
        if (PyTuple_SetItem(lineage, i + 1, Py_NewRef(PyTuple_GetItem(inside_of, i))) < 0)
            Py_CLEAR(lineage);
    return lineage;
}

bool lineage_is_inside(PyObject *lineage)
{
    PyObject *identity = PyTuple_GetItem(lineage, 0);
    for (Py_ssize_t i = 0; inside_of && i < PyTuple_Size(inside_of); i++)
        if (PyObject_RichCompareBool(PyTuple_GetItem(inside_of, i), identity, Py_EQ) == 1)
            return true;
    return false;
}

/* NULL without an exception: it is no text. Texts may have bytes of a path in them that are not UTF-8. */
static PyObject *encode(PyObject *text, const char *strange)
{
    PyObject *bytes = text && PyUnicode_Check(text) ? PyUnicode_AsEncodedString(text, "utf-8", strange) : NULL;
    PyErr_Clear();
    return bytes;
}

/* An exception may know the place of what it is about: that of a function which was tried on the first element does. */
static void place_failure(PyObject *value, pst_error *e)
{
    PyObject *place = PyObject_GetAttrString(value, "_penstock_place"), *name;
    unsigned long long record, offset;
    if (place && PyTuple_Check(place) && PyArg_ParseTuple(place, "OKK", &name, &record, &offset)) {
        char message[sizeof(e->message)];
        memcpy(message, e->message, sizeof(message));
        PyObject *path = encode(name, "surrogateescape"); /* what text_or_none made of its bytes */
        pst_fail_at(e, e->status, path ? PyBytes_AsString(path) : NULL, record, offset, "%s", message);
        Py_XDECREF(path);
    }
    PyErr_Clear();
    Py_XDECREF(place);
}

pst_status callback_fail(struct callback *c, pst_error *reterr)
{
    PyObject *type, *value, *traceback;
    int number = atomic_fetch_add(&failure_count, 1) % 1000000 + 1000000; /* beyond all of errno */
    if (!PyErr_Occurred())
        PyErr_NoMemory(); /* the engine's memory, which raises nothing */
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    PyObject *key = PyLong_FromLong(number), *text = PyObject_Str(value), *kind = PyObject_GetAttrString(type, "__name__");
    if (key && c->failures)
        PyDict_SetItem(c->failures, key, value);
    PyObject *words = encode(text, "backslashreplace"), *name = encode(kind, "backslashreplace");
    bool interrupted = PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt); /* Ctrl-C is not a fault of the sample */
    pst_status st = pst_fail(reterr, interrupted ? PST_ECANCELLED : PST_EINVAL, "%.60s: %.40s: %.150s", c->name, name ? PyBytes_AsString(name) : "exception",
                             words ? PyBytes_AsString(words) : "");
    if (reterr) {
        place_failure(value, reterr);
        reterr->sys_errno = number;
    }
    Py_XDECREF(key);
    Py_XDECREF(words);
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Clear();
    return st;
}

/* ---- map ---- */

static const pst_param map_params[] = {
    {"function", PST_PARAM_STRING, offsetof(struct config, function), "", 0, 0, NULL, "its name"},
    {"workers", PST_PARAM_STRING, offsetof(struct config, workers), "", 0, 0, NULL, "where it runs"},
    {0},
};

static bool plan_python(struct callback *c, const pst_spec *in, pst_spec *ret, pst_field **ret_fields, size_t *ret_count)
{
    PyObject *spec = spec_object(in), *reads = NULL, *fields = NULL;
    PyObject *plan = spec ? PyObject_CallMethod(c->object, "plan", "(N)", spec) : NULL;
    bool fine = plan && PyTuple_Check(plan) && PyArg_ParseTuple(plan, "O!O!", &PyTuple_Type, &reads, &PyTuple_Type, &fields);
    c->read_count = fine ? (size_t)PyTuple_Size(reads) : 0;
    free(c->reads);
    c->reads = calloc(c->read_count + 1, sizeof(*c->reads));
    if (fine && !c->reads)
        fine = PyErr_NoMemory() != NULL;
    for (size_t i = 0; fine && i < c->read_count; i++) {
        c->reads[i] = PyLong_AsSize_t(PyTuple_GetItem(reads, (Py_ssize_t)i));
        fine = !PyErr_Occurred() && c->reads[i] < in->count;
        if (fine)
            pst_spec_read(ret, c->reads[i]);
    }
    fine = fine && take_fields(fields, in, ret_fields, ret_count);
    Py_XDECREF(plan);
    if (!fine && !PyErr_Occurred())
        PyErr_SetString(PyExc_SystemError, "the plan of a function is malformed");
    return fine;
}

static pst_status map_plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct callback *c = ((struct config *)config)->callback;
    pst_field *fields = NULL;
    size_t count = 0;
    struct entry entry = callback_enter(c);
    pst_status st = plan_python(c, in, ret_out, &fields, &count) ? PST_OK : callback_fail(c, reterr);
    callback_leave(c, entry);
    for (size_t f = 0; f < count && st == PST_OK; f++)
        st = pst_spec_add(ret_out, &fields[f], reterr);
    free(fields);
    c->out = *ret_out;
    return st;
}

/* What a worker has handed over with `prepare`. */
struct map_worker {
    size_t prepared, ran;
};

static PyObject *arguments(struct callback *c, pst_ctx *ctx, const pst_tensor *in)
{
    PyObject *args = PyTuple_New((Py_ssize_t)(c->read_count + c->seeded));
    for (size_t i = 0; args && i < c->read_count + c->seeded; i++) {
        PyObject *value = i < c->read_count ? tensor_copy(&in[c->reads[i]]) : PyLong_FromUnsignedLongLong(pst_random(ctx));
        if (!value || PyTuple_SetItem(args, (Py_ssize_t)i, value) < 0)
            Py_CLEAR(args);
    }
    return args;
}

/* The results of the next element that was prepared, or those of a call. */
static PyObject *results(struct callback *c, struct map_worker *worker, pst_ctx *ctx, const pst_tensor *in)
{
    if (worker->ran < worker->prepared) {
        worker->ran++;
        return PyObject_CallMethod(c->object, "take", "n", (Py_ssize_t)(intptr_t)worker);
    }
    PyObject *args = arguments(c, ctx, in), *values = args ? PyObject_CallObject(c->run, args) : NULL;
    Py_XDECREF(args);
    return values;
}

static bool run_python(struct callback *c, struct map_worker *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out)
{
    PyObject *values = results(c, worker, ctx, in);
    bool fine = values && PyTuple_Check(values);
    Py_ssize_t taken = 0;
    for (size_t f = 0; fine && f < c->out.count; f++)
        if (c->out.field[f].alias < 0)
            fine = taken < PyTuple_Size(values) && put_value(ctx, PyTuple_GetItem(values, taken++), &c->out.field[f], &out[f]);
    Py_XDECREF(values);
    return fine;
}

static pst_status map_prepare(const void *config, void *state, pst_ctx *ctx, size_t place, const pst_tensor *in,
                              pst_error *reterr)
{
    struct callback *c = ((const struct config *)config)->callback;
    struct map_worker *worker = state;
    struct entry entry = callback_enter(c);
    PyObject *args = arguments(c, ctx, in);
    PyObject *done = args ? PyObject_CallMethod(c->object, "prepare", "nnN", (Py_ssize_t)(intptr_t)worker, (Py_ssize_t)place, args) : NULL;
    pst_status st = done ? PST_OK : callback_fail(c, reterr);
    if (place == 0)
        worker->prepared = worker->ran = 0;
    worker->prepared += done != NULL;
    Py_XDECREF(done);
    callback_leave(c, entry);
    return st;
}

static pst_status run_compiled(struct callback *c, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const void **input = pst_scratch(ctx, (c->read_count + 1) * sizeof(*input));
    void **output = pst_scratch(ctx, c->out.count * sizeof(*output));
    int64_t *sizes = pst_scratch(ctx, (c->read_count + 1) * sizeof(*sizes));
    size_t outputs = 0;
    if (!input || !output || !sizes)
        return pst_fail(reterr, PST_ENOMEM, "%s: out of memory", c->name);
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
    atomic_fetch_add(&c->inside, 1);
    int status = c->compiled(input, output, sizes);
    atomic_fetch_sub(&c->inside, 1);
    return status == 0 ? PST_OK : pst_fail(reterr, PST_EINVAL, "%s returned %d; 0 means success", c->name, status);
}

static pst_status map_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                          pst_error *reterr)
{
    struct callback *c = ((const struct config *)config)->callback;
    if (c->compiled)
        return run_compiled(c, ctx, in, out, reterr);
    struct entry entry = callback_enter(c);
    pst_status st = PST_OK;
    if (!run_python(c, worker, ctx, in, out)) {
        bool skips = PyErr_Occurred() && PyErr_ExceptionMatches(skip_type);
        if (skips)
            PyErr_Clear();
        st = skips ? PST_SKIP : callback_fail(c, reterr);
    }
    callback_leave(c, entry);
    return st;
}

/* Frees results that were prepared and not used. */
static void map_stop(const void *config, void *state)
{
    struct callback *c = ((const struct config *)config)->callback;
    struct map_worker *worker = state;
    if (worker->prepared == 0)
        return;
    struct entry entry = callback_enter(c);
    PyObject *done = PyObject_CallMethod(c->object, "forget", "n", (Py_ssize_t)(intptr_t)worker);
    Py_XDECREF(done);
    PyErr_Clear();
    callback_leave(c, entry);
}

static uint64_t map_fingerprint(const void *config)
{
    return ((const struct config *)config)->callback->fingerprint;
}

#define MAP_CLASS(text, other, function)                                                                                       \
    {.size = sizeof(pst_op_class),                                                                                             \
     .name = "map",                                                                                                            \
     .doc = text,                                                                                                              \
     .example = "range 10 | map",                                                                                              \
     .params = map_params,                                                                                                     \
     .config_size = sizeof(struct config),                                                                                     \
     .worker_size = sizeof(struct map_worker),                                                                                 \
     .plan = map_plan,                                                                                                         \
     .run = map_run,                                                                                                           \
     .stop = map_stop,                                                                                                         \
     .flags = other,                                                                                                           \
     .fingerprint = map_fingerprint,                                                                                           \
     .prepare = function}

/* [whether its function takes a seed][whether it runs in other processes, which get many elements at once] */
static const pst_op_class map_classes[2][2] = {
    {MAP_CLASS("A function of the program.", 0, NULL), MAP_CLASS("A function of the program.", 0, map_prepare)},
    {MAP_CLASS("A function of the program that draws random numbers.", PST_OP_RANDOM, NULL),
     MAP_CLASS("A function of the program that draws random numbers.", PST_OP_RANDOM, map_prepare)},
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

struct callback *callback_create(PyObject *object, PyObject *failures, PyObject *lineage, const char *run)
{
    struct callback *c = calloc(1, sizeof(*c));
    if (!c)
        return (struct callback *)(void *)PyErr_NoMemory();
    c->object = Py_NewRef(object);
    c->failures = Py_NewRef(failures);
    c->lineage = Py_NewRef(lineage);
    c->run = PyObject_GetAttrString(object, run);
    if (!c->run || !take_text(object, "name", c->name, sizeof(c->name)) ||
        !take_text(object, "kind", c->kind, sizeof(c->kind))) {
        callback_destroy(c);
        return NULL;
    }
    return c;
}

pst_status callback_add_map(pst_pipeline *p, PyObject *function, PyObject *failures, PyObject *lineage, struct callback **ret,
                            pst_error *reterr)
{
    struct callback *c = callback_create(function, failures, lineage, "run");
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
    bool groups = !c->compiled && strcmp(c->kind, "process") == 0;
    struct config config = {.function = c->name, .workers = c->kind, .callback = c};
    return PyErr_Occurred() ? PST_EINVAL : pst_pipeline_add_op(p, &map_classes[c->seeded][groups], &config, reterr);
}
