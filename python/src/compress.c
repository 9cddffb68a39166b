/* compress.c: smaller models: _core.compress over penstock/compress.h. */
#include "pipeline.h"

#include <penstock/compress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As pst_weights_format and pst_channel_norm, in order. */
static const char *const formats[] = {"none", "bfloat16", "float16", "weights-int8", "weights-int4", "int8", "weights-mixed", NULL};
static const char *const calibrations[] = {"auto", "minmax", "percentile", "entropy", "mse", NULL}; /* as pst_calibration */
static const char *const norms[] = {"l1", "l2", "scale", NULL};

struct request {
    const char *model, *title, *out, *checkpoint, *html, *format, *norm, *calibration;
    PyObject *data, *validation, *exclude, *max_loss, *progress;
    pst_compress_options options;
    char *names[64]; /* of excluded layers; borrowed from `exclude` */
};

/* ---- Arguments ---- */

static bool choice(const char *what, const char *value, const char *const *choices, int *ret)
{
    for (*ret = 0; choices[*ret]; ++*ret)
        if (strcmp(choices[*ret], value) == 0)
            return true;
    char known[256] = "";
    for (size_t i = 0, at = 0; choices[i] && at < sizeof(known); i++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "", choices[i]);
    PyErr_Format(PyExc_ValueError, "%s=\"%s\"; expected one of %s", what, value, known);
    return false;
}

static bool read_names(struct request *r)
{
    Py_ssize_t count = PyList_Size(r->exclude);
    if (count < 0 || count > (Py_ssize_t)(sizeof(r->names) / sizeof(r->names[0]))) {
        PyErr_SetString(PyExc_ValueError, "exclude has more than 64 names; use * for parts of them");
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyBytes_AsStringAndSize(PyList_GetItem(r->exclude, i), &r->names[i], NULL) < 0)
            return false;
    r->options.exclude = (const char *const *)r->names;
    r->options.exclude_count = (size_t)count;
    return true;
}

static bool read_request(struct request *r, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"model",  "out",    "data",     "validation",      "checkpoint",    "html",    "flops",      "norm",   "sparsity", "keep",
                            "group",  "exclude", "quantize", "qat",            "max_loss",      "epochs",  "steps_per_epoch", "rate", "seed",  "threads",
                            "save_every", "search", "budget", "input_field",   "target_field",  "progress", "bits",
                            "title",  "calibration", "percentile", "samples", "weight_bits", NULL};
    unsigned long long epochs = 0, steps = 0, seed = 0, save_every = 0, samples = 0;
    int qat = 0, search = 0, format = 0, norm = 0, calibration = 0;
    pst_compress_options *o = &r->options;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "yzOOzzdsdIIO!spOKKdKIKpdzzOdysdKI:compress", names, &r->model, &r->out, &r->data, &r->validation,
                                     &r->checkpoint, &r->html, &o->flops, &r->norm, &o->sparsity, &o->group_keep, &o->group, &PyList_Type, &r->exclude,
                                     &r->format, &qat, &r->max_loss, &epochs, &steps, &o->rate, &seed, &o->threads, &save_every, &search, &o->budget,
                                     &o->input_field, &o->target_field, &r->progress, &o->bits, &r->title, &r->calibration, &o->percentile,
                                     &samples, &o->weight_bits) ||
        !choice("calibration", r->calibration, calibrations, &calibration) || !choice("quantize", r->format, formats, &format) || !choice("norm", r->norm, norms, &norm) || !read_names(r))
        return false;
    for (int i = 0; i < 2; i++) {
        PyObject *p = i ? r->validation : r->data;
        if (p != Py_None && !PyObject_TypeCheck(p, pipeline_type)) {
            PyErr_SetString(PyExc_TypeError, "expected pipelines");
            return false;
        }
    }
    if (r->max_loss != Py_None) {
        o->max_loss = PyFloat_AsDouble(r->max_loss);
        o->bounded = true;
    }
    o->format = (pst_weights_format)format;
    o->norm = (pst_channel_norm)norm;
    o->qat = qat;
    o->search = search;
    o->epochs = epochs;
    o->steps_per_epoch = steps;
    o->seed = seed;
    o->save_every = save_every;
    o->calibration = (pst_calibration)calibration;
    o->samples = samples;
    o->out = r->out;
    return !PyErr_Occurred();
}

/* ---- Results ---- */

static PyObject *variant_object(const pst_compress_variant *v)
{
    return Py_BuildValue("{s:s,s:O,s:d,s:d,s:K,s:K,s:K,s:K,s:d,s:d,s:K}", "name", v->name, "accepted", v->accepted ? Py_True : Py_False, "accuracy",
                         v->accuracy, "loss", v->loss, "parameters", (unsigned long long)v->parameters, "nonzero", (unsigned long long)v->nonzero,
                         "file_bytes", (unsigned long long)v->file_bytes, "flops", (unsigned long long)v->flops, "latency1", v->latency1, "latency64",
                         v->latency64, "memory", (unsigned long long)v->memory);
}

