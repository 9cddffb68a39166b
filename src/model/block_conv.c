/* block_conv.c: convolution, dense or depthwise, with what follows it: bias, batch normalisation, clamping activation, 2 × 2 maximum.
 * Which nodes it takes, and the plan.
 *
 * Forward (block_conv_forward.c), per lane: the input is read as it is, or, where it is lazy or stored in 16 bits, computed into a
 * strip of a few images; the kernel's epilogue adds the bias, clamps and pools, or sums for batch normalisation, whose result stays
 * lazy where every reader can take it. Backward (block_conv_backward.c), per lane: the gradient of the convolution's result comes
 * into a strip, from which both gradients are computed. The data gradient's epilogue masks by the producer's activation and takes
 * the sums that the producer's batch normalisation needs. */
#include "model/block_conv_state.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/layer_conv.h"
#include "model/layer_norm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TURNED_BYTES ((size_t)1 << 20) /* of the kernel of a dense layer for one row of inputs whose gradient is computed on demand */
#define STRIP_BYTES ((size_t)192 << 10) /* images are loaded together up to this size: the second-level cache holds it */

#define POINT_STRIP_BYTES ((size_t)64 << 10) /* the same of 1 × 1 convolutions, for which the next ones are fetched meanwhile… */
#define POINT_RUN 96                         /* …but at least so many pixels: the weights are read for each strip */

/* ---- Which nodes ---- */

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

/* Node `next` reads the result of the node before it, and nothing else does. */
static bool follows(const struct step_view *v, size_t next)
{
    return next < v->nodes && v->graph->nodes[next].inputs == 1 && v->graph->nodes[next].input[0] == next && v->consumers[next] == 1;
}

static bool is_clamp(const struct graph_node *n, float *low, float *high)
{
    *low = 0;
    *high = is_layer(n, "relu6") ? 6 : INFINITY;
    return is_layer(n, "relu") || is_layer(n, "relu6");
}

static bool is_pool_2(const struct graph_node *n)
{
    const struct pool_config *c = n->config;
    return is_layer(n, "maxpool") && c->size == 2 && (c->stride == 2 || c->stride == 0) &&
           (strcmp(c->pad, "valid") == 0 || (strcmp(c->pad, "same") == 0 && n->in[0].h % 2 + n->in[0].w % 2 == 0)) && n->in[0].h > 1 && n->in[0].w > 1;
}

bool block_conv_shape(const struct graph_node *n, struct conv_shape *ret)
{
    const struct conv_config *c = n->config;
    bool depthwise = is_layer(n, "dwconv");
    if (!depthwise && !is_layer(n, "conv"))
        return false;
    depthwise |= c->groups > 1 && c->groups == n->in[0].c && c->groups == n->out.c; /* HWIO with one input channel is HWC */
    *ret = (struct conv_shape){.size = c->size, .stride = c->stride, .ci = n->in[0].c, .co = n->out.c, .depthwise = depthwise};
    ret->groups = !depthwise && c->groups > 1 ? c->groups : 0;
    ret->dilation = c->size > 1 && c->dilation > 1 ? c->dilation : 0;
    return true;
}

static struct kernel_key key_of(const struct graph_node *n, const struct conv_shape *s)
{
    return (struct kernel_key){.shape = *s, .h = n->out.h, .w = n->out.w};
}

/* The one that the options' table names, or the first that takes the shape. */
static const struct conv_kernel *choose_kernel(const struct step_view *v, size_t node, const struct conv_shape *s)
{
    struct kernel_key key = key_of(&v->graph->nodes[node], s);
    const struct conv_kernel *k = kernel_table_find(v->options->kernels, &key);
    return k ? k : conv_kernel_find(s, v->features);
}

bool block_conv_entry(const struct block *b, struct kernel_entry *ret)
{
    const struct conv_state *c = b->class == &block_conv ? b->state : NULL;
    if (c)
        *ret = (struct kernel_entry){key_of(c->node, &c->group.shape), c->group.kernel};
    return c;
}

