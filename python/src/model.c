/* model.c: _core.Model: layers, shapes and parameters; and what run folders say about their models. */
#include "model.h"

#include <string.h>

PyTypeObject *model_type;

const char *const python_losses[] = {"auto", "sparse", "categorical", "binary", "mse", NULL};

/* ---- Models ---- */

static bool take_shape(PyObject *sizes, pst_shape *ret)
{
    Py_ssize_t rank = PySequence_Size(sizes);
    if (rank != 1 && rank != 3)
        return PyErr_Format(PyExc_ValueError, "input=%R; expected (height, width, channels) or (length,)", sizes), false;
    ret->rank = (uint32_t)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *item = PySequence_GetItem(sizes, i);
        unsigned long size = item ? PyLong_AsUnsignedLong(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred() || size == 0 || size > UINT32_MAX)
            return PyErr_Format(PyExc_ValueError, "input=%R; expected dimensions of 1 or more", sizes), false;
        ret->size[i] = (uint32_t)size;
    }
    return true;
}

PyObject *shape_object(const pst_shape *s)
{
    return s->rank == 3 ? Py_BuildValue("(III)", s->size[0], s->size[1], s->size[2]) : Py_BuildValue("(I)", s->size[0]);
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"text", "input", NULL};
    const char *text;
    PyObject *input;
    pst_shape shape = {0};
    pst_model *model = NULL;
    pst_error e;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO:Model", names, &text, &input) || !take_shape(input, &shape))
        return NULL;
    if (pst_model_parse(&model, text, &shape, &e) < 0)
        return raise_error(&e);
    Model *self = (Model *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        self->model = model;
    else
        pst_model_destroy(model);
    return (PyObject *)self;
}

static void model_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pst_model_destroy(((Model *)object)->model);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *model_text(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(pst_model_text(((Model *)self)->model));
}

static PyObject *model_input(PyObject *self, void *closure)
{
    (void)closure;
    pst_shape s = pst_model_input(((Model *)self)->model);
    return shape_object(&s);
}

static PyObject *model_output(PyObject *self, void *closure)
{
    (void)closure;
    pst_shape s = pst_model_output(((Model *)self)->model);
    return shape_object(&s);
}

/* Appends `item`, whose reference it takes, and returns the list, or NULL with an exception. */
static PyObject *append(PyObject *list, PyObject *item)
{
    if (!item || PyList_Append(list, item) < 0)
        Py_CLEAR(list);
    Py_XDECREF(item);
    return list;
}

static PyObject *model_layers(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    pst_model_layer layer = {.size = sizeof(layer)};
    (void)unused;
    for (size_t i = 0; list && pst_model_layer_at(((Model *)self)->model, i, &layer); i++)
        list = append(list, Py_BuildValue("(ssNKK)", layer.name, layer.kind, shape_object(&layer.output),
                                          (unsigned long long)layer.parameters, (unsigned long long)layer.flops));
    return list;
}

static PyObject *model_params(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    pst_model_param param = {.size = sizeof(param)};
    (void)unused;
    for (size_t i = 0; list && pst_model_param_at(((Model *)self)->model, i, &param); i++) {
        PyObject *shape = PyTuple_New(param.rank);
        for (uint32_t d = 0; shape && d < param.rank; d++)
            if (PyTuple_SetItem(shape, d, PyLong_FromUnsignedLong(param.shape[d])) < 0)
                Py_CLEAR(shape);
        list = append(list, Py_BuildValue("(sNO)", param.name, shape, param.fixed ? Py_True : Py_False));
    }
    return list;
}

static PyObject *model_describe(PyObject *self, PyObject *args)
{
    Py_ssize_t batch;
    unsigned threads;
    pst_model_plan plan = {.size = sizeof(plan)};
    pst_error e;
    if (!PyArg_ParseTuple(args, "nI:describe", &batch, &threads))
        return NULL;
    if (batch < 1)
        return PyErr_Format(PyExc_ValueError, "batch=%zd; expected 1 or more", batch);
    if (pst_model_describe(((Model *)self)->model, (size_t)batch, threads, &plan, &e) < 0)
        return raise_error(&e);
    PyObject *result = Py_BuildValue("(Ks)", (unsigned long long)plan.bytes, plan.text);
    pst_free(plan.text);
    return result;
}

/* (labels, width): the name of the loss for such targets. */
static PyObject *model_loss(PyObject *self, PyObject *args)
{
    pst_fields fields = {.size = sizeof(fields)};
    int labels;
    unsigned long long width;
    if (!PyArg_ParseTuple(args, "pK:loss", &labels, &width))
        return NULL;
    fields.labels = labels;
    fields.width = width;
    return PyUnicode_FromString(python_losses[pst_loss_choose(((Model *)self)->model, &fields)]);
}

