/* network.h: the inside of a network. */
#ifndef NETWORK_NETWORK_H
#define NETWORK_NETWORK_H

#include "model/model.h"
#include "quant/quant.h"
#include <penstock/network.h>

struct pst_network {
    pst_run_record *record; /* its model and input are those of `model` */
    pst_model *model;
    float *params;             /* of the model, in float32 */
    pst_weights_format format; /* `params` are rounded to it */
    pst_weights_format *each;  /* of PST_WEIGHTS_MIXED: the format of each parameter; otherwise NULL */
    struct quant_model *quant; /* of PST_WEIGHTS_QUANTIZED; otherwise NULL */
};

/* Makes a network; takes `params` (mem_free) and a reference to `quant` (NULL ok) on success. `record` is copied (NULL ok), but for its
 * model and input. */
pst_status network_make(pst_network **ret, const char *text, const pst_shape *input, const pst_run_record *record, pst_loss loss,
                        float *params, pst_weights_format format, struct quant_model *quant, pst_error *reterr);

/* Rounds the weights of `from` with batch normalisation folded. `each` is read where `format` is PST_WEIGHTS_MIXED: the format of each parameter of the
 * folded model. PST_WEIGHTS_FLOAT32 only folds; folding again changes nothing. */
pst_status network_round(pst_network **ret, const pst_network *from, pst_weights_format format, const pst_weights_format *each, pst_error *reterr);
/* Bits in which each value of parameter `i` is stored. */
unsigned network_bits(const pst_network *n, size_t i);

#endif
