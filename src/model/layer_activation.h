/* layer_activation.h: activations by name, for every layer that takes one. */
#ifndef MODEL_LAYER_ACTIVATION_H
#define MODEL_LAYER_ACTIVATION_H

#include "model/layer.h"

enum activation { ACT_NONE, ACT_RELU, ACT_RELU6, ACT_LEAKY, ACT_GELU, ACT_SILU, ACT_SIGMOID, ACT_TANH, ACT_SOFTMAX };
extern const char *const activation_choices[]; /* in that order; ends with NULL */

#define ACTIVATION_LEAKY_SLOPE 0.3 /* as in Keras */

struct activation_config {
    struct layer_config layer;
    double slope; /* of leaky */
};

#endif
