/* infer_conv.c: a convolution or a dense layer with what follows it: bias, residual addition, clamping activation, 2 × 2 maximum.
 *
 * Weights are packed once, when the plan is made. A dense layer is a 1 × 1 convolution whose pixels are the samples. Several
 * workers divide a call by rows of the result, or by its channels where weights are larger than the image: then each of them reads
 * its own part of the weights only. */
#include "infer/conv_group.h"
#include "infer/infer.h"
#include "infer/share.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/block_conv.h"
#include "model/kernels/direct.h"
#include "model/layer_conv.h"
#include "model/layer_dense.h"
#include "model/layer_pool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FULL_ROWS  36 /* pixels or tiles per call that keep the products of matrices at full speed */
#define FEW_TILES  8  /* per worker: with fewer, they divide channels */

struct conv_state {
    struct conv_group group;
    struct conv_job job; /* without pointers of the call */
    size_t weight_bytes;
    float *packed;
    const float *bias;
    bool in_place; /* a depthwise layer that reads its input where it lies */
};

/* ---- Which nodes ---- */

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

/* Node `next` reads the result of the node before it, and nothing else does. */
static bool follows(const struct infer_view *v, size_t next)
{
    return next < v->nodes && v->graph->nodes[next].inputs == 1 && v->graph->nodes[next].input[0] == next && v->consumers[next] == 1;
}

static bool is_pool_2(const struct graph_node *n)
{
    const struct pool_config *c = n->config;
    return is_layer(n, "maxpool") && c->size == 2 && (c->stride == 2 || c->stride == 0) &&
           (strcmp(c->pad, "valid") == 0 || (strcmp(c->pad, "same") == 0 && n->in[0].h % 2 + n->in[0].w % 2 == 0)) && n->in[0].h > 1 && n->in[0].w > 1;
}

static bool find_shape(const struct graph_node *n, struct conv_group *g)
{
    g->node = n;
    g->vector = is_layer(n, "dense");
    g->shape = (struct conv_shape){.size = 1, .stride = 1, .ci = n->in[0].c, .co = n->out.c};
    return g->vector ? n->in[0].rank == 1 : n->in[0].c > 0 && block_conv_shape(n, &g->shape);
}

/* The other value of an addition that reads this one and an earlier one; SIZE_MAX: it is something else. */
static size_t find_add(const struct infer_view *v, size_t next, size_t first)
{
    const struct graph_node *n = &v->graph->nodes[next];
    if (next >= v->nodes || !is_layer(n, "add") || n->inputs != 2 || v->consumers[next] != 1 || n->input[0] == n->input[1])
        return SIZE_MAX;
    size_t other = n->input[0] == next ? n->input[1] : n->input[1] == next ? n->input[0] : SIZE_MAX;
    return other <= first ? other : SIZE_MAX;
}

bool conv_group_find(const struct infer_view *v, size_t first, struct conv_group *g)
{
    size_t node = first;
    if (is_layer(&v->graph->nodes[node], "flatten") && follows(v, node + 1) && is_layer(&v->graph->nodes[node + 1], "dense"))
        node++;
    if (!find_shape(&v->graph->nodes[node], g))
        return false;
    g->kernel = conv_kernel_find(&g->shape, v->options->features);
    if (!g->kernel)
        return false;
    size_t next = node + 1;
    g->low = -INFINITY;
    g->high = INFINITY;
    g->pool = false;
    g->add = find_add(v, next, first);
    next += g->add != SIZE_MAX;
    if (follows(v, next) && (is_layer(&v->graph->nodes[next], "relu") || is_layer(&v->graph->nodes[next], "relu6"))) {
        g->low = 0;
        g->high = is_layer(&v->graph->nodes[next], "relu6") ? 6 : INFINITY;
        next++;
    }
    if (g->add == SIZE_MAX && !g->vector && conv_dilation(&g->shape) == 1 && follows(v, next) && is_pool_2(&v->graph->nodes[next]))
        g->pool = true, next++;
    g->nodes = next - first;
    return true;
}

