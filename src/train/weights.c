/* weights.c: weights alone, from a checkpoint, a run, or a file of another program. */
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "export/onnx_import.h"
#include "export/stored_weights.h"
#include "io/file.h"
#include "train/checkpoint.h"
#include "train/weights.h"

#include <inttypes.h>
#include <string.h>

/* The mean of the weights, where the checkpoint has one, is what is used: its arrays are called NAME/mean. */
static void take_mean(const struct safetensors *optimizer, const struct graph *g, size_t head, float *params)
{
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        char *name = mem_format("%s/mean", p->name);
        const struct safetensor *x = name ? safetensors_find(optimizer, name) : NULL;
        if (x && p->node != head && x->count == p->count && strcmp(x->dtype, "F32") == 0)
            memcpy(params + p->offset, x->data, p->count * sizeof(float));
        mem_free(name);
    }
}

/* ---- Formats ---- */

static pst_status format_of(const char *folder, const struct json_document *d, pst_weights_format *ret, pst_error *reterr)
{
    char *name = json_get_string(d, json_find(d, 0, "weights_format"));
    *ret = PST_WEIGHTS_FLOAT32;
    for (int i = 0; name && weights_format_names[i]; i++)
        if (strcmp(weights_format_names[i], name) == 0)
            *ret = (pst_weights_format)i;
    bool known = !name || strcmp(weights_format_names[*ret], name) == 0;
    mem_free(name);
    return known ? PST_OK : pst_fail_at(reterr, PST_EUNSUPPORTED, folder, PST_NOWHERE, PST_NOWHERE, "unknown format of weights: use a newer penstock");
}

pst_status weights_format(const pst_run_record *r, pst_weights_format *ret, pst_error *reterr)
{
    struct json_document d = {0};
    char *text = NULL;
    pst_status st = checkpoint_open_state(r->folder, &text, &d, reterr);
    if (st < 0)
        return st;
    st = format_of(r->folder, &d, ret, reterr);
    json_finish(&d);
    mem_free(text);
    return st;
}

/* A kernel that state.json does not name is float32. */
static void read_formats(const struct json_document *d, const struct graph *g, pst_weights_format *each)
{
    size_t formats = json_find(d, 0, "kernel_formats");
    for (size_t i = 0; i < g->param_count; i++) {
        char *name = formats == JSON_ABSENT || !stored_kernel(g, i) ? NULL : json_get_string(d, json_find(d, formats, g->params[i].name));
        for (int k = 0; name && k < PST_WEIGHTS_QUANTIZED; k++)
            if (strcmp(weights_format_names[k], name) == 0)
                each[i] = (pst_weights_format)k;
        mem_free(name);
    }
}

pst_status weights_formats(const pst_run_record *r, const struct graph *g, pst_weights_format **ret, pst_error *reterr)
{
    struct json_document d = {0};
    char *text = NULL;
    pst_status st = checkpoint_open_state(r->folder, &text, &d, reterr);
    if (st < 0)
        return st;
    *ret = mem_array(g->param_count + 1, sizeof(**ret));
    if (*ret)
        read_formats(&d, g, *ret);
    json_finish(&d);
    mem_free(text);
    return *ret ? PST_OK : fail_memory(reterr, "reading weights");
}

/* How each layer is computed: an object of names. Layers that it does not have are automatic. */
static void read_runs(struct quant_model *q, const struct json_document *d)
{
    size_t runs = json_find(d, 0, "layers");
    for (size_t i = 0; i < q->graph->count; i++) {
        char *name = q->layers[i].weights ? json_get_string(d, json_find(d, runs, q->graph->nodes[i].name)) : NULL;
        for (int k = 0; name && k < QUANT_RUNS; k++)
            if (strcmp(quant_run_names[k], name) == 0)
                q->layers[i].run = (enum quant_run)k;
        mem_free(name);
    }
}

