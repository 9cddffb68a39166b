/* module.c: penstock._core: the extension's parts, the operation table, errors, forks and the interpreter's exit. */
#include "core.h"
#include "model.h"

#include <penstock/plugin.h>
#include <penstock/store.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PyObject *error_type;
PyObject *skip_type;
static _Atomic unsigned generation;

unsigned fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

static void in_child(void)
{
    atomic_fetch_add(&generation, 1);
}

/* ---- Errors ---- */

PyObject *number_or_none(uint64_t n)
{
    return n == PST_NOWHERE ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(n);
}

/* Paths are bytes; messages are cut at bytes. */
PyObject *text_or_none(const char *text)
{
    return text && *text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape") : Py_NewRef(Py_None);
}

static void set_attribute(PyObject *object, const char *name, PyObject *value)
{
    if (!value || PyObject_SetAttrString(object, name, value) < 0)
        PyErr_Clear();
    Py_XDECREF(value);
}

PyObject *raise_error(const pst_error *e)
{
    char text[1024];
    pst_error first = *e; /* one line; the drawing that may follow keeps its lines */
    char *lines = strchr(first.message, '\n');
    if (lines)
        *lines = '\0';
    pst_error_text(&first, text, sizeof(text));
    if (lines)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", e->message + (lines - first.message));
    PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *error = words ? PyObject_CallFunctionObjArgs(error_type, words, NULL) : NULL;
    Py_XDECREF(words);
    if (!error)
        return NULL;
    set_attribute(error, "status", PyUnicode_FromString(pst_status_name(e->status)));
    set_attribute(error, "path", text_or_none(e->path));
    set_attribute(error, "op", text_or_none(e->op));
    set_attribute(error, "record", number_or_none(e->record));
    set_attribute(error, "offset", number_or_none(e->offset));
    set_attribute(error, "errno", e->sys_errno ? PyLong_FromLong(e->sys_errno) : Py_NewRef(Py_None));
    PyErr_SetObject(error_type, error);
    Py_DECREF(error);
    return NULL;
}

PyObject *raise_status(pst_status status, const char *format, ...)
{
    pst_error e;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    pst_fail(&e, status, "%s", text);
    return raise_error(&e);
}

static bool error_type_create(PyObject *module)
{
    PyObject *fields =
        Py_BuildValue("{s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O}", "status", Py_None, "path", Py_None, "op", Py_None, "record", Py_None,
                      "offset", Py_None, "errno", Py_None, "batch", Py_None, "places", Py_None);
    error_type = fields ? PyErr_NewExceptionWithDoc(
                              "penstock.Error",
                              "What failed, where, and what to try. `status` is PST_ECORRUPT and the like; `path`, "
                              "`record`, `offset`, `op` and `errno` are None where they do not apply. What a function "
                              "for batches raised has the number of the `batch` and the `places` of its elements, "
                              "(path, record, offset) each; path, record and offset are those of the first.",
                              NULL, fields)
                        : NULL;
    Py_XDECREF(fields);
    skip_type =
        PyErr_NewExceptionWithDoc("penstock.Skip",
                                  "Raised by a function of map to leave the sample out (for batches: the whole batch). It is "
                                  "not an error, and does not count as a bad sample.",
                                  NULL, NULL);
    return error_type && skip_type && PyModule_AddObjectRef(module, "Error", error_type) == 0 &&
           PyModule_AddObjectRef(module, "Skip", skip_type) == 0;
}

/* ---- The operation table ---- */

static PyObject *choices_of(const pst_param *p)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && p->choices && p->choices[i]; i++) {
        PyObject *choice = PyUnicode_FromString(p->choices[i]);
        if (!choice || PyList_Append(list, choice) < 0)
            Py_CLEAR(list);
        Py_XDECREF(choice);
    }
    return list;
}

PyObject *params_object(const pst_param *p)
{
    static const char *const kinds[] = {"bool",   "int",   "uint",   "float",  "string",
                                        "choice", "bytes", "size2d", "floats", "strings", "amount"};
    PyObject *list = PyList_New(0);
    for (; list && p && p->name; p++) {
        PyObject *param = Py_BuildValue("(sszNs)", p->name, kinds[p->kind], p->fallback, choices_of(p), p->doc);
        if (!param || PyList_Append(list, param) < 0)
            Py_CLEAR(list);
        Py_XDECREF(param);
    }
    return list;
}

