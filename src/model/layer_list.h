/* layer_list.h: every layer there is. The list itself is generated: layer_list.inc. */
#ifndef MODEL_LAYER_LIST_H
#define MODEL_LAYER_LIST_H

#include "model/layer.h"

const struct layer_class *layer_at(size_t i);            /* NULL after the last */
const struct layer_class *layer_at_f64(size_t i);        /* the same layer with its reference in double */
const struct layer_class *layer_find(const char *name);  /* NULL: none */
size_t layer_number(const struct layer_class *layer);    /* of layer_at */

#endif
