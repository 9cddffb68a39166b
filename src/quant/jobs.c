/* jobs.c: see jobs.h. */
#include "quant/jobs.h"

#include "model/layer_conv.h"
#include "model/layer_dense.h"
#include "model/layer_pool.h"

#include <math.h>
#include <string.h>

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

/* ---- Convolutions ---- */

static struct i8_shape shape_of(const struct quant_model *q, size_t node)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct conv_config *c = n->config;
    const int8_t *w = q->layers[node].weights;
    size_t count = quant_kernel_values(q->graph, n);
    struct i8_shape s = {.size = 1, .stride = 1, .dilation = 1, .groups = 1, .ci = n->in[0].c, .co = n->out.c};
    if (!is_layer(n, "dense")) {
        s.size = c->size;
        s.stride = c->stride;
        s.dilation = c->dilation;
        s.depthwise = is_layer(n, "dwconv");
        s.groups = s.depthwise ? 1 : c->groups;
    }
    for (size_t o = 0; o < s.co; o++) {
        int64_t sum = 0;
        for (size_t i = o; i < count; i += s.co) {
            int size = w[i] < 0 ? -w[i] : w[i];
            sum += size;
            s.most = size > s.most ? size : s.most;
        }
        s.sum = sum > s.sum ? sum : s.sum;
    }
    return s;
}

struct i8_job quant_conv_job(const struct quant_model *q, size_t node, size_t n)
{
    const struct graph_node *g = &q->graph->nodes[node];
    const struct quant_layer *l = &q->layers[node];
    const struct quant_value *in = &q->values[g->input[0]], *out = &q->values[l->group.out];
    struct i8_job j = {.shape = shape_of(q, node),
                       .images = n,
                       .in_h = g->in[0].h,
                       .in_w = g->in[0].w,
                       .in_zero = in->zero,
                       .h = g->out.h,
                       .w = g->out.w,
                       .zero = out->zero,
                       .least = l->group.low,
                       .most = l->group.high};
    struct window rows, columns;
    if (l->group.op == QUANT_OP_DENSE) {
        j.images = 1;
        j.in_w = j.w = n;
    } else if (!is_layer(g, "dense") && conv_windows(g->config, &g->in[0], &rows, &columns, NULL) == PST_OK) {
        j.top = rows.before;
        j.left = columns.before;
    }
    j.row_end = j.h;
    quant_clamp(&l->group, out, &j.low, &j.high);
    return j;
}

void quant_factors(const struct quant_model *q, size_t node, float *ret)
{
    const struct quant_layer *l = &q->layers[node];
    const struct quant_value *in = &q->values[q->graph->nodes[node].input[0]], *out = &q->values[l->group.out];
    for (size_t c = 0; c < quant_channels(&q->graph->nodes[node]); c++) {
        ret[c] = in->scale * l->weight_scale[c];
        if (out->form == QUANT_U8)
            ret[c] /= out->scale;
    }
}

bool quant_fits(const struct quant_model *q, size_t node)
{
    struct i8_shape s = shape_of(q, node);
    const struct quant_layer *l = &q->layers[node];
    const struct quant_value *in = &q->values[q->graph->nodes[node].input[0]], *out = &q->values[l->group.out];
    double most = 0;
    for (size_t c = 0; c < s.co; c++) {
        double sum = 2 * 255. * (double)s.sum + fabs((double)l->bias[c]);
        double factor = (double)in->scale * l->weight_scale[c] / (out->form == QUANT_U8 ? out->scale : 1);
        if (!(factor >= 0) || !isfinite(factor))
            return false;
        sum = out->form == QUANT_U8 && factor > 1 ? sum * factor : sum;
        most = sum > most ? sum : most;
    }
    return most < (double)(1 << 30);
}

/* ---- The others ---- */

struct i8_add quant_add_job(const struct quant_model *q, size_t node)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct quant_group *group = &q->layers[node].group;
    const struct quant_value *out = &q->values[group->out];
    struct i8_add a = {.terms = n->inputs, .zero = out->zero};
    for (size_t k = 0; k < n->inputs; k++) {
        a.zeros[k] = q->values[n->input[k]].zero;
        a.factors[k] = q->values[n->input[k]].scale / out->scale;
    }
    quant_clamp(group, out, &a.low, &a.high);
    return a;
}

struct i8_pool quant_pool_job(const struct quant_model *q, size_t node, size_t n)
{
    const struct graph_node *g = &q->graph->nodes[node];
    const struct pool_config *c = g->config;
    const struct quant_value *in = &q->values[g->input[0]], *out = &q->values[q->layers[node].group.out];
    struct i8_pool p = {.images = n,
                        .in_h = g->in[0].h,
                        .in_w = g->in[0].w,
                        .channels = g->in[0].c,
                        .h = g->out.h,
                        .w = g->out.w,
                        .row_end = g->out.h,
                        .in_zero = in->zero,
                        .zero = out->zero,
                        .in_scale = in->scale,
                        .out_scale = out->scale};
    struct window rows, columns;
    if (q->layers[node].group.op == QUANT_OP_GLOBALAVGPOOL)
        return p;
    p.counts_padding = strcmp(c->pad, "same") != 0;
    if (pool_windows(c, &g->in[0], &rows, &columns, NULL) == PST_OK) {
        p.size = rows.size;
        p.stride = rows.stride;
        p.top = rows.before;
        p.left = columns.before;
    }
    return p;
}

void quant_table(const struct quant_model *q, size_t node, size_t k, uint8_t ret[256])
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct quant_value *in = &q->values[n->input[k]], *out = &q->values[q->layers[node].group.out];
    const struct shape shape = {.rank = 1, .h = 1, .w = 1, .c = 256};
    float x[256], y[256];
    for (int i = 0; i < 256; i++)
        y[i] = x[i] = quant_real(in, (uint8_t)i);
    if (q->layers[node].group.op == QUANT_OP_TABLE)
        n->layer->forward(&(struct layer_call){
            .config = n->config, .n = 1, .inputs = 1, .in_shape = &shape, .out_shape = shape, .in = {x}, .out = y});
    for (int i = 0; i < 256; i++)
        ret[i] = quant_round(out, y[i]);
}

void quant_float_node(const struct quant_model *q, size_t node, size_t n, const float *const *in, float *out, void *saved)
{
    const struct graph_node *g = &q->graph->nodes[node];
    struct layer_call call = {.config = g->config, .n = n, .inputs = g->inputs, .in_shape = g->in, .out_shape = g->out, .out = out, .saved = saved};
    float *params = q->layers[node].params;
    for (size_t k = 0; k < g->inputs; k++)
        call.in[k] = in[k];
    for (size_t k = 0; k < g->params; params += q->graph->params[g->first_param + k].count, k++)
        call.param[k] = params;
    g->layer->forward(&call);
}

size_t quant_float_saved(const struct quant_model *q, size_t node, size_t n)
{
    const struct graph_node *g = &q->graph->nodes[node];
    return g->layer->saved_bytes ? g->layer->saved_bytes(g->config, g->in, n, sizeof(float)) : 0;
}
