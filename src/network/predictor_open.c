/* predictor_open.c: predictors from trained weights: files, networks, trainers. */
#include "base/options.h"
#include "infer/predictor.h"
#include "network/network.h"
#include "quant/qat.h"
#include "train/trainer.h"
#include <penstock/compress.h>

pst_status pst_predictor_of_trainer(pst_predictor **ret, pst_trainer *t, const pst_predict_options *options, pst_error *reterr)
{
    const float *mean = optimizer_state(t->optimizer, 2), *params = mean ? mean : t->params;
    if (t->fake) /* trained for int8: kernels are rounded in its steps, too */
        params = fake_quant_params(t->fake, step_team(t->step), params);
    struct predictor_source from = {.graph = t->model->graph, .params = params, .loss = t->options.loss};
    return predictor_create(ret, &from, options, reterr);
}

pst_status pst_predictor_of_network(pst_predictor **ret, const pst_network *n, const pst_predict_options *options, pst_error *reterr)
{
    pst_network *trained = NULL;
    pst_status st = PST_OK;
    if (!n->quant && qat_is(n->model->graph, NULL)) /* trained for int8: that is what it computes */
        st = pst_quantize(&trained, n, NULL, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .no_choice = true}, reterr);
    const pst_network *use = trained ? trained : n;
    struct predictor_source from = {.graph = use->model->graph, .params = use->params, .quant = use->quant, .loss = n->record->loss};
    if (st == PST_OK)
        st = predictor_create(ret, &from, options, reterr);
    pst_network_destroy(trained);
    return st;
}

pst_status pst_predictor_open(pst_predictor **ret, const char *path, const pst_predict_options *options, pst_error *reterr)
{
    pst_network *n = NULL;
    pst_predict_options own = {0};
    pst_status st = options_take(&own, sizeof(own), options, reterr);
    if (st == PST_OK)
        st = pst_network_open(&n, path, own.checkpoint, reterr);
    if (st == PST_OK)
        st = pst_predictor_of_network(ret, n, options, reterr);
    pst_network_destroy(n);
    return st;
}
