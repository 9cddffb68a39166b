/* infer_layer.c: any single node by its layer's own kernels. Takes everything. Workers divide the samples of a call. */
#include "infer/infer_plan.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>

static size_t match(const struct infer_view *v, size_t node)
{
    (void)v, (void)node;
    return 1;
}

struct layer_state {
    const struct graph_node *node;
    const float *params[LAYER_MAX_PARAMS];
};

static pst_status plan(const struct infer_view *v, struct infer_op *op, pst_error *reterr)
{
    const struct graph_node *n = &v->graph->nodes[op->first];
    struct layer_state *c = mem_zalloc(sizeof(*c));
    op->state = c;
    if (!c)
        return fail_memory(reterr, "planning predictions");
    c->node = n;
    for (size_t i = 0; i < n->params; i++) {
        const struct graph_param *p = &v->graph->params[n->first_param + i];
        c->params[i] = v->params + p->offset;
        op->weight_bytes += p->count * sizeof(float);
    }
    op->inputs = n->inputs;
    for (size_t i = 0; i < n->inputs; i++)
        op->in[i] = n->input[i];
    op->scratch = n->layer->saved_bytes ? n->layer->saved_bytes(n->config, n->in, INFER_GROUP, sizeof(float)) : 0;
    snprintf(op->why, sizeof(op->why), "the reference of %s", n->layer->name);
    return PST_OK;
}

static void free_state(struct infer_op *op)
{
    mem_free(op->state);
}

static void run(const struct infer_call *call)
{
    const struct layer_state *s = call->op->state;
    const struct graph_node *n = s->node;
    size_t begin = call->images * call->part / call->parts, end = call->images * (call->part + 1) / call->parts;
    struct layer_call c = {.config = n->config,
                           .n = end - begin,
                           .first = begin,
                           .inputs = n->inputs,
                           .in_shape = n->in,
                           .out_shape = n->out,
                           .out = (float *)call->out + begin * shape_values(&n->out),
                           .saved = call->scratch};
    for (size_t i = 0; i < n->inputs; i++)
        c.in[i] = (const float *)call->in[i] + begin * shape_values(&n->in[i]);
    for (size_t i = 0; i < n->params; i++)
        c.param[i] = (void *)(uintptr_t)s->params[i]; /* written by training passes only */
    if (c.n > 0)
        n->layer->forward(&c);
}

const struct infer_class infer_layer = {
    .name = "reference",
    .match = match,
    .plan = plan,
    .run = run,
    .free = free_state,
};
