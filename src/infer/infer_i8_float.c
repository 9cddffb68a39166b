/* infer_i8_float.c: layers of a quantised model that run in float32: those that have no integer form, and convolutions for which that was
 * measured faster. Inputs are dequantised and results rounded to the same integers, a few samples at a time. Takes every node. */
#include "infer/infer.h"
#include "infer/share.h"

#include "base/error.h"
#include "base/memory.h"
#include "quant/float_node.h"
#include "quant/jobs.h"

#include <stdio.h>
#include <string.h>

#define FULL_ROWS   36                 /* pixels or tiles that keep the products of matrices at full speed */
#define CHUNK_BYTES ((size_t)192 << 10) /* of the floats of one chunk of samples */

struct float_state {
    struct float_node *node;
    const struct quant_model *quant;
    size_t first, result; /* node; value */
    size_t chunk;         /* samples converted together */
    size_t values;        /* of one sample of the result */
    size_t ins[LAYER_MAX_INPUTS]; /* values of one sample of each input */
    struct i8_kernels kernels;
    float *params; /* dequantised */
};

static size_t match(const struct infer_view *v, size_t node)
{
    const struct quant_model *q = v->options->quant;
    return q ? q->layers[node].group.out - node : 0;
}

/* Pointers to the node's parameters in float32. */
static bool find_params(struct float_state *s, const float *ret[LAYER_MAX_PARAMS])
{
    const struct quant_layer *l = &s->quant->layers[s->first];
    const struct graph_node *n = &s->quant->graph->nodes[s->first];
    const struct graph_param *p = &s->quant->graph->params[n->first_param];
    const float *from = l->params;
    if (l->weights) {
        size_t count = quant_kernel_values(s->quant->graph, n);
        s->params = mem_array(count + quant_channels(n), sizeof(float));
        if (!s->params)
            return false;
        quant_dequantise_layer(s->quant, s->first, s->params, s->params + count);
        ret[0] = s->params;
        ret[1] = s->params + count;
        return true;
    }
    for (size_t k = 0; k < n->params; from += p[k++].count)
        ret[k] = from;
    return true;
}

static size_t round_64(size_t n)
{
    return (n + 63) / 64 * 64;
}

static void plan_chunk(struct float_state *s, const struct graph_node *n)
{
    size_t values = s->values, pixels = (size_t)n->out.h * n->out.w;
    for (size_t k = 0; k < n->inputs; k++)
        values += s->ins[k] = shape_values(&n->in[k]);
    size_t fewest = (FULL_ROWS + pixels - 1) / pixels, fits = CHUNK_BYTES / (values * sizeof(float) + 1);
    s->chunk = fits < 1 ? 1 : fits > 16 ? 16 : fits;
    s->chunk = fewest > 16 ? 16 : fewest > s->chunk ? fewest : s->chunk;
}

static pst_status plan(const struct infer_view *v, struct infer_op *op, pst_error *reterr)
{
    const struct quant_model *q = v->options->quant;
    const struct graph_node *n = &v->graph->nodes[op->first];
    const struct quant_group *g = &q->layers[op->first].group;
    const float *params[LAYER_MAX_PARAMS] = {NULL};
    struct float_state *s = mem_zalloc(sizeof(*s));
    op->state = s;
    if (!s)
        return fail_memory(reterr, "planning predictions");
    s->quant = q;
    s->first = op->first;
    s->result = op->out;
    s->values = shape_values(&n->out);
    i8_kernels_init(&s->kernels, v->options->features);
    plan_chunk(s, n);
    if (!find_params(s, params))
        return fail_memory(reterr, "planning predictions");
    pst_status st = float_node_create(&s->node, n, params, v->options->features, g->low, g->high, reterr);
    if (st < 0)
        return st;
    op->inputs = n->inputs;
    op->scratch = round_64(s->values * s->chunk * sizeof(float)) + float_node_scratch(s->node, s->chunk);
    for (size_t k = 0; k < n->inputs; k++) {
        op->in[k] = n->input[k];
        op->scratch += round_64(s->ins[k] * s->chunk * sizeof(float));
    }
    op->images = s->chunk;
    for (size_t k = 0; k < n->params; k++)
        op->weight_bytes += q->graph->params[n->first_param + k].count * sizeof(float);
    op->weight_bytes += float_node_bytes(s->node);
    bool real = q->values[op->out].form != QUANT_U8;
    v->values[op->out] = (struct infer_value){.bytes = real ? sizeof(float) : 1, .quantised = !real};
    snprintf(op->why, sizeof(op->why), "%s in fp32", n->layer->name);
    return PST_OK;
}

static void free_state(struct infer_op *op)
{
    struct float_state *s = op->state;
    if (!s)
        return;
    float_node_destroy(s->node);
    mem_free(s->params);
    mem_free(s);
}

static void run_chunk(const struct float_state *s, const struct infer_call *call, size_t at, size_t count)
{
    const struct quant_model *q = s->quant;
    const struct graph_node *n = &q->graph->nodes[s->first];
    const struct quant_value *result = &q->values[s->result];
    const float *in[LAYER_MAX_INPUTS];
    char *scratch = call->scratch;
    for (size_t k = 0; k < n->inputs; k++) {
        const struct quant_value *value = &q->values[n->input[k]];
        if (value->form != QUANT_U8) {
            in[k] = (const float *)call->in[k] + at * s->ins[k];
            continue;
        }
        s->kernels.dequantise((const uint8_t *)call->in[k] + at * s->ins[k], count * s->ins[k], value->scale, value->zero, (float *)scratch);
        in[k] = (const float *)scratch;
        scratch += round_64(s->ins[k] * s->chunk * sizeof(float));
    }
    bool real = result->form != QUANT_U8;
    float *out = real ? (float *)call->out + at * s->values : (float *)scratch;
    scratch += round_64(s->values * s->chunk * sizeof(float));
    float_node_run(s->node, count, in, out, scratch);
    if (!real)
        s->kernels.quantise(out, count * s->values, result->scale, result->zero, (uint8_t *)call->out + at * s->values);
}

static void run(const struct infer_call *call)
{
    const struct float_state *s = call->op->state;
    size_t begin, end;
    share_units(call->images, 1, call->part, call->parts, &begin, &end);
    for (size_t at = begin; at < end; at += s->chunk)
        run_chunk(s, call, at, end - at < s->chunk ? end - at : s->chunk);
}

const struct infer_class infer_i8_float = {
    .name = "fp32",
    .match = match,
    .plan = plan,
    .run = run,
    .free = free_state,
};
