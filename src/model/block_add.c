/* block_add.c: the sum of two values and a clamping activation, in one pass; either value may be lazy. */
#include "model/block_conv.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct add_state {
    size_t in[2], out;
    size_t channels, values; /* per sample */
    float low, high;
    bool serves[2];
};

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

bool block_add_reads(const struct step_view *v, size_t node)
{
    const struct graph_node *n = &v->graph->nodes[node];
    return is_layer(n, "add") && n->inputs == 2 && n->input[0] != n->input[1] && n->input[0] && n->input[1];
}

static bool clamp_after(const struct step_view *v, size_t node, float *high)
{
    const struct graph_node *next = &v->graph->nodes[node + 1];
    if (node + 1 >= v->nodes || next->inputs != 1 || next->input[0] != node + 1 || v->consumers[node + 1] != 1)
        return false;
    *high = is_layer(next, "relu6") ? 6 : INFINITY;
    return is_layer(next, "relu") || is_layer(next, "relu6");
}

static size_t match(const struct step_view *v, size_t node, char *why, size_t size)
{
    float high;
    if (!block_add_reads(v, node))
        return 0;
    bool clamps = clamp_after(v, node, &high);
    snprintf(why, size, "batch norm on load%s", clamps ? ", clamped" : "");
    return clamps ? 2 : 1;
}

static float read_value(const struct value_form *f, size_t k, float v)
{
    if (!f->lazy)
        return v;
    v = f->scale[k] * v + f->shift[k];
    return v < f->low ? f->low : v > f->high ? f->high : v;
}

static void forward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    const struct add_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    const struct value_form *f = step_form(s, c->in[0]), *g = step_form(s, c->in[1]);
    const float *x = (const float *)step_value(s, c->in[0]) + r.first * c->values;
    const float *y = (const float *)step_value(s, c->in[1]) + r.first * c->values;
    float *out = (float *)step_value(s, c->out) + r.first * c->values;
    (void)lanes;
    for (size_t p = 0; p < r.count * c->values / c->channels; p++, x += c->channels, y += c->channels, out += c->channels)
        for (size_t k = 0; k < c->channels; k++) {
            float v = read_value(f, k, x[k]) + read_value(g, k, y[k]);
            out[k] = v < c->low ? c->low : v > c->high ? c->high : v;
        }
}

/* The gradient of one input: g where both activations pass it. */
static void backward_one(struct step *s, struct block *b, unsigned lane, size_t i)
{
    const struct add_state *c = b->state;
    const struct value_form *f = step_form(s, c->in[i]);
    struct lane_range r = step_lane(s, lane);
    struct conv_service to = {.low = -INFINITY, .high = INFINITY};
    if (c->serves[i])
        to = block_conv_serve(s, f->producer, lane);
    bool adds = step_gradient_adds(s, b, c->in[i]), masks = to.low > -INFINITY || to.high < INFINITY;
    const float *x = (const float *)step_value(s, c->in[i]) + r.first * c->values, *z = to.z ? to.z + r.first * c->values : NULL;
    const float *y = (const float *)step_value(s, c->out) + r.first * c->values;
    const float *g = (const float *)step_gradient(s, c->out) + r.first * c->values;
    float *dx = (float *)step_gradient(s, c->in[i]) + r.first * c->values;
    for (size_t p = 0; p < r.count * c->values / c->channels; p++) {
        for (size_t k = 0; k < c->channels; k++) {
            float v = y[k] > c->low && y[k] < c->high ? g[k] : 0;
            if (masks) {
                float read = read_value(f, k, x[k]);
                v = read > to.low && read < to.high ? v : 0;
            }
            if (to.sum) {
                to.sum[k] += v;
                to.sum2[k] += (double)v * (z[k] - to.centre[k]);
            }
            dx[k] = adds ? dx[k] + v : v;
        }
        x += c->channels, y += c->channels, g += c->channels, dx += c->channels;
        z = z ? z + c->channels : NULL;
    }
}

static void backward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    (void)lanes;
    backward_one(s, b, lane, 0);
    backward_one(s, b, lane, 1);
}

static pst_status plan(const struct step_view *v, struct block *b, pst_error *reterr)
{
    const struct graph_node *n = &v->graph->nodes[b->first];
    struct add_state *c = mem_zalloc(sizeof(*c));
    b->state = c;
    if (!c)
        return pst_fail(reterr, PST_ENOMEM, "planning the step: out of memory");
    *c = (struct add_state){.in = {n->input[0], n->input[1]},
                            .out = b->first + b->count,
                            .channels = n->out.c,
                            .values = shape_values(&n->out),
                            .low = -INFINITY,
                            .high = INFINITY};
    if (clamp_after(v, b->first, &c->high))
        c->low = 0;
    else
        c->high = INFINITY;
    for (size_t i = 0; i < 2; i++)
        c->serves[i] = block_conv_offer(v, c->in[i]);
    b->forward[0] = (struct block_phase){PHASE_LANES, forward};
    b->backward[0] = (struct block_phase){PHASE_LANES, backward};
    return PST_OK;
}

static void free_state(struct block *b)
{
    mem_free(b->state);
}

const struct block_class block_add = {
    .name = "add",
    .match = match,
    .plan = plan,
    .free = free_state,
};
