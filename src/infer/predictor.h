/* predictor.h: predictors from a graph, for the rooms that read models. */
#ifndef INFER_PREDICTOR_H
#define INFER_PREDICTOR_H

#include "model/graph.h"
#include <penstock/predict.h>

struct quant_model;

/* What a predictor is made from. */
struct predictor_source {
    const struct graph *graph; /* as it was trained, or folded */
    const float *params;
    const struct quant_model *quant; /* the same in integers; NULL: none */
    pst_loss loss;             /* of the run, for PST_OUTPUT_PROBABILITIES; PST_LOSS_AUTO: not known */
};

/* Copies everything that it needs. */
pst_status predictor_create(pst_predictor **ret, const struct predictor_source *from, const pst_predict_options *options, pst_error *reterr);

#endif
