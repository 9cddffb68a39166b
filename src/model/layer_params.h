/* layer_params.h: rows of parameters that several layers have, so that they read the same everywhere. `config` is the struct that they
 * are stored in. */
#ifndef MODEL_LAYER_PARAMS_H
#define MODEL_LAYER_PARAMS_H

#include "model/layer_activation.h"

#include <stddef.h>

#define PARAM_NAME(config)       {"name", PST_PARAM_STRING, offsetof(config, layer.name), "", 0, 0, NULL, "Name of the layer."}
#define PARAM_ACTIVATION(config) {"activation", PST_PARAM_CHOICE, offsetof(config, activation), "none", 0, 0, activation_choices, "Activation applied to the result."}
#define PARAM_BIAS(config)       {"bias", PST_PARAM_BOOL, offsetof(config, bias), "true", 0, 0, NULL, "Whether a bias is added."}
#define PARAM_FILTERS(config)    {"filters", PST_PARAM_UINT, offsetof(config, filters), NULL, 1, 65536, NULL, "Channels of the result."}
#define PARAM_SIZE(config)       {"size", PST_PARAM_UINT, offsetof(config, size), NULL, 1, 255, NULL, "Side of the square kernel."}
#define PARAM_STRIDE(config)     {"stride", PST_PARAM_UINT, offsetof(config, stride), "1", 1, 255, NULL, "Step of the window."}
#define PARAM_DILATION(config)   {"dilation", PST_PARAM_UINT, offsetof(config, dilation), "1", 1, 255, NULL, "Distance between kernel taps."}
#define PARAM_EPS(config)        {"eps", PST_PARAM_FLOAT, offsetof(config, eps), "0.001", 0, 1, NULL, "Added to the variance."}
#define PARAM_PAD(config)                                                     \
    {"pad", PST_PARAM_STRING, offsetof(config, pad), "valid", 0, 0, NULL,     \
     "Zeros around the input: valid (none), same (as TensorFlow pads), or a number per side (as PyTorch pads)."}

#endif
