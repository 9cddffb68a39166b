/* weights.h: weights alone, from a checkpoint. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "model/graph.h"

/* Writes the weights that the checkpoint in `folder` evaluates with (their mean, where it has one) into `params`, the graph's block. */
pst_status weights_of_checkpoint(const char *folder, const struct graph *g, float *params, size_t *ret_loaded, pst_error *reterr);

#endif
