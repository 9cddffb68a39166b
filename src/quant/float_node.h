/* float_node.h: one node of a graph in float32 for predictions, by the fastest kernel there is for it. One thread. */
#ifndef QUANT_FLOAT_NODE_H
#define QUANT_FLOAT_NODE_H

#include "model/graph.h"

struct float_node;

/* `params` are the values of the node's parameters, one pointer each; they must outlive the result. `low` and `high` clamp the
 * result of a convolution. */
pst_status float_node_create(struct float_node **ret, const struct graph_node *n, const float *const *params, unsigned features,
                             float low, float high, pst_error *reterr);
struct float_node *float_node_destroy(struct float_node *f); /* NULL ok; returns NULL */
size_t float_node_scratch(const struct float_node *f, size_t samples);
size_t float_node_bytes(const struct float_node *f); /* of packed weights */
void float_node_run(const struct float_node *f, size_t samples, const float *const *in, float *out, void *scratch);

#endif
