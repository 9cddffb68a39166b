/* fake_quant.h: kernels and biases rounded to what int8 inference stores, for models with fakequant layers (quant/qat.h).
 *
 * The step computes with the rounded copy; its gradients change the weights themselves (straight-through). */
#ifndef TRAIN_FAKE_QUANT_H
#define TRAIN_FAKE_QUANT_H

#include "model/graph.h"
#include "model/team.h"

struct fake_quant;

/* `*ret` is NULL where the graph has no fakequant layers. */
pst_status fake_quant_create(struct fake_quant **ret, const struct graph *g, pst_error *reterr);
struct fake_quant *fake_quant_destroy(struct fake_quant *f); /* NULL ok; returns NULL */
/* The rounded copy of `params`, valid until the next call. */
float *fake_quant_params(struct fake_quant *f, struct team *team, const float *params);
/* Copies moving statistics, which a training pass has changed in the copy, back to `params`. */
void fake_quant_take_fixed(struct fake_quant *f, float *params);

#endif
