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
bool trainer_type_create(PyObject *module);

#endif
