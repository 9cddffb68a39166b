/* model.h: _core.Model and _core.Trainer from the inside. */
#ifndef PYTHON_MODEL_H
#define PYTHON_MODEL_H

#include "core.h"

typedef struct {
    PyObject base;
    pst_model *model;
} Model;

extern PyTypeObject *model_type;
extern const char *const python_losses[]; /* of pst_loss, in order; the list ends with NULL */

PyObject *shape_object(const pst_shape *s); /* a tuple */
/* metrics.c: metrics over the batches of a pass, as a capsule, which owns them. Takes `m` also on failure. */
PyObject *metrics_object(pst_metrics *m);
pst_metrics *metrics_take(PyObject *capsule); /* NULL: it is not one, or another thread uses it; an exception is set */
void metrics_give(PyObject *capsule);         /* after metrics_take */
PyObject *metrics_judgement(PyObject *module, PyObject *capsule); /* {"auc": …, "f1": …} with those that the loss has */
/* trainer_options.c. Both return false with an exception set; the caller frees the list in both cases. Names are borrowed. */
bool names_take(const char *what, PyObject *tuple, const char ***ret, size_t *ret_count);
bool trainer_options(PyObject *kwargs, pst_train_options *ret, const char ***ret_freeze);
bool trainer_type_create(PyObject *module);

#endif
