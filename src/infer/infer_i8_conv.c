/* infer_i8_conv.c: a convolution or dense layer of a quantised model in integers, with its clamp.
 *
 * Workers divide a call by rows of the result. Pixels of 1 × 1 convolutions, and samples of dense layers, are rows of one pixel. */
#include "infer/infer.h"
#include "infer/share.h"

#include "base/error.h"
#include "base/memory.h"
#include "quant/jobs.h"

#include <stdio.h>
#include <string.h>

#define FULL_ROWS 48 /* pixels per call that keep the products at full speed */
#define PADDING   32 /* channels that kernels may read beyond the last one */

struct conv_state {
    size_t node;
    const struct i8_kernel *kernel;
    struct i8_job job; /* without pointers of the call */
    bool flat;         /* pixels are rows of one pixel */
    bool real;         /* the result is float */
    size_t tile;       /* rows that are computed together */
    void *packed;
    int32_t *bias;
    float *factors;
};

/* ---- Which nodes ---- */

static bool is_integer_conv(const struct infer_view *v, size_t node)
{
    const struct quant_layer *l = &v->options->quant->layers[node];
    if (node >= v->nodes || (l->group.op != QUANT_OP_CONV && l->group.op != QUANT_OP_DENSE))
        return false;
    return (l->run != QUANT_RUN_FLOAT || v->options->small) && quant_fits(v->options->quant, node);
}

/* The node of the convolution in a group that begins at `first`; SIZE_MAX: there is none. flatten is the same bytes. */
static size_t find_node(const struct infer_view *v, size_t first)
{
    const struct quant_model *q = v->options->quant;
    if (!q)
        return SIZE_MAX;
    if (q->layers[first].group.op == QUANT_OP_FLATTEN && first + 1 < v->nodes && q->layers[first + 1].group.op == QUANT_OP_DENSE &&
        v->graph->nodes[first + 1].input[0] == first + 1 && v->consumers[first + 1] == 1 && is_integer_conv(v, first + 1))
        return first + 1;
    return is_integer_conv(v, first) ? first : SIZE_MAX;
}

static size_t match(const struct infer_view *v, size_t first)
{
    size_t node = find_node(v, first);
    return node == SIZE_MAX ? 0 : v->options->quant->layers[node].group.out - first;
}

/* ---- Plan ---- */

static const struct i8_kernel *find_kernel(const struct infer_view *v, const struct i8_shape *s, enum quant_run run)
{
    bool compact = v->options->small || run == QUANT_RUN_PRODUCT;
    for (size_t i = 0;; i++) { /* the last one takes everything */
        const struct i8_kernel *k = i8_kernel_at(i, v->options->features, compact);
        if (k->takes(s))
            return k;
    }
}

static pst_status plan(const struct infer_view *v, struct infer_op *op, pst_error *reterr)
{
    const struct quant_model *q = v->options->quant;
    struct conv_state *c = mem_zalloc(sizeof(*c));
    op->state = c;
    if (!c)
        return fail_memory(reterr, "planning predictions");
    c->node = find_node(v, op->first);
    const struct quant_layer *l = &q->layers[c->node];
    c->job = quant_conv_job(q, c->node, 1);
    const struct i8_shape *s = &c->job.shape;
    c->kernel = find_kernel(v, s, l->run);
    size_t bytes = c->kernel->weights_bytes(s);
    c->packed = mem_large(bytes + I8_SLACK);
    c->bias = mem_array(s->co + PADDING, sizeof(int32_t));
    c->factors = mem_array(s->co + PADDING, sizeof(float));
    if (!c->packed || !c->bias || !c->factors)
        return fail_memory(reterr, "planning predictions");
    memcpy(c->bias, l->bias, s->co * sizeof(int32_t));
    memset((char *)c->packed + bytes, 0, I8_SLACK);
    c->kernel->pack(s, l->weights, c->job.in_zero, c->packed, c->bias);
    quant_factors(q, c->node, c->factors);
    c->real = q->values[l->group.out].form != QUANT_U8;
    c->tile = c->kernel->tile ? c->kernel->tile : 1;
    c->flat = l->group.op == QUANT_OP_DENSE || (s->size == 1 && s->stride == 1 && c->job.top + c->job.left == 0 && c->job.in_h == c->job.h && c->job.in_w == c->job.w);
    op->in[op->inputs++] = v->graph->nodes[op->first].input[0];
    op->scratch = c->kernel->scratch_bytes(&c->job);
    size_t pixels = c->job.h * c->job.w;
    op->images = s->depthwise ? 1 : (FULL_ROWS + pixels - 1) / pixels;
    op->weight_bytes = bytes + s->co * (sizeof(int32_t) + sizeof(float));
    v->values[op->out] = (struct infer_value){.bytes = c->real ? sizeof(float) : 1, .quantised = !c->real};
    snprintf(op->why, sizeof(op->why), "%s%s", c->kernel->name, l->group.out > c->node + 1 ? ", clamped" : "");
    return PST_OK;
}

static void free_state(struct infer_op *op)
{
    struct conv_state *c = op->state;
    if (!c)
        return;
    mem_free(c->packed);
    mem_free(c->bias);
    mem_free(c->factors);
    mem_free(c);
}

/* ---- Running ---- */

static void run(const struct infer_call *call)
{
    const struct conv_state *c = call->op->state;
    struct i8_job j = c->job;
    j.images = call->images;
    if (c->flat) {
        j.h = j.in_h = call->images * c->job.h * c->job.w;
        j.w = j.in_w = 1;
        j.images = 1;
    }
    j.row = 0;
    j.row_end = j.h;
    if (call->parts > 1)
        share_units(j.h, c->tile, call->part, call->parts, &j.row, &j.row_end);
    j.in = call->in[0];
    j.weights = c->packed;
    j.bias = c->bias;
    j.factors = c->factors;
    if (c->real)
        j.out_real = call->out;
    else
        j.out = call->out;
    if (j.row < j.row_end)
        c->kernel->conv(&j, call->scratch);
}

const struct infer_class infer_i8_conv = {
    .name = "int8",
    .match = match,
    .plan = plan,
    .run = run,
    .free = free_state,
};
