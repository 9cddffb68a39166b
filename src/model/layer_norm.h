/* layer_norm.h: the config of batchnorm and layernorm. */
#ifndef MODEL_LAYER_NORM_H
#define MODEL_LAYER_NORM_H

#include "model/layer.h"

struct norm_config {
    struct layer_config layer;
    double eps, momentum;
};

#endif
