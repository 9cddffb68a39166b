/* network.c: networks in memory; see include/penstock/network.h. */
#include "network/network.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "export/stored_weights.h"
#include "train/checkpoint.h"
#include "train/weights.h"

#include <string.h>

/* ---- Records ---- */

static char *copy_text(const char *s, bool *failed)
{
    char *copy = s ? mem_strdup(s) : NULL;
    *failed |= s && !copy;
    return copy;
}

static char **copy_texts(char *const *from, size_t count, size_t *ret_count, bool *failed)
{
    char **copy = count ? mem_array(count, sizeof(*copy)) : NULL;
    *failed |= count && !copy;
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = copy_text(from[i], failed);
        *ret_count += copy[i] != NULL;
        if (!copy[i])
            break;
    }
    return copy;
}

/* NULL: out of memory. */
static pst_run_record *copy_record(const pst_run_record *from, const char *model, const pst_shape *input, pst_loss loss)
{
    const pst_run_record none = {.size = sizeof(none), .batches_per_step = 1}, *r = from ? from : &none;
    pst_run_record *to = mem_zalloc(sizeof(*to));
    bool failed = false;
    if (!to)
        return NULL;
    to->size = sizeof(*to);
    to->step = r->step;
    to->epoch = r->epoch;
    to->threads = r->threads;
    to->batches_per_step = r->batches_per_step;
    to->loss = loss;
    to->input = *input;
    to->folder = copy_text(r->folder ? r->folder : "", &failed);
    to->start = copy_text(r->start, &failed);
    to->instructions = copy_text(r->instructions, &failed);
    to->kernels = copy_text(r->kernels, &failed);
    to->model = copy_text(model, &failed);
    to->pipeline = copy_text(r->pipeline, &failed);
    to->validation = copy_text(r->validation, &failed);
    to->input_field = copy_text(r->input_field, &failed);
    to->target_field = copy_text(r->target_field, &failed);
    to->arguments = copy_texts(r->arguments, r->argument_count, &to->argument_count, &failed);
    to->classes = copy_texts(r->classes, r->class_count, &to->class_count, &failed);
    return failed ? pst_run_record_destroy(to) : to;
}

/* ---- Making ---- */

pst_status network_make(pst_network **ret, const char *text, const pst_shape *input, const pst_run_record *record, pst_loss loss,
                        float *params, pst_weights_format format, struct quant_model *quant, pst_error *reterr)
{
    pst_network *n = mem_zalloc(sizeof(*n));
    pst_status st = n ? pst_model_parse(&n->model, text, input, reterr) : fail_memory(reterr, "making a network");
    if (st == PST_OK) {
        n->record = copy_record(record, pst_model_text(n->model), input, loss == PST_LOSS_AUTO ? PST_LOSS_SPARSE : loss);
        st = n->record ? PST_OK : fail_memory(reterr, "making a network");
    }
    if (st < 0) {
        pst_network_destroy(n);
        return st;
    }
    n->params = params;
    n->format = format;
    n->quant = quant ? quant_ref(quant) : NULL;
    *ret = n;
    return PST_OK;
}

static float *allocate_params(const struct graph *g)
{
    float *params = mem_large((g->values ? g->values : 1) * sizeof(float));
    if (params)
        memset(params, 0, g->values * sizeof(float));
    return params;
}

pst_status pst_network_of_trainer(pst_network **ret, pst_trainer *t, const pst_run_record *record, pst_error *reterr)
{
    const struct graph *g = t->model->graph;
    const float *mean = optimizer_state(t->optimizer, 2);
    pst_shape input = pst_model_input(t->model);
    float *params = allocate_params(g);
    if (!params)
        return fail_memory(reterr, "making a network");
    memcpy(params, mean ? mean : t->params, g->values * sizeof(float));
    pst_status st = network_make(ret, pst_model_text(t->model), &input, record, t->options.loss, params, PST_WEIGHTS_FLOAT32, NULL, reterr);
    if (st < 0)
        mem_free(params);
    return st;
}

pst_status pst_network_create(pst_network **ret, const char *model, const pst_shape *input, const float *const *values,
                              const pst_run_record *record, pst_error *reterr)
{
    pst_model *m = NULL;
    float *params = NULL;
    pst_status st = pst_model_parse(&m, model, input, reterr);
    if (st == PST_OK) {
        params = allocate_params(m->graph);
        st = params ? PST_OK : fail_memory(reterr, "making a network");
    }
    for (size_t i = 0; st == PST_OK && i < m->graph->param_count; i++)
        memcpy(params + m->graph->params[i].offset, values[i], m->graph->params[i].count * sizeof(float));
    if (st == PST_OK)
        st = network_make(ret, pst_model_text(m), input, record, record ? record->loss : PST_LOSS_AUTO, params, PST_WEIGHTS_FLOAT32, NULL, reterr);
    if (st < 0)
        mem_free(params);
    pst_model_destroy(m);
    return st;
}

pst_network *pst_network_destroy(pst_network *n)
{
    if (!n)
        return NULL;
    quant_unref(n->quant);
    mem_free(n->each);
    mem_free(n->params);
    pst_model_destroy(n->model);
    pst_run_record_destroy(n->record);
    mem_free(n);
    return NULL;
}

/* ---- Facts ---- */

const pst_model *pst_network_model(const pst_network *n)
{
    return n->model;
}

const pst_run_record *pst_network_record(const pst_network *n)
{
    return n->record;
}

const float *pst_network_values(const pst_network *n, size_t i)
{
    const struct graph *g = n->model->graph;
    return i < g->param_count ? n->params + g->params[i].offset : NULL;
}

unsigned network_bits(const pst_network *n, size_t i)
{
    const struct graph *g = n->model->graph;
    if (!stored_kernel(g, i) || (n->quant && !n->quant->layers[g->params[i].node].weights))
        return 32;
    return stored_bits(n->each ? n->each[i] : n->format);
}

/* Bytes of the weights of a quantised model in a file: kernels without their zeros, where that takes fewer. */
static uint64_t quantised_bytes(const struct quant_model *q)
{
    uint64_t sum = quant_weight_bytes(q);
    for (size_t i = 0; i < q->graph->count; i++) {
        const struct graph_param *p = &q->graph->params[q->graph->nodes[i].first_param];
        if (q->layers[i].weights)
            sum += stored_array_bytes(q->layers[i].weights, p->count, 1, p->layer.rank) - p->count;
    }
    return sum;
}

pst_status pst_network_describe(const pst_network *n, pst_network_info *ret, pst_error *reterr)
{
    const struct graph *g = n->model->graph;
    pst_network_info found = {.format = n->format};
    pst_status st = result_check(ret, reterr);
    if (st < 0)
        return st;
    for (size_t i = 0; i < g->param_count; i++) {
        const float *x = n->params + g->params[i].offset;
        found.parameters += g->params[i].count;
        for (size_t k = 0; k < g->params[i].count; k++)
            found.nonzero += x[k] != 0;
    }
    for (size_t i = 0; i < g->count; i++) {
        const struct graph_node *node = &g->nodes[i];
        found.flops += node->layer->flops ? node->layer->flops(node->config, node->in, &node->out) : 0;
        if (n->quant && n->quant->layers[i].weights) {
            found.layers++;
            found.float_layers += n->quant->layers[i].run == QUANT_RUN_FLOAT;
        }
    }
    found.weight_bytes = n->quant ? quantised_bytes(n->quant) : stored_bytes(g, n->params, n->format, n->each);
    result_give(ret, &found, sizeof(found));
    return PST_OK;
}
