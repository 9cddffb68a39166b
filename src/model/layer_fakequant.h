/* layer_fakequant.h: the range of a rounded value as the integers that 8-bit kernels use: the numbers of quant/quant.h. */
#ifndef MODEL_LAYER_FAKEQUANT_H
#define MODEL_LAYER_FAKEQUANT_H

#include "model/layer.h"

struct fakequant_config {
    struct layer_config layer;
    uint64_t weight_bits; /* of the model's kernels: 7 or 8 */
};

#endif