static size_t match(const struct infer_view *v, size_t node)
{
    struct conv_group g;
    return conv_group_find(v, node, &g) ? g.nodes : 0;
}

/* ---- Plan ---- */

static struct conv_strides strides_of(size_t h, size_t w, size_t channels)
{
    return (struct conv_strides){.image = h * w * channels, .row = w * channels, .pixel = channels};
}

static void plan_job(struct conv_state *c)
{
    const struct conv_group *g = &c->group;
    const struct shape *in = &g->node->in[0], *out = &g->node->out;
    struct window rows = {.out = 1}, columns = {.out = 1};
    if (!g->vector)
        conv_windows(g->node->config, in, &rows, &columns, NULL);
    size_t oh = g->pool ? rows.out / 2 : rows.out, ow = g->pool ? columns.out / 2 : columns.out;
    c->job = (struct conv_job){.shape = g->shape,
                               .h = rows.out,
                               .w = columns.out,
                               .in = {.strides = strides_of(in->h, in->w, in->c), .h = in->h, .w = in->w, .top = rows.before, .left = columns.before},
                               .weights = c->packed,
                               .epilogue = g->pool ? CONV_POOL : CONV_CLAMP,
                               .out_strides = strides_of(oh, ow, out->c),
                               .add.strides = strides_of(rows.out, columns.out, out->c),
                               .bias = c->bias,
                               .low = g->low,
                               .high = g->high};
}

/* Whether the kernel that copies nothing takes the layer. */
static bool is_in_place(const struct conv_state *c)
{
#ifdef __x86_64__
    if (c->group.add != SIZE_MAX)
        return false;
    return (c->group.kernel == &conv_depthwise_avx2 && conv_depthwise_clamp_takes_avx2(&c->job)) ||
           (c->group.kernel == &conv_depthwise_avx512 && conv_depthwise_clamp_takes_avx512(&c->job));
#else
    (void)c;
    return false;
#endif
}

static size_t fewest_images(const struct conv_state *c)
{
    size_t tile = c->group.kernel->tile ? c->group.kernel->tile : 1;
    size_t each = (c->job.h + tile - 1) / tile * ((c->job.w + tile - 1) / tile);
    return c->group.shape.depthwise ? 1 : (FULL_ROWS + each - 1) / each;
}

static pst_status plan(const struct infer_view *v, struct infer_op *op, pst_error *reterr)
{
    struct conv_state *c = mem_zalloc(sizeof(*c));
    op->state = c;
    if (!c)
        return fail_memory(reterr, "planning predictions");
    conv_group_find(v, op->first, &c->group);
    const struct conv_group *g = &c->group;
    const struct graph_param *p = &v->graph->params[g->node->first_param];
    c->weight_bytes = g->kernel->weights_bytes(&g->shape);
    c->packed = mem_large(c->weight_bytes);
    if (!c->packed)
        return fail_memory(reterr, "planning predictions");
    g->kernel->weights(&g->shape, v->params + p->offset, c->packed);
    c->bias = g->node->params > 1 ? v->params + p[1].offset : NULL;
    plan_job(c);
    c->in_place = is_in_place(c);
    op->in[op->inputs++] = v->graph->nodes[op->first].input[0];
    if (g->add != SIZE_MAX)
        op->in[op->inputs++] = g->add;
    op->scratch = (g->kernel->conv_scratch_bytes ? g->kernel->conv_scratch_bytes : g->kernel->scratch_bytes)(&g->shape);
    op->images = fewest_images(c);
    op->weight_bytes = c->weight_bytes + (c->bias ? g->shape.co * sizeof(float) : 0);
    snprintf(op->why, sizeof(op->why), "%s%s%s%s%s", c->in_place ? "depthwise in place" : g->kernel->name, c->bias ? ", bias" : "", g->add != SIZE_MAX ? ", added" : "",
             g->high < INFINITY || g->low > -INFINITY ? ", clamped" : "", g->pool ? ", pooled" : "");
    return PST_OK;
}

