/* block_add.c: the sum of two values and a clamping activation, in one pass; either value may be lazy. */
#include "model/block_conv.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/strip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct add_state {
    const struct elem_kernels *elem;
    size_t in[2], out;
    size_t channels, values; /* per sample */
    float low, high;
    bool serves[2];
    bool shares; /* the gradients of both inputs lie where that of the result does: it is masked in place */
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

static struct strip_source read_of(struct step *s, size_t value, size_t at)
{
    const struct value_form *f = step_form(s, value);
    return (struct strip_source){.z = number_from(step_value(s, value), f->number, at),
                              .number = f->number,
                              .centre = f->centre,
                              .scale = f->lazy ? f->scale : NULL,
                              .shift = f->lazy ? f->shift : NULL,
                              .low = f->low,
                              .high = f->high};
}

static void forward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    const struct add_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    size_t at = r.first * c->values;
    struct strip_source x = read_of(s, c->in[0], at), y = read_of(s, c->in[1], at);
    enum number number = step_form(s, c->out)->number;
    (void)lanes;
    strip_add(c->elem, &x, &y, c->low, c->high, r.count * c->values / c->channels, c->channels, number_at(step_value(s, c->out), number, at), number);
}

/* The gradient of one input: g where both activations pass it. */
static void backward_one(struct step *s, struct block *b, unsigned lane, size_t i)
{
    const struct add_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    size_t at = r.first * c->values;
    enum number number = step_form(s, c->out)->number, to_number = step_form(s, c->in[i])->number;
    bool masked = c->shares && i > 0; /* by the first input's pass */
    struct strip_gradient j = {.g = number_from(step_gradient(s, c->out), number, at),
                               .number = number,
                               .low = c->low,
                               .high = c->high,
                               .adds = step_gradient_adds(s, b, c->in[i])};
    if (c->serves[i]) {
        struct conv_service service = block_conv_serve(s, step_form(s, c->in[i])->producer, lane);
        if (service.low > -INFINITY || service.high < INFINITY)
            j.mask = read_of(s, c->in[i], at);
        j.z = service.z ? number_from(service.z, to_number, at) : NULL;
        j.centre = service.centre;
        j.sum = service.sum;
        j.sum2 = service.sum2;
    }
    bool clamps = c->low > -INFINITY || c->high < INFINITY;
    if (c->shares && !j.sum && (masked || !clamps)) /* it is there already */
        return;
    if (!masked && clamps)
        j.y = number_from(step_value(s, c->out), number, at);
    strip_gradient(c->elem, &j, r.count * c->values / c->channels, c->channels, number_at(step_gradient(s, c->in[i]), to_number, at), to_number);
}

static void backward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    (void)lanes;
    backward_one(s, b, lane, 0);
    backward_one(s, b, lane, 1);
}

/* Whether every reader of value `of`, but for node `add`, runs backward after the block that made `other` has read its gradient. */
static bool read_before(const struct step_view *v, size_t add, size_t of, size_t other)
{
    for (size_t i = 0; i < v->nodes; i++)
        for (size_t k = 0; k < v->graph->nodes[i].inputs; k++)
            if (v->graph->nodes[i].input[k] == of && i != add && i >= v->forms[other].producer->first)
                return false;
    return true;
}

/* Both inputs have the gradient of the result, masked, and neither changes while the other is needed: by another reader, or by the block that
 * made it, which may mask it in place. */
static bool can_share(const struct step_view *v, const struct block *b, const struct add_state *c)
{
    for (size_t i = 0; i < 2; i++) {
        const struct value_form *f = &v->forms[c->in[i]], *other = &v->forms[c->in[1 - i]];
        bool plain = f->producer->class == &block_conv || f->producer->class == &block_add, masks = f->low > -INFINITY || f->high < INFINITY;
        if (!plain || f->number != v->forms[c->out].number || (c->serves[i] && masks) ||
            (!c->serves[i] && f->producer->first > other->producer->first) || !read_before(v, b->first, c->in[i], c->in[1 - i]))
            return false;
    }
    return true;
}

static pst_status plan(const struct step_view *v, struct block *b, pst_error *reterr)
{
    const struct graph_node *n = &v->graph->nodes[b->first];
    struct add_state *c = mem_zalloc(sizeof(*c));
    b->state = c;
    if (!c)
        return fail_memory(reterr, "planning the step");
    *c = (struct add_state){.elem = elem_kernels(v->features),
                            .in = {n->input[0], n->input[1]},
                            .out = b->first + b->count,
                            .channels = n->out.c,
                            .values = shape_values(&n->out),
                            .low = -INFINITY,
                            .high = INFINITY};
    if (clamp_after(v, b->first, &c->high))
        c->low = 0;
    else
        c->high = INFINITY;
    v->forms[c->out].number = block_number(v, c->out);
    for (size_t i = 0; i < 2; i++)
        c->serves[i] = block_conv_offer(v, c->in[i]);
    c->shares = can_share(v, b, c);
    for (size_t i = 0; c->shares && i < 2; i++)
        v->forms[c->in[i]].gradient_in = c->out;
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
