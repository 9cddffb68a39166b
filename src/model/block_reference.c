/* block_reference.c: one node by its layer's own reference kernels. Takes everything; every other class is compared with it.
 *
 * Each lane computes partial gradients of the parameters in its workspace; they are added in the order of the lanes. A gradient
 * of an input that another block has written before goes to the workspace first and is added. */
#include "model/block.h"

#include "model/layer_list.h"

#include <stdio.h>
#include <string.h>


static size_t match(const struct step_view *v, size_t node, char *why, size_t size)
{
    char refusal[64];
    snprintf(refusal, sizeof(refusal), "%.60s", why);
    snprintf(why, size, "the reference of %s: %s", v->graph->nodes[node].layer->name, refusal[0] ? refusal : "it has no other kernel");
    return 1;
}

static size_t lane_samples(const struct step_view *v, const struct graph_node *n)
{
    return n->layer->whole_batch ? v->options->batch : (v->options->batch + v->lanes - 1) / v->lanes;
}

static size_t node_param_values(const struct graph *g, const struct graph_node *n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n->params; i++)
        sum += g->params[n->first_param + i].count;
    return sum;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t saved_per_sample_bytes(const struct graph_node *n, size_t samples, size_t real_size)
{
    return n->layer->saved_bytes ? round_up(n->layer->saved_bytes(n->config, n->in, samples, real_size)) : 0;
}

/* The call for a lane; false: the lane has nothing to do. */
static bool prepare_call(struct step *s, struct block *b, unsigned lane, struct layer_call *c)
{
    const struct graph *g = step_graph(s);
    const struct graph_node *n = &g->nodes[b->first];
    struct lane_range r = step_lane(s, lane);
    size_t real_size = step_real_size(s), stride = b->saved.bytes / step_lanes(s);
    if (n->layer->whole_batch)
        r = lane == 0 ? (struct lane_range){0, step_samples(s)} : (struct lane_range){0, 0};
    if (r.count == 0)
        return false;
    *c = (struct layer_call){.config = n->config,
                             .n = r.count,
                             .first = r.first,
                             .inputs = n->inputs,
                             .in_shape = n->in,
                             .out_shape = n->out,
                             .out = (char *)step_value(s, b->first + 1) + r.first * shape_values(&n->out) * real_size,
                             .saved = (char *)step_saved(s, b) + lane * stride,
                             .share = step_share,
                             .step = s,
                             .training = step_is_training(s),
                             .key = step_key(s, b->first)};
    for (size_t i = 0; i < n->inputs; i++)
        c->in[i] = (const char *)step_value(s, n->input[i]) + r.first * shape_values(&n->in[i]) * real_size;
    for (size_t i = 0; i < n->params; i++)
        c->param[i] = step_param(s, n->first_param + i), c->statistic[i] = step_statistic(s, n->first_param + i);
    return true;
}

static const struct layer_class *layer_of(struct step *s, const struct block *b)
{
    const struct layer_class *layer = step_graph(s)->nodes[b->first].layer;
    return step_real_size(s) == sizeof(double) ? layer_at_f64(layer_number(layer)) : layer;
}

static void forward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct layer_call c;
    (void)lanes;
    if (prepare_call(s, b, lane, &c))
        layer_of(s, b)->forward(&c);
}

static void add_values(void *to, const void *from, size_t count, size_t real_size)
{
    if (real_size == sizeof(double))
        for (size_t i = 0; i < count; i++)
            ((double *)to)[i] += ((const double *)from)[i];
    else
        for (size_t i = 0; i < count; i++)
            ((float *)to)[i] += ((const float *)from)[i];
}

static void backward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    const struct graph *g = step_graph(s);
    const struct graph_node *n = &g->nodes[b->first];
    size_t real_size = step_real_size(s);
    char *work = step_work(s, b, true, lane), *waiting = work + round_up(node_param_values(g, n) * real_size);
    void *target[LAYER_MAX_INPUTS] = {NULL};
    struct layer_call c;
    (void)lanes;
    if (!prepare_call(s, b, lane, &c)) {
        memset(work, 0, node_param_values(g, n) * real_size);
        return;
    }
    c.dout = (const char *)step_gradient(s, b->first + 1) + c.first * shape_values(&n->out) * real_size;
    for (size_t i = 0, at = 0; i < n->params; at += g->params[n->first_param + i++].count)
        c.dparam[i] = work + at * real_size;
    for (size_t i = 0; i < n->inputs; i++) {
        char *gradient = step_gradient(s, n->input[i]);
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again |= n->input[k] == n->input[i];
        if (!gradient)
            continue;
        target[i] = gradient + c.first * shape_values(&n->in[i]) * real_size;
        c.din[i] = target[i];
        if (!again && !step_gradient_adds(s, b, n->input[i]))
            continue;
        c.din[i] = waiting;
        waiting += round_up(c.n * shape_values(&n->in[i]) * real_size);
    }
    layer_of(s, b)->backward(&c);
    for (size_t i = 0; i < n->inputs; i++)
        if (c.din[i] != target[i])
            add_values(target[i], c.din[i], c.n * shape_values(&n->in[i]), real_size);
}

static void sum_lanes(struct step *s, struct block *b, unsigned part, unsigned parts)
{
    const struct graph *g = step_graph(s);
    const struct graph_node *n = &g->nodes[b->first];
    size_t real_size = step_real_size(s);
    for (size_t i = 0, at = 0; i < n->params; at += g->params[n->first_param + i++].count) {
        const struct graph_param *p = &g->params[n->first_param + i];
        size_t begin = p->count * part / parts, end = p->count * (part + 1) / parts;
        char *to = (char *)step_param_gradient(s, n->first_param + i) + begin * real_size;
        memset(to, 0, (end - begin) * real_size);
        for (unsigned lane = 0; !p->layer.fixed && lane < step_lanes(s); lane++)
            add_values(to, (const char *)step_work(s, b, true, lane) + (at + begin) * real_size, end - begin, real_size);
    }
}

static pst_status plan(const struct step_view *v, struct block *b, pst_error *reterr)
{
    const struct graph_node *n = &v->graph->nodes[b->first];
    size_t samples = lane_samples(v, n);
    (void)reterr;
    b->saved.bytes = v->lanes * saved_per_sample_bytes(n, samples, v->real_size);
    b->back_work.bytes = round_up(node_param_values(v->graph, n) * v->real_size);
    for (size_t i = 0; i < n->inputs; i++)
        if (v->consumers[n->input[i]] > 1)
            b->back_work.bytes += round_up(samples * shape_values(&n->in[i]) * v->real_size);
    b->forward[0] = (struct block_phase){PHASE_LANES, forward};
    b->backward[0] = (struct block_phase){PHASE_LANES, backward};
    b->backward[1] = (struct block_phase){PHASE_PARTS, sum_lanes};
    return PST_OK;
}

const struct block_class block_reference = {
    .name = "reference",
    .match = match,
    .plan = plan,
};
