/* model.h: the public model: a graph and the text that it was built from. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/graph.h"
#include <penstock/model.h>

struct pst_model {
    struct graph *graph;
    char *text;
};

/* Builds a model from text without presets. */
pst_status model_create(pst_model **ret, const char *text, const pst_shape *input, pst_error *reterr);

/* The same shape as the public header has it, and back. */
pst_shape shape_public(const struct shape *s);

/* What the model ends with: "softmax", "sigmoid", or "" for neither. */
const char *model_ending(const pst_model *m);

#endif