static PyMethodDef model_methods[] = {
    {"layers", model_layers, METH_NOARGS, "[(name, kind, shape, parameters, flops), …]"},
    {"params", model_params, METH_NOARGS, "[(name, shape, fixed), …]"},
    {"describe", model_describe, METH_VARARGS, "(bytes, text) of a step"},
    {"loss", model_loss, METH_VARARGS, NULL},
    {0},
};

static PyGetSetDef model_getset[] = {
    {"text", model_text, NULL, NULL, NULL},
    {"input", model_input, NULL, NULL, NULL},
    {"output", model_output, NULL, NULL, NULL},
    {0},
};

static PyType_Slot model_slots[] = {
    {Py_tp_new, model_new}, {Py_tp_dealloc, model_dealloc}, {Py_tp_methods, model_methods}, {Py_tp_getset, model_getset}, {0},
};

static PyType_Spec model_spec = {.name = "penstock._core.Model",
                                 .basicsize = sizeof(Model),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                 .slots = model_slots};

/* ---- Layers ---- */

PyObject *core_layers(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    pst_layer_doc doc = {.size = sizeof(doc)};
    (void)self, (void)unused;
    for (size_t i = 0; list && pst_layer_at(i, &doc); i++)
        list = append(list, Py_BuildValue("(sssNnnn)", doc.name, doc.doc, doc.example, params_object(doc.params), (Py_ssize_t)doc.positional,
                                          (Py_ssize_t)doc.min_chains, (Py_ssize_t)doc.max_chains));
    return list;
}

/* The chain of a text, which may be empty. */
static pst_status take_layers(pst_layers **ret, const char *text, pst_error *reterr)
{
    pst_status st = pst_layers_create(ret, reterr);
    return st < 0 || !*text ? st : pst_layers_add_text(*ret, text, reterr);
}

PyObject *core_layers_add(PyObject *self, PyObject *args)
{
    const char *text, *kind, *arguments;
    PyObject *chains, *result = NULL;
    pst_layers *layers = NULL;
    pst_error e;
    (void)self;
    if (!PyArg_ParseTuple(args, "szsO!", &text, &kind, &arguments, &PyTuple_Type, &chains))
        return NULL;
    Py_ssize_t count = PyTuple_Size(chains);
    const char *words = *arguments ? arguments : NULL;
    pst_layers **branches = PyMem_Calloc((size_t)count + 1, sizeof(pst_layers *));
    if (!branches)
        return PyErr_NoMemory();
    pst_status st = take_layers(&layers, text, &e);
    for (Py_ssize_t i = 0; i < count && st == PST_OK && !PyErr_Occurred(); i++) {
        Py_ssize_t length = 0;
        const char *branch = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(chains, i), &length);
        if (branch && strlen(branch) != (size_t)length)
            PyErr_SetString(PyExc_ValueError, "embedded null character");
        st = branch && !PyErr_Occurred() ? take_layers(&branches[i], branch, &e) : PST_OK;
    }
    if (st == PST_OK && !PyErr_Occurred() && !kind)
        st = pst_layers_add_text(layers, arguments, &e);
    else if (st == PST_OK && !PyErr_Occurred())
        st = count ? pst_layers_add_chains(layers, kind, words, branches, (size_t)count, &e) : pst_layers_add(layers, kind, words, &e);
    if (st < 0)
        raise_error(&e);
    else if (!PyErr_Occurred())
        result = PyUnicode_FromString(pst_layers_text(layers));
    for (Py_ssize_t i = 0; i < count; i++)
        pst_layers_destroy(branches[i]);
    PyMem_Free(branches);
    pst_layers_destroy(layers);
    return result;
}

/* ---- Runs ---- */

PyObject *core_read_run(PyObject *self, PyObject *args)
{
    PyObject *path;
    const char *which = NULL;
    pst_run_record *r = NULL;
    pst_error e;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&z:read_run", PyUnicode_FSConverter, &path, &which))
        return NULL;
    const char *name = PyBytes_AsString(path);
    PyThreadState *gil = PyEval_SaveThread(); /* a run may lie in a store */
    pst_status st = pst_run_record_read(&r, name, which, &e);
    PyEval_RestoreThread(gil);
    Py_DECREF(path);
    if (st < 0)
        return raise_error(&e);
    PyObject *classes = PyList_New(0);
    for (size_t i = 0; classes && i < r->class_count; i++)
        classes = append(classes, text_or_none(r->classes[i]));
    PyObject *result =
        Py_BuildValue("{s:N,s:K,s:s,s:N,s:s,s:N}", "folder", text_or_none(r->folder), "step", (unsigned long long)r->step,
                      "model", r->model, "input", shape_object(&r->input), "loss", python_losses[r->loss], "classes", classes);
    pst_run_record_destroy(r);
    return result;
}

bool model_types_create(PyObject *module)
{
    model_type = type_add(module, &model_spec);
    return model_type && trainer_type_create(module);
}
