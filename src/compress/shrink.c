/* shrink.c: trainers of models with fewer channels. */
#include "base/error.h"
#include "base/memory.h"
#include "compress/channels.h"
#include "train/trainer.h"

pst_status pst_trainer_shrink(pst_trainer **ret, pst_model **ret_model, const pst_trainer *from, const pst_train_options *options,
                              const pst_shrink_options *o, pst_error *reterr)
{
    const float *mean = optimizer_state(from->optimizer, 2);
    double share = o->flops > 0 ? o->flops : 0.5;
    struct channels *c = NULL;
    struct graph *g = NULL;
    float *params = NULL;
    char *text = NULL;
    if (o->size < sizeof(*o))
        return pst_fail(reterr, PST_EINVAL, "pst_shrink_options.size is not set");
    if (!(share <= 1))
        return pst_fail(reterr, PST_EINVAL, "%g of the operations; expected a share between 0 and 1", share);
    pst_status st = channels_create(&c, from->model->graph, mean ? mean : from->params, o->norm, reterr);
    if (st == PST_OK)
        st = channels_reduce(c, share, reterr);
    if (st == PST_OK)
        st = channels_shrink(c, &text, &g, &params, reterr);
    if (st == PST_OK)
        st = trainer_of_text(ret, ret_model, text, &g->input, params, options, reterr);
    channels_destroy(c);
    graph_destroy(g);
    mem_free(params);
    mem_free(text);
    return st;
}
