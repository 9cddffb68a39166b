/* weights.c: weights alone, from a checkpoint, a run, or a file of another program. */
#include "base/error.h"
#include "base/memory.h"
#include "export/weight_file.h"
#include "io/file.h"
#include "train/checkpoint.h"
#include "train/weights.h"

#include <string.h>

/* The mean of the weights, where the checkpoint has one, is what is used: its arrays are called NAME/mean. */
static void take_mean(const struct safetensors *optimizer, const struct graph *g, float *params)
{
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        char *name = mem_format("%s/mean", p->name);
        const struct safetensor *x = name ? safetensors_find(optimizer, name) : NULL;
        if (x && x->count == p->count && strcmp(x->dtype, "F32") == 0)
            memcpy(params + p->offset, x->data, p->count * sizeof(float));
        mem_free(name);
    }
}

pst_status weights_of_checkpoint(const char *folder, const struct graph *g, float *params, size_t *ret_loaded, pst_error *reterr)
{
    struct json_document d = {0};
    struct weight_file weights = {0}, optimizer = {0};
    char *text = NULL;
    pst_status st = checkpoint_open_state(folder, &text, &d, reterr);
    if (st < 0)
        return st;
    st = checkpoint_open_arrays(folder, "weights.safetensors", &d, "weights_hash", &weights.bytes, &weights.arrays, reterr);
    if (st == PST_OK)
        st = checkpoint_open_arrays(folder, "optimizer.safetensors", &d, "optimizer_hash", &optimizer.bytes, &optimizer.arrays, reterr);
    if (st == PST_OK)
        st = weights_assign(&weights, g, params, ret_loaded, reterr);
    if (st == PST_OK)
        take_mean(&optimizer.arrays, g, params);
    weight_file_finish(&weights);
    weight_file_finish(&optimizer);
    json_finish(&d);
    mem_free(text);
    return st;
}

static pst_status from_file(const char *path, const struct graph *g, float *params, size_t *loaded, pst_error *reterr)
{
    struct weight_file f;
    pst_status st = weight_file_open(&f, path, reterr);
    if (st < 0)
        return st;
    st = weights_assign(&f, g, params, loaded, reterr);
    if (st < 0 && reterr && !reterr->path[0]) {
        pst_error inner = *reterr;
        pst_fail_at(reterr, st, path, PST_NOWHERE, PST_NOWHERE, "%s", inner.message);
    }
    weight_file_finish(&f);
    return st;
}

pst_status pst_trainer_load_weights(pst_trainer *t, const char *path, size_t *ret_loaded, pst_error *reterr)
{
    const struct graph *g = t->model->graph;
    struct file_info info;
    pst_run_record *record = NULL;
    size_t loaded = 0, bytes = g->values * sizeof(float);
    float *params = mem_large(bytes ? bytes : 1); /* a copy: a failure changes nothing */
    pst_status st = params ? file_stat(path, &info, reterr) : fail_memory(reterr, "reading weights");
    if (st == PST_OK)
        memcpy(params, t->params, bytes);
    if (st == PST_OK && info.is_folder)
        st = pst_run_record_read(&record, path, NULL, reterr);
    if (st == PST_OK)
        st = record ? weights_of_checkpoint(record->folder, g, params, &loaded, reterr) : from_file(path, g, params, &loaded, reterr);
    if (st == PST_OK) {
        memcpy(t->params, params, bytes);
        optimizer_start_mean(t->optimizer, t->params);
        if (ret_loaded)
            *ret_loaded = loaded;
    }
    mem_free(params);
    pst_run_record_destroy(record);
    return st;
}