static PyObject *core_operations(PyObject *self, PyObject *unused)
{
    static const char *const kinds[] = {"source", "order", "sample", "batching"};
    PyObject *list = PyList_New(0);
    const pst_op_class *op;
    (void)self, (void)unused;
    for (size_t i = 0; list && (op = pst_op_at(i)); i++) {
        PyObject *entry = Py_BuildValue("(ssssN)", op->name, kinds[pst_op_kind_of(op)], op->doc, op->example, params_object(op->params));
        if (!entry || PyList_Append(list, entry) < 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

/* ---- The module ---- */

static PyObject *core_shutdown(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    pipelines_shutdown();
    Py_RETURN_NONE;
}

PyTypeObject *type_add(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type)
        return NULL;
    const char *name = strrchr(spec->name, '.') + 1;
    if (PyModule_AddObjectRef(module, name, type) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type; /* one reference is kept for good */
}

static PyObject *core_load_plugin(PyObject *self, PyObject *args)
{
    PyObject *path = NULL;
    const pst_plugin *plugin;
    pst_error e = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    pst_status st = pst_plugin_load(PyBytes_AsString(path), &plugin, &e);
    Py_DECREF(path);
    return st < 0 ? raise_error(&e)
                  : Py_BuildValue("(ss)", plugin->name ? plugin->name : "", plugin->version ? plugin->version : "");
}

/* ---- Object stores ---- */

static const char *or_variable(const char *value, const char *name)
{
    const char *found = value ? value : getenv(name);
    return found && *found ? found : NULL;
}

/* What is not given comes from PENSTOCK_CACHE, PENSTOCK_CACHE_BYTES, PENSTOCK_CACHE_EVICT, PENSTOCK_CONNECTIONS, PENSTOCK_STORE_MEMORY and
 * PENSTOCK_VIRTUAL_HOST. */
static pst_status configure_store(pst_store_options *o, const char *evict, pst_error *e)
{
    const char *bytes = or_variable(NULL, "PENSTOCK_CACHE_BYTES"), *connections = or_variable(NULL, "PENSTOCK_CONNECTIONS");
    o->size = sizeof(*o);
    o->cache_folder = or_variable(o->cache_folder, "PENSTOCK_CACHE");
    o->cache_bytes = o->cache_bytes || !bytes ? o->cache_bytes : strtoull(bytes, NULL, 10);
    o->connections = o->connections || !connections ? o->connections : (unsigned)strtoul(connections, NULL, 10);
    const char *memory = or_variable(NULL, "PENSTOCK_STORE_MEMORY");
    o->memory_bytes = o->memory_bytes || !memory ? o->memory_bytes : strtoull(memory, NULL, 10);
    const char *host = or_variable(NULL, "PENSTOCK_VIRTUAL_HOST");
    o->virtual_host = o->virtual_host || (host && strcmp(host, "1") == 0);
    evict = or_variable(evict, "PENSTOCK_CACHE_EVICT");
    o->cache_evict = evict && strcmp(evict, "lru") == 0;
    return pst_store_configure(o, e);
}

static PyObject *core_configure_store(PyObject *self, PyObject *args)
{
    pst_store_options o = {0};
    unsigned long long bytes, memory;
    const char *evict;
    int virtual_host;
    pst_error e = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "zzzzzpzKzIKz", &o.endpoint, &o.region, &o.access_key, &o.secret_key, &o.session_token, &virtual_host, &o.cache_folder,
                          &bytes, &evict, &o.connections, &memory, &o.ca_file))
        return NULL;
    o.virtual_host = virtual_host;
    o.cache_bytes = bytes;
    o.memory_bytes = memory;
    if (configure_store(&o, evict, &e) < 0)
        return raise_error(&e);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"configure_store", core_configure_store, METH_VARARGS, "How object stores are reached, and what is kept of them."},
    {"operations", core_operations, METH_NOARGS, "[(name, kind, doc, example, [(name, kind, default, choices, doc), …]), …]"},
    {"layers", core_layers, METH_NOARGS, "[(name, doc, example, parameters as of operations, positional, min_chains, max_chains), …]"},
    {"layers_add", core_layers_add, METH_VARARGS, "(text, kind, args, (text, …)): the text with one more layer, which has these chains; kind None: with the layers of the text args."},
    {"load_plugin", core_load_plugin, METH_VARARGS, "Loads a shared object with operations; returns (name, version)."},
    {"pack", (PyCFunction)(void (*)(void))core_pack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"compress", (PyCFunction)(void (*)(void))core_compress, METH_VARARGS | METH_KEYWORDS, "Makes a model smaller and faster; returns what was tried."},
    {"metrics_judgement", metrics_judgement, METH_O, "The metrics of a pass that its loss has."},
    {"read_run", core_read_run, METH_VARARGS, "What a run folder or checkpoint folder says about its model."},
    {"doctor_page", core_doctor_page, METH_VARARGS, NULL},
    {"doctor_run", (PyCFunction)(void (*)(void))core_doctor_run, METH_VARARGS | METH_KEYWORDS, "Examines a pipeline; returns the result as JSON."},
    {"encode_png", core_encode_png, METH_VARARGS, NULL},
    {"shutdown", core_shutdown, METH_NOARGS, "Stops every pipeline. For the interpreter's exit."},
    {0},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "penstock._core", .m_doc = "The engine.", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = PyModule_Create(&definition);
    (void)configure_store(&(pst_store_options){0}, NULL, NULL);
    pst_store_use_environment(); /* keys of object stores */
    pst_guard_install(NULL); /* a mapped file that is cut short is an error, not the end of the interpreter */
    if (!module || pthread_atfork(NULL, NULL, in_child) != 0 || !error_type_create(module) || !tensor_type_create(module) ||
        !batch_type_create(module) || !pipeline_types_create(module) || !record_types_create(module) || !model_types_create(module) ||
        PyModule_AddStringConstant(module, "version", pst_version()) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
