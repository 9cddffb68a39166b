/* tap.h: nodes that hand the values between two layers out, and take gradients in: what distillation of features needs.
 *
 * A tapped graph is a copy with the same parameters at the same places; each tap is a node of its own after the layer that it is called by. */
#ifndef MODEL_TAP_H
#define MODEL_TAP_H

#include "model/graph.h"

struct tap {
    struct layer_config layer; /* first: it is the node's config */
    struct shape shape;
    float *copy;        /* forward: receives the values of the batch; NULL: not needed */
    const float *extra; /* backward: added to their gradient; NULL: none */
};

/* Makes a copy of `g` with a tap after each of the named layers. `*ret_taps` has `count` taps in the order of the names; mem_free it
 * after the graph is destroyed. A layer that does not exist, or is the last one, is PST_EINVAL. */
pst_status graph_tap(struct graph **ret, struct tap **ret_taps, const struct graph *g, const char *const *names, size_t count, pst_error *reterr);

#endif
