/* qat.h: quantisation-aware training: a folded model with `fakequant` layers where the int8 model has its borders, and back.
 *
 * Kernels and biases are rounded by the trainer (train/fake_quant.h); the values between layers by the fakequant layers. Both are the
 * numbers of quant.h, so that the trained model and the int8 model made from it compute the same, up to the rounding of floats. */
#ifndef QUANT_QAT_H
#define QUANT_QAT_H

#include "quant/quant.h"

/* Whether the graph has fakequant layers. `*ret_bits` (NULL: not needed): of its kernels. */
bool qat_is(const struct graph *g, unsigned *ret_bits);

/* The scale of value `v` of a graph with fakequant layers: that of the fakequant layer that it comes from, through maxima and flatten,
 * which keep it; 0: it is not rounded. `params` are the graph's values. */
float qat_scale(const struct graph *g, const float *params, size_t v);

/* Makes the graph to train from a folded one. `ranges` is one per value of it. `*ret_text` and `*ret_params` are the new graph's: mem_free. */
pst_status qat_create(struct graph **ret, char **ret_text, float **ret_params, const struct graph *folded, const float *params,
                      const struct quant_range *ranges, unsigned weight_bits, pst_error *reterr);

/* The graph without fakequant layers, its parameters and the ranges of its values: what quant_create takes. mem_free the last two. */
pst_status qat_strip(struct graph **ret, float **ret_params, struct quant_range **ret_ranges, const struct graph *g, const float *params,
                     pst_error *reterr);

#endif
