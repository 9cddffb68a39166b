/* engine.c: see trainer.h. Whether weights have changed is told by their hash: programs may write to them. */
#include "train/trainer.h"

#include "base/hash.h"
#include "infer/predictor.h"

pst_status engine_predict(pst_trainer *t, const pst_tensor *input, float *out, pst_error *reterr)
{
    const struct graph *g = t->model->graph;
    const float *mean = optimizer_state(t->optimizer, 2), *params = mean ? mean : t->params;
    uint64_t hash = hash_bytes(params, g->values * sizeof(float), 0);
    bool whole = t->options.loss == PST_LOSS_MSE || t->options.loss == PST_LOSS_CUSTOM;
    if (t->predictor && hash != t->predictor_hash)
        t->predictor = pst_predictor_destroy(t->predictor);
    if (!t->predictor) {
        pst_predict_options o = {.size = sizeof(o), .threads = t->options.threads, .output = whole ? PST_OUTPUT_MODEL : PST_OUTPUT_LOGITS};
        struct predictor_source from = {.graph = g, .params = params, .loss = t->options.loss};
        pst_status st = predictor_create(&t->predictor, &from, &o, reterr);
        if (st < 0)
            return st;
        t->predictor_hash = hash;
    }
    return pst_predictor_run(t->predictor, input, out, reterr);
}
