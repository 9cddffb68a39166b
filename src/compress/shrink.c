/* shrink.c: networks with fewer channels, and trainers of them. */
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "compress/channels.h"
#include "network/network.h"
#include "train/trainer.h"
#include <penstock/compress.h>

/* Makes the smaller model by the library's own copy of the options: its text, with its parameters and the graph that they belong to. */
static pst_status shrink(const struct graph *g, const float *params, const pst_shrink_options *o, char **ret_text, struct graph **ret, float **ret_params,
                         pst_error *reterr)
{
    struct channels *c = NULL;
    double share = o->flops > 0 ? o->flops : 0.5;
    if (!(share <= 1))
        return pst_fail(reterr, PST_EINVAL, "%g of the operations; expected a share between 0 and 1", share);
    pst_status st = channels_create(&c, g, params, o->norm, reterr);
    for (size_t i = 0; st == PST_OK && i < o->exclude_count; i++)
        st = channels_keep(c, o->exclude[i], reterr);
    if (st == PST_OK)
        st = channels_reduce(c, share, reterr);
    if (st == PST_OK)
        st = channels_shrink(c, ret_text, ret, ret_params, reterr);
    channels_destroy(c);
    return st;
}

pst_status pst_trainer_shrink(pst_trainer **ret, pst_model **ret_model, const pst_trainer *from, const pst_train_options *options,
                              const pst_shrink_options *o, pst_error *reterr)
{
    const float *mean = optimizer_state(from->optimizer, 2);
    struct graph *g = NULL;
    float *params = NULL;
    char *text = NULL;
    pst_shrink_options given = {0};
    pst_status st = options_take(&given, sizeof(given), o, reterr);
    if (st == PST_OK)
        st = shrink(from->model->graph, mean ? mean : from->params, &given, &text, &g, &params, reterr);
    if (st == PST_OK)
        st = trainer_of_text(ret, ret_model, text, &g->input, params, options, reterr);
    graph_destroy(g);
    mem_free(params);
    mem_free(text);
    return st;
}

pst_status pst_shrink(pst_network **ret, const pst_network *from, const pst_shrink_options *options, pst_error *reterr)
{
    pst_shrink_options given = {0};
    pst_shape input = pst_model_input(from->model);
    struct graph *g = NULL;
    float *params = NULL;
    char *text = NULL;
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st == PST_OK && from->quant)
        st = pst_fail(reterr, PST_EINVAL, "the network is quantised: remove channels first, then quantise");
    if (st == PST_OK)
        st = shrink(from->model->graph, from->params, &given, &text, &g, &params, reterr);
    if (st == PST_OK)
        st = network_make(ret, text, &input, from->record, from->record->loss, params, PST_WEIGHTS_FLOAT32, NULL, reterr);
    if (st < 0)
        mem_free(params);
    graph_destroy(g);
    mem_free(text);
    return st;
}
