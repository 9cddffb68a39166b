/* infer_sparse.c: a 1 × 1 convolution whose weights are mostly zeros, with what follows it: bias, residual addition, clamp.
 *
 * Only the other weights are stored. Which layers are worth it was measured (docs/compress.md, "Zeros"). Workers divide a call by pixels. */
#include "infer/conv_group.h"
#include "infer/share.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/kernels/sparse.h"

#include <math.h>
#include <stdio.h>

#define LEAST_INPUTS 128 /* channels; with fewer, turning the pixels takes too long */
#define LEAST_PIXELS 8   /* of an image: with fewer, vectors stay empty */
#define LEAST_ZEROS  .89 /* of the weights */

struct sparse_state {
    const struct sparse_kernel *kernel;
    struct sparse_job job; /* of one image, without pointers of the call */
    struct sparse_term *terms;
    uint32_t *first;
};

/* ---- Which nodes ---- */

static const float *kernel_of(const struct infer_view *v, const struct conv_group *g)
{
    return v->params + v->graph->params[g->node->first_param].offset;
}

static bool find_group(const struct infer_view *v, size_t node, struct conv_group *g)
{
    const struct sparse_kernel *k = sparse_kernel(v->options->features);
    if (!k || v->options->quant || !conv_group_find(v, node, g) || g->vector || g->pool)
        return false;
    const struct conv_shape *s = &g->shape;
    const struct shape *in = &g->node->in[0], *out = &g->node->out;
    if (s->size != 1 || s->stride != 1 || s->depthwise || !conv_is_plain(s) || in->h != out->h || in->w != out->w || s->ci < LEAST_INPUTS || !k->takes(s->ci, s->co) ||
        in->h * in->w < LEAST_PIXELS)
        return false;
    return (double)sparse_count(kernel_of(v, g), s->ci, s->co) <= (1 - LEAST_ZEROS) * (double)(s->ci * s->co);
}

static size_t match(const struct infer_view *v, size_t node)
{
    struct conv_group g;
    return find_group(v, node, &g) ? g.nodes : 0;
}

/* ---- Plan ---- */

static pst_status plan(const struct infer_view *v, struct infer_op *op, pst_error *reterr)
{
    struct sparse_state *s = mem_zalloc(sizeof(*s));
    struct conv_group g;
    op->state = s;
    if (!s)
        return fail_memory(reterr, "planning predictions");
    find_group(v, op->first, &g);
    size_t ci = g.shape.ci, co = g.shape.co, count = sparse_count(kernel_of(v, &g), ci, co);
    s->kernel = sparse_kernel(v->options->features);
    s->terms = mem_array(count + 1, sizeof(*s->terms));
    s->first = mem_array(co + 1, sizeof(*s->first));
    if (!s->terms || !s->first)
        return fail_memory(reterr, "planning predictions");
    sparse_pack(kernel_of(v, &g), ci, co, s->kernel->block(ci), s->terms, s->first);
    s->job = (struct sparse_job){.pixels = g.node->in[0].h * g.node->in[0].w,
                                 .ci = ci,
                                 .co = co,
                                 .terms = s->terms,
                                 .first = s->first,
                                 .bias = g.node->params > 1 ? v->params + v->graph->params[g.node->first_param + 1].offset : NULL,
                                 .low = g.low,
                                 .high = g.high};
    op->in[op->inputs++] = v->graph->nodes[op->first].input[0];
    if (g.add != SIZE_MAX)
        op->in[op->inputs++] = g.add;
    op->scratch = s->kernel->scratch_bytes(ci, co);
    op->images = (s->kernel->block(ci) + s->job.pixels - 1) / s->job.pixels;
    op->weight_bytes = count * sizeof(*s->terms) + (co + 1) * sizeof(*s->first) + (s->job.bias ? co * sizeof(float) : 0);
    snprintf(op->why, sizeof(op->why), "sparse, %.0f %% zeros%s%s%s", 100 - 100. * (double)count / (double)(ci * co), s->job.bias ? ", bias" : "",
             g.add != SIZE_MAX ? ", added" : "", g.high < INFINITY || g.low > -INFINITY ? ", clamped" : "");
    return PST_OK;
}

static void free_state(struct infer_op *op)
{
    struct sparse_state *s = op->state;
    if (!s)
        return;
    mem_free(s->terms);
    mem_free(s->first);
    mem_free(s);
}

/* ---- Running ---- */

static void run(const struct infer_call *call)
{
    const struct sparse_state *s = call->op->state;
    struct sparse_job j = s->job;
    size_t begin, end;
    share_units(call->images * s->job.pixels, LEAST_PIXELS, call->part, call->parts, &begin, &end);
    j.pixels = end - begin;
    j.in = (const float *)call->in[0] + begin * j.ci;
    j.add = call->op->inputs > 1 ? (const float *)call->in[1] + begin * j.co : NULL;
    j.out = (float *)call->out + begin * j.co;
    s->kernel->conv(&j, call->scratch);
}

const struct infer_class infer_sparse = {
    .name = "conv",
    .match = match,
    .plan = plan,
    .run = run,
    .free = free_state,
};
