/* metrics.c: metrics over the batches of a pass, which Python drives. */
#include "model.h"

#include <math.h>

static const char name[] = "penstock.metrics";

static void destroy(PyObject *capsule)
{
    pst_metrics_destroy(PyCapsule_GetPointer(capsule, name));
}

PyObject *metrics_object(pst_metrics *m)
{
    PyObject *capsule = PyCapsule_New(m, name, destroy);
    if (!capsule)
        pst_metrics_destroy(m);
    return capsule;
}

pst_metrics *metrics_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, name);
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
    pst_metrics *m = metrics_of(capsule);
    pst_evaluation e = {.size = sizeof(e)};
    pst_error error;
    (void)module;
    if (!m)
        return NULL;
    if (pst_metrics_result(m, &e, &error) < 0)
        return raise_error(&error);
    pst_free(e.confusion);
    PyObject *dict = PyDict_New();
    if (dict && add(dict, "auc", e.auc) && add(dict, "f1", e.f1) && add(dict, "mae", e.mae) && add(dict, "r2", e.r2))
        return dict;
    Py_XDECREF(dict);
    return NULL;
}
