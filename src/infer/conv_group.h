/* conv_group.h: a convolution or dense layer in float32 and the nodes after it that run with it: addition, activation, maximum. */
#ifndef INFER_CONV_GROUP_H
#define INFER_CONV_GROUP_H

#include "infer/infer.h"
#include "model/kernels/conv.h"

struct conv_group {
    size_t nodes;
    const struct graph_node *node; /* conv, dwconv or dense */
    struct conv_shape shape;
    const struct conv_kernel *kernel;
    size_t add; /* value; SIZE_MAX: none */
    bool pool, vector;
    float low, high;
};

/* The group that begins at node `first`; false: none does. */
bool conv_group_find(const struct infer_view *v, size_t first, struct conv_group *ret);

#endif
