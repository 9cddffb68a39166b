/* activation.c: the names of activations. */
#include "model/layer_activation.h"

const char *const activation_choices[] = {"none", "relu", "relu6", "leaky", "gelu", "silu", "sigmoid", "tanh", "softmax", NULL};
