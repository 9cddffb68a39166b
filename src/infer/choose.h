/* choose.h: which kernel runs each layer of a quantised model. */
#ifndef INFER_CHOOSE_H
#define INFER_CHOOSE_H

#include "quant/quant.h"

/* Measures each layer with integer weights by every way of computing it, on this machine, and stores the fastest in the model, which
 * nothing else may use yet. `samples` are `n` samples of its input. Integers are kept where float32 is not clearly faster. */
pst_status infer_choose(struct quant_model *q, const float *samples, size_t n, pst_error *reterr);

#endif