/* A text may name any sizes: fails where the file cannot hold so many weights, before anything is allocated for them. */
pst_status weights_fit(const pst_run_record *r, const struct graph *g, pst_error *reterr)
{
    char *path = file_join(r->folder, "weights.safetensors");
    struct file_info info;
    pst_status st = path ? file_stat(path, &info, reterr) : fail_memory(reterr, "reading weights");
    /* Zeros take one bit where they are left out; parameters begin at multiples of some values. */
    if (st == PST_OK && g->values / 8 > info.size + GRAPH_ALIGNMENT * g->param_count)
        st = pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE, "has %" PRIu64 " bytes; the model in state.json has %zu weights", info.size,
                         g->values);
    mem_free(path);
    return st;
}

static pst_status read_quantised(const pst_run_record *r, const struct json_document *d, struct quant_model **ret, pst_error *reterr)
{
    struct weight_file weights = {0};
    struct quant_model *q = NULL;
    pst_model *model = NULL;
    uint64_t bits = 0;
    if (!json_get_uint(d, json_find(d, 0, "weight_bits"), &bits) || (bits != QUANT_BITS_7 && bits != QUANT_BITS_8))
        return pst_fail_at(reterr, PST_ECORRUPT, r->folder, PST_NOWHERE, PST_NOWHERE, "state.json: weight_bits is not 7 or 8");
    pst_status st = pst_model_parse(&model, r->model, &r->input, reterr);
    if (st == PST_OK)
        st = weights_fit(r, model->graph, reterr);
    if (st == PST_OK)
        st = quant_create_empty(&q, r->model, &model->graph->input, (unsigned)bits, reterr);
    if (st == PST_OK)
        st = checkpoint_open_arrays(r->folder, "weights.safetensors", d, "weights_hash", &weights.bytes, &weights.arrays, reterr);
    if (st == PST_OK)
        st = stored_read_quantised(q, &weights.arrays, reterr);
    if (st == PST_OK)
        read_runs(q, d);
    weight_file_finish(&weights);
    pst_model_destroy(model);
    if (st == PST_OK)
        *ret = q;
    else
        quant_unref(q);
    return st;
}

pst_status weights_quantised(const pst_run_record *r, struct quant_model **ret, pst_error *reterr)
{
    struct json_document d = {0};
    char *text = NULL;
    pst_status st = checkpoint_open_state(r->folder, &text, &d, reterr);
    if (st < 0)
        return st;
    st = read_quantised(r, &d, ret, reterr);
    json_finish(&d);
    mem_free(text);
    return st;
}

pst_status weights_hash_quantised(const pst_run_record *r, uint64_t *hash, pst_error *reterr)
{
    struct json_document d = {0};
    char *text = NULL;
    if (onnx_is_file(r->folder))
        return PST_OK; /* integers of an ONNX file are in its bytes, which its readers hash */
    pst_status st = checkpoint_open_state(r->folder, &text, &d, reterr);
    if (st < 0)
        return st;
    static const char *const keys[] = {"weight_bits", "weights_hash", "layers"};
    for (size_t k = 0; k < 3 && json_find(&d, 0, "weight_bits") != JSON_ABSENT; k++)
        for (size_t at = json_find(&d, 0, keys[k]), end = at == JSON_ABSENT ? at : d.items[at].next; at < end; at++)
            if (d.items[at].text)
                *hash = hash_bytes(d.items[at].text, d.items[at].length, *hash);
    json_finish(&d);
    mem_free(text);
    return PST_OK;
}

/* Fills `f` with the parameters of a graph; takes `params`. */
static pst_status arrays_of_graph(const struct graph *g, float *params, struct weight_file *f, pst_error *reterr)
{
    f->blocks = mem_array(1, sizeof(*f->blocks));
    f->arrays.tensors = mem_array(g->param_count + 1, sizeof(*f->arrays.tensors));
    if (!params || !f->blocks || !f->arrays.tensors) {
        mem_free(params);
        return fail_memory(reterr, "reading weights");
    }
    f->blocks[f->block_count++] = params;
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        struct safetensor *x = &f->arrays.tensors[f->arrays.count++];
        *x = (struct safetensor){.name = mem_strdup(p->name), .dtype = "F32", .rank = p->layer.rank, .count = p->count, .data = params + p->offset};
        if (!x->name)
            return fail_memory(reterr, "reading weights");
        for (uint32_t k = 0; k < p->layer.rank; k++)
            x->shape[k] = p->layer.shape[k];
    }
    return PST_OK;
}

