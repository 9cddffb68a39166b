/* network_file.c: networks in folders: weights.safetensors and state.json, as checkpoints have them, without an optimiser. */
#include "network/network.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "export/onnx_import.h"
#include "export/stored_weights.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/publish_folder.h"
#include "io/remote/remote.h"
#include "train/checkpoint.h"
#include "train/weights.h"

#include <inttypes.h>
#include <string.h>

/* ---- Opening ---- */

/* The weights of a record: `*ret_params` in float32, and the integers where there are any. */
static pst_status read_weights(const pst_run_record *r, float **ret_params, pst_weights_format *ret_format, struct quant_model **ret_quant,
                               pst_error *reterr)
{
    pst_model *model = NULL;
    size_t loaded = 0;
    pst_status st = pst_model_parse(&model, r->model, &r->input, reterr);
    if (st == PST_OK)
        st = weights_fit(r, model->graph, reterr);
    if (st == PST_OK)
        st = weights_format(r, ret_format, reterr);
    if (st == PST_OK) {
        *ret_params = mem_large((model->graph->values ? model->graph->values : 1) * sizeof(float));
        st = *ret_params ? PST_OK : fail_memory(reterr, "reading weights");
    }
    if (st == PST_OK && *ret_format == PST_WEIGHTS_QUANTIZED) {
        st = weights_quantised(r, ret_quant, reterr);
        if (st == PST_OK)
            quant_dequantise(*ret_quant, *ret_params);
    } else if (st == PST_OK) {
        graph_init_params(model->graph, 0, *ret_params);
        st = weights_of_checkpoint(r, model->graph, false, *ret_params, &loaded, reterr);
    }
    pst_model_destroy(model);
    return st;
}

static pst_status open_onnx(pst_network **ret, const char *path, const char *checkpoint, pst_error *reterr)
{
    pst_run_record *record = NULL;
    struct onnx_model m = {0};
    pst_status st = run_record_of_onnx(&record, &m, path, checkpoint, reterr);
    if (st == PST_OK)
        st = network_make(ret, m.text, &record->input, record, record->loss, m.params, m.quant ? PST_WEIGHTS_QUANTIZED : PST_WEIGHTS_FLOAT32, m.quant, reterr);
    if (st == PST_OK)
        m.params = NULL; /* the network's */
    onnx_model_finish(&m);
    pst_run_record_destroy(record);
    return st;
}

/* Says that of a path where there is nothing, before a file in it is looked for. Objects have no folders to look for. */
static pst_status check_path(const char *path, pst_error *reterr)
{
    struct file_info info;
    if (remote_is(path) || file_stat(path, &info, NULL) != PST_ENOTFOUND)
        return PST_OK;
    return pst_fail_at(reterr, PST_ENOTFOUND, path, PST_NOWHERE, PST_NOWHERE, "no such file or folder; check the spelling");
}

pst_status pst_network_open(pst_network **ret, const char *path, const char *checkpoint, pst_error *reterr)
{
    if (onnx_is_file(path))
        return open_onnx(ret, path, checkpoint, reterr);
    pst_run_record *record = NULL;
    struct quant_model *quant = NULL;
    pst_network *n = NULL;
    pst_weights_format format;
    float *params = NULL;
    pst_status st = check_path(path, reterr);
    if (st == PST_OK)
        st = pst_run_record_read(&record, path, checkpoint, reterr);
    if (st == PST_OK)
        st = read_weights(record, &params, &format, &quant, reterr);
    if (st == PST_OK)
        st = network_make(&n, record->model, &record->input, record, record->loss, params, format, quant, reterr);
    if (st < 0)
        mem_free(params);
    if (st == PST_OK && format == PST_WEIGHTS_MIXED)
        st = weights_formats(record, n->model->graph, &n->each, reterr);
    if (st == PST_OK)
        *ret = n;
    else
        pst_network_destroy(n);
    quant_unref(quant);
    pst_run_record_destroy(record);
    return st;
}

/* ---- Saving ---- */

static void put_strings(struct json *j, const char *key, char *const *list, size_t count)
{
    json_begin_array(j, key);
    for (size_t i = 0; i < count; i++)
        json_string(j, NULL, list[i]);
    json_end_array(j);
}

static void put_quantised(struct json *j, const struct quant_model *q)
{
    json_uint(j, "weight_bits", q->weight_bits);
    json_begin_object(j, "layers");
    for (size_t i = 0; i < q->graph->count; i++)
        if (q->layers[i].weights)
            json_string(j, q->graph->nodes[i].name, quant_run_names[q->layers[i].run]);
    json_end_object(j);
}