static bool find_group(const struct step_view *v, size_t node, struct conv_group *ret)
{
    struct conv_group g = {.nodes = 1, .low = -INFINITY, .high = INFINITY};
    if (!block_conv_shape(&v->graph->nodes[node], &g.shape))
        return false;
    g.kernel = choose_kernel(v, node, &g.shape);
    if (!g.kernel)
        return false;
    size_t next = node + 1;
    if (v->graph->nodes[node].params == 1 && follows(v, next) && is_layer(&v->graph->nodes[next], "batchnorm")) /* no bias */
        g.norm = true, next++;
    if (follows(v, next) && is_clamp(&v->graph->nodes[next], &g.low, &g.high))
        next++;
    else
        g.low = -INFINITY, g.high = INFINITY;
    if (!g.norm && conv_dilation(&g.shape) == 1 && follows(v, next) && is_pool_2(&v->graph->nodes[next]))
        g.pool = true, next++;
    g.nodes = next - node;
    *ret = g;
    return true;
}

static size_t match(const struct step_view *v, size_t node, char *why, size_t size)
{
    const struct graph_node *n = &v->graph->nodes[node];
    struct conv_group g;
    if (!find_group(v, node, &g)) {
        if (is_layer(n, "conv") || is_layer(n, "dwconv"))
            snprintf(why, size, "%s", v->features ? "no kernel for this size and stride" : NO_FEATURES);
        return 0;
    }
    snprintf(why, size, "%s%s%s%s", g.kernel->name, g.norm ? ", batch norm summed on the way" : "",
             g.high < INFINITY || g.low > -INFINITY ? ", clamped" : "", g.pool ? ", pooled" : "");
    return g.nodes;
}

bool block_conv_reads(const struct step_view *v, size_t node)
{
    struct conv_group g;
    return find_group(v, node, &g);
}

bool block_conv_reads_numbers(const struct step_view *v, size_t node)
{
    struct conv_group g;
    return find_group(v, node, &g) && g.kernel->numbers;
}

/* For a block that is the only reader of a convolution's result. */
struct conv_service block_conv_serve(struct step *s, struct block *b, unsigned lane)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co;
    struct conv_service r = {.low = c->group.low, .high = c->group.high};
    if (c->group.norm) {
        r.z = conv_z(s, b);
        r.centre = c->centre;
        r.sum = c->sums + 4 * co * lane + 2 * co;
        r.sum2 = r.sum + co;
    }
    return r;
}

bool block_conv_offer(const struct step_view *v, size_t value)
{
    struct block *b = v->forms[value].producer;
    struct conv_state *c = b && b->class == &block_conv ? b->state : NULL;
    if (!c || v->consumers[value] != 1 || c->group.pool)
        return false;
    c->served = true;
    return true;
}

bool block_conv_asks(const struct step_view *v, size_t value, struct block *dense)
{
    struct block *b = v->forms[value].producer;
    struct conv_state *c = b && b->class == &block_conv ? b->state : NULL;
    if (!c || v->consumers[value] != 1 || !conv_skips_unpooling(c) ||
        block_dense_turned_bytes(dense, c->columns.out / 2 * c->group.shape.co) > TURNED_BYTES)
        return false;
    c->asks = dense;
    return true;
}

static void free_state(struct block *b)
{
    struct conv_state *c = b->state;
    if (!c)
        return;
    mem_free(c->packed);
    mem_free(c->scale);
    mem_free(c->sums);
    mem_free(c);
}

/* ---- Plan ---- */

/* Whether every reader of the value can take it lazily. */
static bool all_read_lazily(const struct step_view *v, size_t value)
{
    for (size_t i = 0; i < v->nodes; i++)
        for (size_t k = 0; k < v->graph->nodes[i].inputs; k++)
            if (v->graph->nodes[i].input[k] == value && !block_conv_reads(v, i) && !block_add_reads(v, i))
                return false;
    return v->consumers[value] > 0;
}