static void free_state(struct infer_op *op)
{
    struct conv_state *c = op->state;
    if (!c)
        return;
    mem_free(c->packed);
    mem_free(c);
}

/* ---- Running ---- */

/* Whether workers divide the channels. */
static bool splits_channels(const struct conv_state *c, const struct conv_job *j, unsigned parts)
{
    const struct conv_kernel *k = c->group.kernel;
    size_t tile = k->tile ? k->tile : 1, tiles = j->images * ((j->h + tile - 1) / tile) * ((j->w + tile - 1) / tile);
    if (!k->panel || j->shape.co < k->panel * parts)
        return false;
    if (tile > 1) /* every worker transforms the whole input */
        return tiles < FEW_TILES * parts || j->h <= tile;
    return j->h < parts || c->weight_bytes > j->images * j->in.h * j->in.w * j->shape.ci * sizeof(float);
}

static void take_channels(const struct conv_state *c, struct conv_job *j, unsigned part, unsigned parts)
{
    size_t begin, end;
    share_units(j->shape.co, c->group.kernel->panel, part, parts, &begin, &end);
    j->weights += c->group.kernel->weights_at(&c->group.shape, begin);
    j->bias = j->bias ? j->bias + begin : NULL;
    j->out = (float *)j->out + begin;
    j->add.data = j->add.data ? (const float *)j->add.data + begin : NULL;
    j->shape.co = end - begin;
    if (j->shape.depthwise) {
        j->shape.ci = end - begin;
        j->in.data += begin;
    }
}

static void take_rows(const struct conv_state *c, struct conv_job *j, unsigned part, unsigned parts)
{
    size_t tile = c->group.kernel->tile ? c->group.kernel->tile : c->group.pool ? 2 : 1, begin, end;
    tile *= conv_dilation(&j->shape); /* tiles of rows that lie apart */
    share_units(j->h, tile, part, parts, &begin, &end);
    size_t row = begin * j->shape.stride, skip = row > j->in.top ? row - j->in.top : 0;
    skip = skip < j->in.h ? skip : j->in.h;
    j->in.top = row > j->in.top ? 0 : j->in.top - row;
    j->in.data += skip * j->in.strides.row;
    j->in.h -= skip;
    j->out = (float *)j->out + (c->group.pool ? begin / 2 : begin) * j->out_strides.row;
    j->add.data = j->add.data ? (const float *)j->add.data + begin * j->add.strides.row : NULL;
    j->h = end - begin;
}

static void run(const struct infer_call *call)
{
    const struct conv_state *c = call->op->state;
    struct conv_job j = c->job;
    j.images = call->images;
    j.in.data = call->in[0];
    j.out = call->out;
    j.add.data = call->op->inputs > 1 ? call->in[1] : NULL;
    if (c->group.vector) {
        j.w = j.in.w = call->images;
        j.images = 1;
        j.in.strides.row = j.in.strides.image = j.w * j.shape.ci;
        j.out_strides.row = j.out_strides.image = j.add.strides.row = j.add.strides.image = j.w * j.shape.co;
    }
    if (call->parts > 1) {
        if (splits_channels(c, &j, call->parts))
            take_channels(c, &j, call->part, call->parts);
        else
            take_rows(c, &j, call->part, call->parts);
    }
    if (j.h == 0 || j.shape.co == 0)
        return;
#ifdef __x86_64__
    if (c->in_place) {
        (c->group.kernel == &conv_depthwise_avx512 ? conv_depthwise_clamp_avx512 : conv_depthwise_clamp_avx2)(&j);
        return;
    }
#endif
    c->group.kernel->conv(&j, call->scratch);
}

const struct infer_class infer_conv = {
    .name = "conv",
    .match = match,
    .plan = plan,
    .run = run,
    .free = free_state,
};
