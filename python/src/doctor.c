/* doctor.c: the doctor of the engine for datasets of Python: _core.doctor_run and _core.doctor_page over penstock/doctor.h.
 *
 * Stages that no text describes (functions, arrays, generators) are operations of the program to the doctor. For each pipeline
 * that it builds, the object `customs` adds them to a Pipeline object which borrows that pipeline for the call. What the stages
 * need stays with this object until the examination has ended, and with it every pipeline that uses them. */
#include "pipeline.h"

#include <penstock/doctor.h>
#include <stdlib.h>

struct examination {
    PyObject *customs; /* add(stage, pipeline), is_python(stage); None: the text says all */
    PyObject *owners;  /* list of Pipeline objects that hold what the stages need */
};

/* ---- Stages of the program ---- */

/* An interruption stays set, for the caller of the examination; other exceptions become the message. */
static pst_status take_exception(const char *stage, pst_error *reterr)
{
    PyObject *type, *value, *traceback;
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        return pst_fail(reterr, PST_ECANCELLED, "%.60s: interrupted", stage);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    pst_status st = pst_fail(reterr, PST_EINVAL, "%.60s: %.160s", stage, words ? words : "an exception");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return st;
}

static bool add_to(struct examination *x, pst_pipeline *p, const char *stage)
{
    Pipeline *owner = (Pipeline *)pipeline_new(pipeline_type, NULL, NULL);
    bool added = owner && PyList_Append(x->owners, (PyObject *)owner) == 0;
    if (added) {
        pst_pipeline *own = owner->p;
        owner->p = p;
        PyObject *done = PyObject_CallMethod(x->customs, "add", "sO", stage, owner);
        owner->p = own;
        added = done != NULL;
        Py_XDECREF(done);
    }
    Py_XDECREF((PyObject *)owner);
    return added;
}

static pst_status add_custom(void *user, pst_pipeline *p, const char *stage, pst_error *reterr)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    bool added = !PyErr_Occurred() && add_to(user, p, stage);
    pst_status st = added ? PST_OK : take_exception(stage, reterr);
    PyGILState_Release(gil);
    return st;
}

static pst_custom_kind custom_kind(void *user, const char *stage)
{
    struct examination *x = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *python = PyErr_Occurred() ? NULL : PyObject_CallMethod(x->customs, "is_python", "s", stage);
    bool yes = python && PyObject_IsTrue(python) == 1;
    Py_XDECREF(python);
    PyGILState_Release(gil);
    return yes ? PST_CUSTOM_PYTHON : PST_CUSTOM_NATIVE;
}

/* Called on the thread that examines, for Ctrl-C. */
static int on_progress(void *user, const pst_progress *progress)
{
    (void)user;
    (void)progress;
    PyGILState_STATE gil = PyGILState_Ensure();
    bool stop = PyErr_Occurred() || PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    return stop;
}

/* ---- The calls ---- */

static pst_status examine(const char *text, const pst_doctor_options *options, pst_doctor **ret, pst_error *e)
{
    PyThreadState *gil = PyEval_SaveThread();
    pst_status st = pst_doctor_run(ret, text, options, e);
    PyEval_RestoreThread(gil);
    return st;
}

/* doctor_run(text, customs, pipeline, …) → the JSON of the result. `pipeline` has the options of a Pipeline. */
PyObject *core_doctor_run(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"text", "customs", "pipeline", "step_ms", "seconds",   "epochs",   "samples",
                            "memory", "wish",  "link",     "verify",  "cache_dir", "temp_dir", NULL};
    struct examination x = {0};
    const char *text;
    PyObject *pipeline, *result = NULL;
    unsigned long long epochs = 0, samples = 0, memory = 0;
    int verify = 0;
    char *cache_dir = NULL;
    pst_pipeline_options settings = {.size = sizeof(settings)};
    pst_doctor_options o = {.size = sizeof(o), .progress = on_progress};
    pst_doctor *doctor = NULL;
    pst_error e = {0};
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO!|ddKKKddpzz:doctor_run", names, &text, &x.customs, &PyDict_Type,
                                     &pipeline, &o.step_ms, &o.seconds, &epochs, &samples, &memory, &o.wish_rate, &o.link_rate,
                                     &verify, &o.cache_dir, &o.temp_dir) ||
        !pipeline_options(pipeline, &settings, &cache_dir))
        return NULL;
    pst_doctor_customs customs = {.size = sizeof(customs), .add = add_custom, .kind = custom_kind, .user = &x};
    o.pipeline = &settings;
    o.customs = x.customs != Py_None ? &customs : NULL;
    o.epochs = epochs;
    o.samples = samples;
    o.memory = memory;
    o.verify = verify;
    x.owners = PyList_New(0);
    pst_status st = x.owners ? examine(text, &o, &doctor, &e) : PST_OK;
    if (!PyErr_Occurred())
        result = st < 0 ? raise_error(&e) : PyUnicode_FromString(pst_doctor_json(doctor));
    pst_doctor_destroy(doctor);
    Py_XDECREF(x.owners);
    free(cache_dir);
    return result;
}

/* doctor_page(json) → the HTML page of a doctor's answer */
PyObject *core_doctor_page(PyObject *self, PyObject *args)
{
    const char *json;
    Py_ssize_t length;
    char *page = NULL;
    pst_error e;
    (void)self;
    if (!PyArg_ParseTuple(args, "s#:doctor_page", &json, &length))
        return NULL;
    if (pst_doctor_page(&page, json, (size_t)length, &e) < 0)
        return raise_error(&e);
    PyObject *result = PyUnicode_FromString(page);
    pst_free(page);
    return result;
}