static pst_status allocate(const struct step_view *v, struct conv_state *c)
{
    const struct conv_kernel *k = c->group.kernel;
    size_t packed = round_up(k->weights_bytes(&c->group.shape)), co = c->group.shape.co, row = round_up(co * sizeof(float)) / sizeof(float);
    c->packed = mem_aligned(2 * packed);
    c->packed_back = c->packed ? c->packed + packed / sizeof(float) : NULL;
    if (!c->packed)
        return PST_ENOMEM;
    if (!c->group.norm)
        return PST_OK;
    c->scale = mem_aligned(6 * row * sizeof(float));
    c->sums = mem_array(4 * co * v->lanes + 4 * co, sizeof(double));
    if (!c->scale || !c->sums)
        return PST_ENOMEM;
    c->mean = c->sums + 4 * co * v->lanes;
    c->deviation = c->mean + co;
    c->shared = v->options->shared_norm ? c->deviation + co : NULL;
    c->shift = c->scale + row;
    c->centre = c->shift + row;
    c->by_gradient = c->centre + row;
    c->by_z = c->by_gradient + row;
    c->offset = c->by_z + row;
    return PST_OK;
}

static void plan_values(const struct step_view *v, struct block *b)
{
    struct conv_state *c = b->state;
    struct value_form *out = &v->forms[c->out];
    bool lazy = c->group.norm && all_read_lazily(v, c->out);
    *out = (struct value_form){.lazy = lazy, .centre = c->centre, .scale = c->scale, .shift = c->shift, .low = c->group.low, .high = c->group.high, .producer = b};
    c->stores_y = c->group.norm && !lazy;
    c->z_number = out->number = c->stores_y || !c->group.kernel->numbers ? NUMBER_F32 : block_number(v, c->out);
    c->needs_data = c->in != 0;
    c->serves = block_conv_offer(v, c->in);
}

/* A sample in rows, where pixels do not need each other: strips are then small enough that the next one is fetched meanwhile. */
static void plan_units(struct conv_state *c)
{
    const struct shape *in = &c->node->in[0];
    c->units = 1;
    c->in_h = in->h;
    if (c->group.shape.size != 1 || c->group.shape.stride != 1 || c->group.pool || c->rows.before + c->columns.before > 0 || c->rows.out != in->h ||
        c->columns.out != in->w || c->in == 0)
        return;
    c->units = c->rows.out;
    c->rows.out = c->rows.in = 1;
    c->in_h = 1;
    c->in_values /= c->units;
    c->z_values /= c->units;
    c->out_values /= c->units;
}

static void plan_strips(const struct step_view *v, struct conv_state *c)
{
    size_t larger = c->in_values > c->z_values ? c->in_values : c->z_values;
    size_t lane = (v->options->batch + v->lanes - 1) / v->lanes * c->units;
    c->strip_images = STRIP_BYTES / (larger * sizeof(float));
    if (c->units > 1) {
        size_t pixels = POINT_STRIP_BYTES * c->columns.out / (larger * sizeof(float)) / POINT_RUN * POINT_RUN;
        c->strip_images = (pixels > POINT_RUN ? pixels : POINT_RUN) / c->columns.out;
    }
    c->strip_images = c->strip_images < 1 ? 1 : c->strip_images > lane ? lane : c->strip_images;
}

/* Rows of the gradient can be taken apart where no data gradient needs its neighbours. */
static void plan_rows(struct conv_state *c)
{
    const struct conv_shape *s = &c->group.shape;
    bool alone = c->in == 0 || (s->size == 1 && s->stride == 1 && c->rows.before + c->columns.before == 0);
    size_t rows = STRIP_BYTES / (c->columns.out * s->co * sizeof(float)) / 2 * 2;
    c->strip_rows = c->rows.out;
    if (alone && c->strip_images == 1 && rows < c->rows.out)
        c->strip_rows = rows > 2 ? rows : 2;
}

