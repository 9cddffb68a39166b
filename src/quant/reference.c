/* reference.c: a quantised model by the plain C meaning of every layer, one after the other. */
#include "quant/jobs.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

struct reference {
    const struct quant_model *q;
    size_t n;
    uint8_t **bytes; /* per value; NULL: float or inside */
    float **reals;   /* per value; NULL: not computed */
    struct i8_kernels kernels;
};

static size_t values_of(const struct reference *r, size_t v)
{
    return r->n * shape_values(graph_shape(r->q->graph, v));
}

/* Makes sure that value `v` exists in floats. */
static bool need_reals(struct reference *r, size_t v)
{
    const struct quant_value *value = &r->q->values[v];
    if (r->reals[v])
        return true;
    r->reals[v] = mem_array(values_of(r, v), sizeof(float));
    if (r->reals[v])
        r->kernels.dequantise(r->bytes[v], values_of(r, v), value->scale, value->zero, r->reals[v]);
    return r->reals[v];
}

static bool run_conv(struct reference *r, size_t node)
{
    const struct quant_layer *l = &r->q->layers[node];
    struct i8_job j = quant_conv_job(r->q, node, r->n);
    float *factors = mem_array(j.shape.co, sizeof(float));
    if (!factors)
        return false;
    quant_factors(r->q, node, factors);
    j.in = r->bytes[r->q->graph->nodes[node].input[0]];
    j.weights = l->weights;
    j.bias = l->bias;
    j.factors = factors;
    j.out = r->bytes[l->group.out];
    j.out_real = r->reals[l->group.out];
    i8_conv_c.conv(&j, NULL);
    mem_free(factors);
    return true;
}

static void run_concat(struct reference *r, size_t node)
{
    const struct graph_node *n = &r->q->graph->nodes[node];
    size_t rows = r->n * (size_t)n->out.h * n->out.w, at = 0;
    uint8_t table[256];
    for (size_t k = 0; k < n->inputs; at += n->in[k++].c) {
        quant_table(r->q, node, k, table);
        for (size_t i = 0; i < rows * n->in[k].c; i++)
            r->bytes[node + 1][i / n->in[k].c * n->out.c + at + i % n->in[k].c] = table[r->bytes[n->input[k]][i]];
    }
}

static void run_add(struct reference *r, size_t node)
{
    const struct graph_node *n = &r->q->graph->nodes[node];
    size_t out = r->q->layers[node].group.out;
    struct i8_add a = quant_add_job(r->q, node);
    for (size_t k = 0; k < n->inputs; k++)
        a.in[k] = r->bytes[n->input[k]];
    r->kernels.add(&a, values_of(r, out), r->bytes[out]);
}

static bool run_float(struct reference *r, size_t node)
{
    const struct graph_node *n = &r->q->graph->nodes[node];
    const struct quant_value *v = &r->q->values[node + 1];
    const float *in[LAYER_MAX_INPUTS];
    void *saved = mem_alloc(quant_float_saved(r->q, node, r->n) + 1);
    bool whole = saved;
    for (size_t k = 0; whole && k < n->inputs; k++) {
        whole = need_reals(r, n->input[k]);
        in[k] = r->reals[n->input[k]];
    }
    if (whole && !r->reals[node + 1])
        r->reals[node + 1] = mem_array(values_of(r, node + 1), sizeof(float));
    whole = whole && r->reals[node + 1];
    if (whole)
        quant_float_node(r->q, node, r->n, in, r->reals[node + 1], saved);
    if (whole && v->form == QUANT_U8)
        r->kernels.quantise(r->reals[node + 1], values_of(r, node + 1), v->scale, v->zero, r->bytes[node + 1]);
    mem_free(saved);
    return whole;
}

static bool run_node(struct reference *r, size_t node)
{
    const struct graph_node *n = &r->q->graph->nodes[node];
    enum quant_op op = r->q->layers[node].group.op;
    struct i8_pool p;
    uint8_t table[256];
    if (op == QUANT_OP_NONE)
        return true;
    if (op == QUANT_OP_FLOAT)
        return run_float(r, node);
    if (op == QUANT_OP_CONV || op == QUANT_OP_DENSE)
        return run_conv(r, node);
    const uint8_t *in = r->bytes[n->input[0]];
    uint8_t *out = r->bytes[r->q->layers[node].group.out];
    if (op == QUANT_OP_ADD)
        run_add(r, node);
    else if (op == QUANT_OP_CONCAT)
        run_concat(r, node);
    else if (op == QUANT_OP_FLATTEN)
        memcpy(out, in, values_of(r, node + 1));
    else if (op == QUANT_OP_TABLE) {
        quant_table(r->q, node, 0, table);
        for (size_t i = 0; i < values_of(r, node + 1); i++)
            out[i] = table[in[i]];
    } else {
        p = quant_pool_job(r->q, node, r->n);
        p.in = in;
        p.out = out;
        (op == QUANT_OP_MAXPOOL ? r->kernels.maxpool : op == QUANT_OP_AVGPOOL ? i8_avgpool : r->kernels.globalavgpool)(&p);
    }
    return true;
}

static bool run_all(struct reference *r, const float *in, float *ret)
{
    const struct graph *g = r->q->graph;
    bool whole = true;
    for (size_t v = 0; whole && v <= g->count; v++) {
        enum quant_form form = r->q->values[v].form;
        if (form == QUANT_U8)
            r->bytes[v] = mem_array(values_of(r, v), 1);
        else if (form == QUANT_FLOAT)
            r->reals[v] = mem_array(values_of(r, v), sizeof(float));
        whole = form == QUANT_INSIDE || r->bytes[v] || r->reals[v];
    }
    if (whole && r->bytes[0])
        r->kernels.quantise(in, values_of(r, 0), r->q->values[0].scale, r->q->values[0].zero, r->bytes[0]);
    else if (whole)
        memcpy(r->reals[0], in, values_of(r, 0) * sizeof(float));
    for (size_t i = 0; whole && i < g->count; i++)
        whole = run_node(r, i);
    whole = whole && need_reals(r, g->count);
    if (whole)
        memcpy(ret, r->reals[g->count], values_of(r, g->count) * sizeof(float));
    return whole;
}

pst_status quant_reference(const struct quant_model *q, const float *in, size_t n, float *ret, uint8_t *const *values,
                           pst_error *reterr)
{
    size_t count = q->graph->count + 1;
    struct reference r = {
        .q = q, .n = n, .bytes = mem_array(count, sizeof(*r.bytes)), .reals = mem_array(count, sizeof(*r.reals))};
    i8_kernels_c(&r.kernels);
    bool whole = r.bytes && r.reals && run_all(&r, in, ret);
    for (size_t v = 0; whole && values && v < count; v++)
        if (values[v] && r.bytes[v])
            memcpy(values[v], r.bytes[v], values_of(&r, v));
    for (size_t v = 0; v < count; v++) {
        mem_free(r.bytes ? r.bytes[v] : NULL);
        mem_free(r.reals ? r.reals[v] : NULL);
    }
    mem_free(r.bytes);
    mem_free(r.reals);
    return whole ? PST_OK : fail_memory(reterr, "computing a quantised model");
}
