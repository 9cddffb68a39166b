/* layer_dense.h: the config of dense layers. */
#ifndef MODEL_LAYER_DENSE_H
#define MODEL_LAYER_DENSE_H

#include "model/layer_activation.h"

struct dense_config {
    struct layer_config layer;
    uint64_t units;
    int activation; /* enum activation; the graph makes a layer of it */
    bool bias;
};

#endif