static pst_status plan(const struct step_view *v, struct block *b, pst_error *reterr)
{
    struct conv_state *c = mem_zalloc(sizeof(*c));
    b->state = c;
    if (!c)
        return fail_memory(reterr, "planning the step");
    c->node = &v->graph->nodes[b->first];
    c->in = c->node->input[0];
    c->out = b->first + b->count;
    find_group(v, b->first, &c->group);
    c->elem = elem_kernels(v->features);
    conv_windows(c->node->config, c->node->in, &c->rows, &c->columns, NULL);
    c->in_values = shape_values(c->node->in);
    c->z_values = shape_values(&c->node->out);
    c->out_values = shape_values(graph_shape(v->graph, c->out));
    plan_units(c);
    c->bias = c->node->params > 1 ? c->node->first_param + 1 : SIZE_MAX;
    c->gamma = SIZE_MAX;
    if (c->group.norm) {
        const struct graph_node *norm = c->node + 1;
        const struct norm_config *config = norm->config;
        c->gamma = norm->first_param;
        c->eps = config->eps;
        c->momentum = config->momentum;
    }
    plan_strips(v, c);
    plan_rows(c);
    c->sum_bytes = c->group.kernel->gradient_bytes(&c->group.shape);
    pst_status st = allocate(v, c);
    if (st < 0)
        return fail_memory(reterr, "planning the step");
    plan_values(v, b);
    return PST_OK;
}

#define ROW_BYTES ((size_t)192 << 10) /* of rows of a pooled gradient; a dense layer's kernel for them takes about as much */
#define ROW_IMAGES 6                  /* that a dense layer's kernel multiplies together */

/* Images of a row of a pooled gradient that is computed or converted on demand. */
static size_t plan_row_images(const struct step_view *v, const struct conv_state *c)
{
    size_t row = c->columns.out / 2 * c->group.shape.co * sizeof(float), images = ROW_BYTES / row;
    images = images > ROW_IMAGES ? images / ROW_IMAGES * ROW_IMAGES : images;
    return images < 1 ? 1 : images > v->options->batch ? v->options->batch : images;
}

/* The readers are known: which gradients they leave to this block, and how much memory it takes. */
static void settle(const struct step_view *v, struct block *b)
{
    struct conv_state *c = b->state;
    size_t scratch = round_up(c->group.kernel->scratch_bytes(&c->group.shape)), row = c->columns.out / 2 * c->group.shape.co * sizeof(float);
    b->scratch = conv_input_bytes(c) + scratch;
    if (c->group.pool && row > scratch)
        scratch = round_up(row); /* of a gradient that is converted before it is un-pooled */
    if (conv_skips_unpooling(c) && (c->asks || c->needs_data || c->z_number != NUMBER_F32)) {
        c->ask_images = plan_row_images(v, c);
        scratch += c->asks ? block_dense_turned_bytes(c->asks, c->columns.out / 2 * c->group.shape.co) : 0;
    }
    b->saved.bytes = c->stores_y ? v->options->batch * c->units * c->z_values * sizeof(float) : c->group.pool ? v->options->batch * c->out_values : 0;
    b->back_work.bytes = round_up(c->sum_bytes) + round_up(c->group.shape.co * sizeof(float));
    if (v->options->training) {
        size_t back = conv_back_input_bytes(c) + round_up(conv_gradient_floats(c) * sizeof(float)) + scratch;
        b->scratch = back > b->scratch ? back : b->scratch;
    }
    conv_plan_forward(b);
    conv_plan_backward(b);
}

const struct block_class block_conv = {
    .name = "conv",
    .match = match,
    .plan = plan,
    .settle = settle,
    .prepare = conv_prepare,
    .free = free_state,
};
