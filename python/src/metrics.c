/* metrics.c: metrics over the batches of a pass, which Python drives. */
#include "model.h"

#include <math.h>

static const char name[] = "penstock.metrics";

struct pass {
    pst_metrics *metrics;
    bool busy; /* under the GIL: a thread uses them, perhaps without it */
};

static void free_pass(struct pass *p)
{
    pst_metrics_destroy(p->metrics);
    PyMem_Free(p);
}

static void destroy(PyObject *capsule)
{
    free_pass(PyCapsule_GetPointer(capsule, name));
}

PyObject *metrics_object(pst_metrics *m)
{
    struct pass *p = PyMem_Calloc(1, sizeof(*p));
    if (!p) {
        pst_metrics_destroy(m);
        return PyErr_NoMemory();
    }
    p->metrics = m;
    PyObject *capsule = PyCapsule_New(p, name, destroy);
    if (!capsule)
        free_pass(p);
    return capsule;
}

pst_metrics *metrics_take(PyObject *capsule)
{
    struct pass *p = PyCapsule_GetPointer(capsule, name);
    if (p && p->busy)
        return PyErr_SetString(PyExc_RuntimeError, "another thread uses these metrics; take the metrics of each pass from one thread"), NULL;
    if (p)
        p->busy = true;
    return p ? p->metrics : NULL;
}

void metrics_give(PyObject *capsule)
{
    struct pass *p = PyCapsule_GetPointer(capsule, name);
    p->busy = false;
}

static bool add(PyObject *dict, const char *key, double value)
{
    if (isnan(value))
        return true;
    PyObject *number = PyFloat_FromDouble(value);
    bool done = number && PyDict_SetItemString(dict, key, number) == 0;
    Py_XDECREF(number);
    return done;
}

PyObject *metrics_judgement(PyObject *module, PyObject *capsule)
{
    pst_metrics *m = metrics_take(capsule);
    pst_evaluation e = {.size = sizeof(e)};
    pst_error error;
    (void)module;
    if (!m)
        return NULL;
    pst_status st = pst_metrics_result(m, &e, &error);
    metrics_give(capsule);
    if (st < 0)
        return raise_error(&error);
    pst_free(e.confusion);
    PyObject *dict = PyDict_New();
    if (dict && add(dict, "auc", e.auc) && add(dict, "f1", e.f1) && add(dict, "mae", e.mae) && add(dict, "r2", e.r2))
        return dict;
    Py_XDECREF(dict);
    return NULL;
}
