/* predict.c: predictors from trained weights: files, or a trainer. */
#include "base/error.h"
#include "base/memory.h"
#include "infer/predictor.h"
#include "train/checkpoint.h"
#include "train/weights.h"

#include <string.h>

pst_status pst_predictor_of_trainer(pst_predictor **ret, pst_trainer *t, const pst_predict_options *options, pst_error *reterr)
{
    const float *mean = optimizer_state(t->optimizer, 2);
    struct predictor_source from = {.graph = t->model->graph, .params = mean ? mean : t->params, .loss = t->options.loss};
    return predictor_create(ret, &from, options, reterr);
}

pst_status pst_predictor_open(pst_predictor **ret, const char *path, const pst_predict_options *options, pst_error *reterr)
{
    pst_run_record *record = NULL;
    pst_model *model = NULL;
    float *params = NULL;
    size_t loaded;
    pst_status st = pst_run_record_read(&record, path, options->size < sizeof(*options) ? NULL : options->checkpoint, reterr);
    if (st == PST_OK)
        st = pst_model_parse(&model, record->model, &record->input, reterr);
    if (st == PST_OK) {
        params = mem_large((model->graph->values ? model->graph->values : 1) * sizeof(float));
        st = params ? PST_OK : fail_memory(reterr, "reading weights");
    }
    if (st == PST_OK) {
        graph_init_params(model->graph, 0, params);
        st = weights_of_checkpoint(record->folder, model->graph, params, &loaded, reterr);
    }
    if (st == PST_OK)
        st = predictor_create(ret, &(struct predictor_source){.graph = model->graph, .params = params, .loss = record->loss}, options, reterr);
    mem_free(params);
    pst_model_destroy(model);
    pst_run_record_destroy(record);
    return st;
}