/* The format of each kernel of a mixed network. */
static void put_formats(struct json *j, const pst_network *n)
{
    const struct graph *g = n->model->graph;
    json_begin_object(j, "kernel_formats");
    for (size_t i = 0; i < g->param_count; i++)
        if (stored_kernel(g, i))
            json_string(j, g->params[i].name, weights_format_names[n->each[i]]);
    json_end_object(j);
}

static void put_record(struct json *j, const pst_run_record *r)
{
    put_strings(j, "arguments", r->arguments, r->argument_count);
    json_string(j, "folder", r->start);
    json_string(j, "pipeline", r->pipeline);
    json_string(j, "validation", r->validation);
    json_string(j, "input_field", r->input_field);
    json_string(j, "target_field", r->target_field);
    put_strings(j, "classes", r->classes, r->class_count);
}

static void state_file(const pst_network *n, const struct text *weights, struct text *to)
{
    struct json j = {.put = text_put, .to = to, .indent = 2};
    const pst_run_record *r = n->record;
    json_begin_object(&j, NULL);
    json_lines(&j);
    json_uint(&j, "format", CHECKPOINT_NETWORK);
    json_string(&j, "penstock", pst_version());
    json_uint(&j, "step", r->step);
    json_uint(&j, "threads", r->threads);
    json_string(&j, "instructions", r->instructions);
    json_string(&j, "kernels", r->kernels);
    json_string(&j, "model", n->model->text);
    json_begin_array(&j, "input");
    for (uint32_t i = 0; i < r->input.rank; i++)
        json_uint(&j, NULL, r->input.size[i]);
    json_end_array(&j);
    json_string(&j, "loss", loss_names[r->loss]);
    json_begin_object(&j, "run");
    json_uint(&j, "epoch", r->epoch);
    json_end_object(&j);
    json_string(&j, "weights_format", weights_format_names[n->format]);
    if (n->quant)
        put_quantised(&j, n->quant);
    if (n->each)
        put_formats(&j, n);
    put_record(&j, r);
    json_format(&j, "weights_hash", "%016" PRIx64, hash_bytes(weights->data, weights->length, 0));
    json_end_object(&j);
    if (to->failed)
        return;
    to->length -= 2; /* "\n}" */
    text_addf(to, ",\n  \"hash\": \"%016" PRIx64 "\"\n}\n", hash_bytes(to->data, to->length, 0));
}

static pst_status write_file(const char *folder, const char *name, const struct text *data, pst_error *reterr)
{
    char *path = file_join(folder, name);
    pst_status st = path ? publish_bytes(path, data->data, data->length, false, true, reterr) : fail_memory(reterr, "saving");
    mem_free(path);
    return st;
}

static pst_status write_folder(const char *path, const struct text *weights, const struct text *state, pst_error *reterr)
{
    char *hidden = NULL;
    pst_status st = publish_folder_open(&hidden, path, reterr);
    if (st == PST_OK)
        st = write_file(hidden, "weights.safetensors", weights, reterr);
    if (st == PST_OK)
        st = write_file(hidden, "state.json", state, reterr);
    if (st == PST_OK)
        st = publish_folder_commit(hidden, path, reterr);
    if (hidden && st < 0)
        publish_folder_remove(hidden);
    mem_free(hidden);
    return st;
}

pst_status pst_network_save(const pst_network *n, const char *path, bool overwrite, pst_error *reterr)
{
    struct text weights = {0}, state = {0};
    struct file_info info;
    if (!overwrite && file_stat(path, &info, NULL) == PST_OK)
        return pst_fail_at(reterr, PST_EEXIST, path, PST_NOWHERE, PST_NOWHERE, "exists; choose another path, or replace it with --force");
    pst_status st = checkpoint_replaceable(path, reterr);
    if (st == PST_OK)
        st = n->quant ? stored_write_quantised(&weights, n->quant, reterr) : stored_write(&weights, n->model->graph, n->params, n->format, n->each, true, reterr);
    if (st == PST_OK) {
        state_file(n, &weights, &state);
        st = state.failed ? fail_memory_at(reterr, path, "saving") : write_folder(path, &weights, &state, reterr);
    }
    text_finish(&weights);
    text_finish(&state);
    return st;
}
