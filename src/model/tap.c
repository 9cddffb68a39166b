/* tap.c: see tap.h. */
#include "model/tap.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

static pst_status shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config, (void)inputs, (void)reterr;
    *ret = *in;
    return PST_OK;
}

static void forward(const struct layer_call *call)
{
    const struct tap *t = call->config;
    size_t values = shape_values(&call->out_shape);
    memcpy(call->out, call->in[0], call->n * values * sizeof(float));
    if (t->copy)
        memcpy(t->copy + call->first * values, call->in[0], call->n * values * sizeof(float));
}

static void backward(const struct layer_call *call)
{
    const struct tap *t = call->config;
    const float *dout = call->dout;
    size_t values = shape_values(&call->out_shape), count = call->n * values;
    float *din = call->din[0];
    for (size_t i = 0; din && i < count; i++)
        din[i] = dout[i] + (t->extra ? t->extra[call->first * values + i] : 0);
}

/* Not in the list of layers: it is in no text, and it computes in float only. */
static const struct layer_class tap_class = {
    .name = "tap",
    .doc = "Hands values out.",
    .config_size = sizeof(struct tap),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

static size_t find_node(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->nodes[i].name, name) == 0)
            return i;
    return SIZE_MAX;
}

/* After node `at`: readers of its result read that of the tap. */
static pst_status insert(struct graph *g, size_t at, struct tap *t, pst_error *reterr)
{
    struct graph_node *n;
    if (mem_grow((void **)&g->nodes, &g->capacity, g->count + 1, sizeof(*g->nodes)) < 0)
        return fail_memory(reterr, "planning the step");
    memmove(&g->nodes[at + 2], &g->nodes[at + 1], (g->count - at - 1) * sizeof(*g->nodes));
    g->count++;
    for (size_t i = at + 2; i < g->count; i++)
        for (size_t k = 0; k < g->nodes[i].inputs; k++)
            g->nodes[i].input[k] += g->nodes[i].input[k] > at;
    for (size_t i = 0; i < g->param_count; i++)
        g->params[i].node += g->params[i].node > at;
    n = &g->nodes[at + 1];
    *n = (struct graph_node){.layer = &tap_class, .config = t, .inputs = 1, .input = {at + 1}, .first_param = g->nodes[at].first_param};
    memcpy(n->name, g->nodes[at].name, sizeof(n->name));
    n->in[0] = n->out = t->shape = g->nodes[at].out;
    return PST_OK;
}

pst_status graph_tap(struct graph **ret, struct tap **ret_taps, const struct graph *g, const char *const *names, size_t count, pst_error *reterr)
{
    struct graph *made = NULL;
    struct tap *taps = mem_array(count + 1, sizeof(*taps));
    char *text = graph_text(g);
    pst_status st = taps && text ? graph_create(&made, text, &g->input, reterr) : fail_memory(reterr, "planning the step");
    for (size_t i = 0; st == PST_OK && i < count; i++) {
        size_t at = find_node(made, names[i]);
        if (at == SIZE_MAX)
            st = pst_fail(reterr, PST_EINVAL, "the model has no layer %.60s; `penstock model` lists them", names[i]);
        else if (at + 1 == made->count)
            st = pst_fail(reterr, PST_EINVAL, "%.60s is the model's last layer: its result is what the teacher's logits are for", names[i]);
        else
            st = insert(made, at, &taps[i], reterr);
    }
    mem_free(text);
    if (st < 0) {
        graph_destroy(made);
        mem_free(taps);
        return st;
    }
    *ret = made;
    *ret_taps = taps;
    return PST_OK;
}