/* The weights of a quantised model in float32. */
static pst_status dequantise(const struct quant_model *q, struct weight_file *f, pst_error *reterr)
{
    float *params = mem_large((q->graph->values ? q->graph->values : 1) * sizeof(float));
    if (params)
        quant_dequantise(q, params);
    return arrays_of_graph(q->graph, params, f, reterr);
}

static pst_status weights_of_onnx(const char *path, const struct graph *g, bool new_head, float *params, size_t *ret_loaded, pst_error *reterr)
{
    struct onnx_model m = {0};
    struct weight_file f = {0};
    pst_status st = onnx_import(&m, path, reterr);
    if (st == PST_OK) {
        st = arrays_of_graph(m.graph, m.params, &f, reterr);
        m.params = NULL;
    }
    if (st == PST_OK)
        st = weights_assign(&f, g, new_head ? weights_new_head(&f, g) : SIZE_MAX, params, ret_loaded, reterr);
    weight_file_finish(&f);
    onnx_model_finish(&m);
    return st;
}

static pst_status open_weights(const pst_run_record *r, const struct json_document *d, const struct graph *g, struct weight_file *f,
                               pst_error *reterr)
{
    struct quant_model *q = NULL;
    pst_weights_format format;
    pst_status st = format_of(r->folder, d, &format, reterr);
    if (st == PST_OK && format == PST_WEIGHTS_QUANTIZED) {
        st = read_quantised(r, d, &q, reterr);
        if (st == PST_OK)
            st = dequantise(q, f, reterr);
        quant_unref(q);
        return st;
    }
    if (st == PST_OK)
        st = checkpoint_open_arrays(r->folder, "weights.safetensors", d, "weights_hash", &f->bytes, &f->arrays, reterr);
    return st == PST_OK ? stored_expand(f, g, reterr) : st;
}

pst_status weights_of_checkpoint(const pst_run_record *r, const struct graph *g, bool new_head, float *params, size_t *ret_loaded, pst_error *reterr)
{
    size_t head = SIZE_MAX;
    struct json_document d = {0};
    struct weight_file weights = {0}, optimizer = {0};
    char *text = NULL;
    if (onnx_is_file(r->folder))
        return weights_of_onnx(r->folder, g, new_head, params, ret_loaded, reterr);
    pst_status st = checkpoint_open_state(r->folder, &text, &d, reterr);
    if (st < 0)
        return st;
    st = open_weights(r, &d, g, &weights, reterr);
    if (st == PST_OK && json_find(&d, 0, "optimizer_hash") != JSON_ABSENT)
        st = checkpoint_open_arrays(r->folder, "optimizer.safetensors", &d, "optimizer_hash", &optimizer.bytes, &optimizer.arrays, reterr);
    if (st == PST_OK && new_head)
        head = weights_new_head(&weights, g);
    if (st == PST_OK)
        st = weights_assign(&weights, g, head, params, ret_loaded, reterr);
    if (st == PST_OK)
        take_mean(&optimizer.arrays, g, head, params);
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
    st = weights_assign(&f, g, weights_new_head(&f, g), params, loaded, reterr);
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
    if (st == PST_OK && (info.is_folder || onnx_is_file(path)))
        st = pst_run_record_read(&record, path, NULL, reterr);
    if (st == PST_OK)
        st = record ? weights_of_checkpoint(record, g, true, params, &loaded, reterr) : from_file(path, g, params, &loaded, reterr);
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
