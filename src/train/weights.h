/* weights.h: weights alone, from a checkpoint. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "model/graph.h"
#include "quant/quant.h"
#include <penstock/network.h>

/* PST_ECORRUPT where the weights of the graph cannot be in the checkpoint's file. */
pst_status weights_fit(const pst_run_record *r, const struct graph *g, pst_error *reterr);
/* How the checkpoint of a record stores its weights. */
pst_status weights_format(const pst_run_record *r, pst_weights_format *ret, pst_error *reterr);
/* The format of each parameter of a checkpoint whose format is PST_WEIGHTS_MIXED; mem_free. */
pst_status weights_formats(const pst_run_record *r, const struct graph *g, pst_weights_format **ret, pst_error *reterr);
/* Reads a checkpoint whose format is PST_WEIGHTS_QUANTIZED. */
pst_status weights_quantised(const pst_run_record *r, struct quant_model **ret, pst_error *reterr);
/* Adds to `*hash` what decides the results of a quantised checkpoint besides its weights in float32: ranges, bits, and how each layer runs. Other
 * checkpoints leave it. */
pst_status weights_hash_quantised(const pst_run_record *r, uint64_t *hash, pst_error *reterr);

/* Writes the weights that the checkpoint of a record evaluates with (their mean, where it has one; dequantised, where they are stored in
 * fewer bits) into `params`, the graph's block; `*ret_loaded` is the number of parameters. `new_head`: a last layer of another shape keeps what
 * `params` has; otherwise that fails. */
pst_status weights_of_checkpoint(const pst_run_record *r, const struct graph *g, bool new_head, float *params, size_t *ret_loaded, pst_error *reterr);

#endif
