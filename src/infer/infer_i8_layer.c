/* infer_i8_layer.c: layers of a quantised model without weights, in integers: additions, pools, concatenation, flatten, tables. */
#include "infer/infer.h"
#include "infer/share.h"

#include "base/error.h"
#include "base/memory.h"
#include "quant/jobs.h"

#include <stdio.h>
#include <string.h>

#define UNIT 64 /* values that are not divided */

struct layer_state {
    enum quant_op op;
    const struct graph_node *node;
    size_t values; /* of one sample of the result */
    struct i8_kernels kernels;
    struct i8_add add;
    struct i8_pool pool;
    uint8_t (*tables)[256]; /* TABLE: 1; CONCAT: one per input */
};

static size_t match(const struct infer_view *v, size_t node)
{
    const struct quant_model *q = v->options->quant;
    if (!q)
        return 0;
    const struct quant_group *g = &q->layers[node].group;
    bool takes = g->op == QUANT_OP_ADD || g->op == QUANT_OP_CONCAT || g->op == QUANT_OP_MAXPOOL || g->op == QUANT_OP_AVGPOOL ||
                 g->op == QUANT_OP_GLOBALAVGPOOL || g->op == QUANT_OP_FLATTEN || g->op == QUANT_OP_TABLE;
    return takes ? g->out - node : 0;
}

static pst_status plan(const struct infer_view *v, struct infer_op *op, pst_error *reterr)
{
    const struct quant_model *q = v->options->quant;
    const struct graph_node *n = &v->graph->nodes[op->first];
    struct layer_state *s = mem_zalloc(sizeof(*s));
    op->state = s;
    if (!s)
        return fail_memory(reterr, "planning predictions");
    s->op = q->layers[op->first].group.op;
    s->node = n;
    s->values = shape_values(graph_shape(v->graph, op->out));
    i8_kernels_init(&s->kernels, v->options->features);
    if (s->op == QUANT_OP_ADD)
        s->add = quant_add_job(q, op->first);
    else if (s->op == QUANT_OP_MAXPOOL || s->op == QUANT_OP_AVGPOOL || s->op == QUANT_OP_GLOBALAVGPOOL)
        s->pool = quant_pool_job(q, op->first, 1);
    else if (s->op == QUANT_OP_CONCAT || s->op == QUANT_OP_TABLE) {
        s->tables = mem_array(n->inputs, sizeof(*s->tables));
        if (!s->tables)
            return fail_memory(reterr, "planning predictions");
        for (size_t k = 0; k < n->inputs; k++)
            quant_table(q, op->first, k, s->tables[k]);
    }
    op->inputs = n->inputs;
    for (size_t k = 0; k < n->inputs; k++)
        op->in[k] = n->input[k];
    v->values[op->out] = (struct infer_value){.bytes = 1, .quantised = true};
    snprintf(op->why, sizeof(op->why), "%s%s", n->layer->name, op->count > 1 ? ", clamped" : "");
    return PST_OK;
}

static void free_state(struct infer_op *op)
{
    struct layer_state *s = op->state;
    if (s)
        mem_free(s->tables);
    mem_free(s);
}

static void run_pool(const struct layer_state *s, const struct infer_call *call)
{
    struct i8_pool p = s->pool;
    p.images = call->images;
    p.in = call->in[0];
    p.out = call->out;
    if (s->op == QUANT_OP_GLOBALAVGPOOL) {
        if (call->part == 0)
            s->kernels.globalavgpool(&p);
        return;
    }
    share_units(p.h, 1, call->part, call->parts, &p.row, &p.row_end);
    (s->op == QUANT_OP_MAXPOOL ? s->kernels.maxpool : i8_avgpool)(&p);
}

static void run_concat(const struct layer_state *s, const struct infer_call *call)
{
    const struct graph_node *n = s->node;
    size_t rows = call->images * n->out.h * n->out.w, begin, end, at = 0;
    share_units(rows, 1, call->part, call->parts, &begin, &end);
    for (size_t k = 0; k < n->inputs; at += n->in[k++].c)
        for (size_t r = begin; r < end; r++) {
            const uint8_t *from = (const uint8_t *)call->in[k] + r * n->in[k].c;
            uint8_t *to = (uint8_t *)call->out + r * n->out.c + at;
            for (size_t c = 0; c < n->in[k].c; c++)
                to[c] = s->tables[k][from[c]];
        }
}

static void run(const struct infer_call *call)
{
    const struct layer_state *s = call->op->state;
    size_t begin, end;
    const uint8_t *in = call->in[0];
    uint8_t *out = call->out;
    share_units(call->images * s->values, UNIT, call->part, call->parts, &begin, &end);
    if (s->op == QUANT_OP_ADD) {
        struct i8_add a = s->add;
        for (size_t k = 0; k < a.terms; k++)
            a.in[k] = (const uint8_t *)call->in[k] + begin;
        s->kernels.add(&a, end - begin, out + begin);
    } else if (s->op == QUANT_OP_CONCAT) {
        run_concat(s, call);
    } else if (s->op == QUANT_OP_FLATTEN) {
        memcpy(out + begin, in + begin, end - begin);
    } else if (s->op == QUANT_OP_TABLE) {
        for (size_t i = begin; i < end; i++)
            out[i] = s->tables[0][in[i]];
    } else {
        run_pool(s, call);
    }
}

const struct infer_class infer_i8_layer = {
    .name = "int8",
    .match = match,
    .plan = plan,
    .run = run,
    .free = free_state,
};