static PyObject *result_object(const pst_compress_result *r)
{
    PyObject *variants = PyList_New(0);
    pst_compress_variant variant = {.size = sizeof(variant)};
    for (size_t i = 0; variants && pst_compress_variant_at(r, i, &variant); i++) {
        PyObject *v = variant_object(&variant);
        if (!v || PyList_Append(variants, v) < 0)
            Py_CLEAR(variants);
        Py_XDECREF(v);
    }
    PyObject *layers = variants ? PyList_New(0) : NULL;
    pst_compress_layer l = {.size = sizeof(l)};
    for (size_t i = 0; layers && pst_compress_layer_at(r, i, &l); i++) {
        PyObject *o = Py_BuildValue("{s:s,s:K,s:K,s:I}", "name", l.name, "weights", (unsigned long long)l.weights, "nonzero",
                                    (unsigned long long)l.nonzero, "bits", l.bits);
        if (!o || PyList_Append(layers, o) < 0)
            Py_CLEAR(layers);
        Py_XDECREF(o);
    }
    if (layers)
        return Py_BuildValue("{s:N,s:N,s:n,s:O}", "variants", variants, "layers", layers, "chosen", (Py_ssize_t)r->chosen, "stopped",
                             r->stopped ? Py_True : Py_False);
    Py_XDECREF(variants);
    return NULL;
}

/* Called on the thread that compresses: signals, and the user's function, which may return True to stop. */
static bool on_progress(void *user, const char *what, const pst_run_progress *run, const pst_compress_variant *variant)
{
    PyObject *function = user, *result = NULL;
    PyGILState_STATE gil = PyGILState_Ensure();
    bool stop = PyErr_Occurred() || PyErr_CheckSignals() < 0;
    if (!stop && function != Py_None) {
        PyObject *about = variant ? variant_object(variant)
                                  : Py_BuildValue("{s:K,s:K}", "epoch", (unsigned long long)(run ? run->epoch : 0), "step", (unsigned long long)(run ? run->step : 0));
        result = about ? PyObject_CallFunction(function, "sO", what, about) : NULL;
        Py_XDECREF(about);
        stop = !result || PyObject_IsTrue(result) != 0;
    }
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return stop;
}

/* ---- The call ---- */

/* The pipelines of a call: the caller's, or those that the model's run recorded. */
struct pipelines {
    pst_pipeline *data, *validation;         /* used */
    pst_pipeline *own_data, *own_validation; /* made here */
};

static pst_status open_recorded(struct pipelines *p, const pst_run_record *r, pst_error *e)
{
    pst_pipeline_options o = {.size = sizeof(o)};
    pst_status st = PST_OK;
    if (!p->data && r->pipeline && !r->foreign)
        st = pst_pipeline_parse(&p->own_data, r->pipeline, &o, e);
    if (st == PST_OK && !p->validation && r->validation)
        st = pst_pipeline_parse(&p->own_validation, r->validation, &o, e);
    p->data = p->data ? p->data : p->own_data;
    p->validation = p->validation ? p->validation : p->own_validation;
    if (st == PST_OK && !p->validation)
        st = pst_fail(e, PST_EINVAL, "validation is missing: the data on which accuracy is measured");
    return st;
}

/* Without the GIL. */
static pst_status compress(struct request *r, struct pipelines *p, pst_compress_result *result, pst_error *e)
{
    pst_network *from = NULL, *small = NULL;
    char *path = NULL;
    pst_status st = pst_network_open(&from, r->model, r->checkpoint, e);
    if (st == PST_OK)
        st = open_recorded(p, pst_network_record(from), e);
    if (st == PST_OK)
        st = pst_compress(&small, from, p->data, p->validation, &r->options, result, e);
    if (st == PST_OK && r->out && result->chosen && !result->stopped) {
        size_t size = strlen(r->out) + sizeof("/model");
        path = malloc(size);
        if (path)
            snprintf(path, size, "%s/model", r->out);
        st = path ? pst_network_save(small, path, true, e) : pst_fail(e, PST_ENOMEM, "saving the model: out of memory");
    }
    if (st == PST_OK && r->html && !result->stopped)
        st = pst_compress_report(result, r->title, r->html, e);
    free(path);
    pst_network_destroy(small);
    pst_network_destroy(from);
    pst_pipeline_destroy(p->own_data);
    pst_pipeline_destroy(p->own_validation);
    return st;
}

/* compress(model, out, data, validation, …) → {"variants", "layers", "chosen", "stopped"} */
PyObject *core_compress(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct request r = {.options = {.size = sizeof(r.options)}};
    pst_compress_result result = {.size = sizeof(result)};
    pst_error e = {0};
    (void)self;
    if (!read_request(&r, args, kwargs))
        return NULL;
    Pipeline *data = r.data == Py_None ? NULL : (Pipeline *)r.data, *validation = r.validation == Py_None ? NULL : (Pipeline *)r.validation;
    if (data && !pipeline_enter(data))
        return NULL;
    if (validation && (validation == data || !pipeline_enter(validation))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "data and validation are the same pipeline");
        if (data)
            pipeline_leave(data);
        return NULL;
    }
    struct pipelines p = {.data = data ? data->p : NULL, .validation = validation ? validation->p : NULL};
    r.options.progress = on_progress;
    r.options.user = r.progress;
    PyThreadState *gil = PyEval_SaveThread();
    pst_status st = compress(&r, &p, &result, &e);
    PyEval_RestoreThread(gil);
    if (validation)
        pipeline_leave(validation);
    if (data)
        pipeline_leave(data);
    PyObject *ret = NULL;
    if (st < 0 && !PyErr_Occurred()) {
        Pipeline *source = data && PyDict_Size(data->failures) > 0 ? data : validation;
        if (source)
            pipeline_raise(source, &e);
        else
            raise_error(&e);
    } else if (!PyErr_Occurred()) {
        ret = result_object(&result);
    }
    pst_free(result.variants);
    pst_free(result.layers);
    return ret;
}
