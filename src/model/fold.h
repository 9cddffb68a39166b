/* fold.h: a model for predictions only: batch normalisation becomes part of the convolution or dense layer before it, dropout
 * is left out.
 *
 * The result is a graph with a text of its own (graph_text); layers with kernels keep their names. Batch normalisation stays
 * where something else comes before it. */
#ifndef MODEL_FOLD_H
#define MODEL_FOLD_H

#include "model/graph.h"

/* `params` are the graph's values. `*ret_params` are those of the new graph: mem_free. Folds in double. */
pst_status graph_fold(struct graph **ret, float **ret_params, const struct graph *g, const float *params, pst_error *reterr);

#endif
