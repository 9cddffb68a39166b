/* graph.c: see graph.h. */
#include "model/graph.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/layer_activation.h"
#include "model/layer_list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The language ---- */

const char *const activation_choices[] = {"none", "relu", "relu6", "leaky", "gelu", "silu", "sigmoid", "tanh", "softmax", NULL};

static bool class_at(size_t i, struct lang_class *ret)
{
    const struct layer_class *l = layer_at(i);
    if (!l)
        return false;
    *ret = (struct lang_class){.name = l->name,
                               .params = l->params,
                               .positional = l->positional,
                               .config_size = l->config_size,
                               .min_children = l->min_children,
                               .max_children = l->max_children,
                               .empty_child = l->empty_child,
                               .owner = l};
    return true;
}

const struct language model_language = {
    .at = class_at, .whole = "a model", .one = "layer", .a_one = "a layer", .listing = "`penstock model --layers` lists them, `--presets` models with names"};

/* ---- Nodes ---- */

static bool name_taken(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->nodes[i].name, name) == 0)
            return true;
    return false;
}

static bool name_is_sound(const char *name)
{
    size_t length = strlen(name);
    return length < GRAPH_NAME_SIZE - 24 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == length;
}

pst_status graph_name(struct graph_builder *b, const struct layer_class *layer, const void *config, char ret[GRAPH_NAME_SIZE],
                      pst_error *reterr)
{
    const char *given = config ? ((const struct layer_config *)config)->name : NULL;
    if (!given || !given[0]) {
        do
            snprintf(ret, GRAPH_NAME_SIZE, "%s_%zu", layer->name, ++b->counters[layer_number(layer)]);
        while (name_taken(b->graph, ret));
        return PST_OK;
    }
    if (!name_is_sound(given))
        return pst_fail(reterr, PST_EINVAL, "invalid name \"%.40s\"; expected up to %d letters, digits, _ - and .", given,
                        GRAPH_NAME_SIZE - 25);
    if (name_taken(b->graph, given))
        return pst_fail(reterr, PST_EINVAL, "two layers are called \"%s\"; a layer that is repeated cannot have a name", given);
    snprintf(ret, GRAPH_NAME_SIZE, "%s", given);
    return PST_OK;
}

static pst_status add_params(struct graph *g, struct graph_node *n, pst_error *reterr)
{
    struct layer_param params[LAYER_MAX_PARAMS];
    n->first_param = g->param_count;
    n->params = n->layer->parameters ? n->layer->parameters(n->config, n->in, params) : 0;
    if (mem_grow((void **)&g->params, &g->param_capacity, g->param_count + n->params, sizeof(*g->params)) < 0)
        return fail_memory(reterr, "building the model");
    for (size_t i = 0; i < n->params; i++) {
        struct graph_param *p = &g->params[g->param_count + i];
        *p = (struct graph_param){.layer = params[i], .node = g->count, .offset = g->values, .count = 1};
        snprintf(p->name, sizeof(p->name), "%s/%s", n->name, params[i].name);
        for (uint32_t k = 0; k < params[i].rank; k++)
            if (__builtin_mul_overflow(p->count, params[i].shape[k], &p->count) || p->count > (size_t)1 << 40)
                return pst_fail(reterr, PST_ELIMIT, "%s has more than 2^40 values", p->name);
        g->values += (p->count + GRAPH_ALIGNMENT - 1) / GRAPH_ALIGNMENT * GRAPH_ALIGNMENT;
    }
    g->param_count += n->params;
    return PST_OK;
}

pst_status graph_add(struct graph_builder *b, const struct layer_class *layer, const void *config, const char *name,
                     const size_t *inputs, size_t count, size_t *ret, pst_error *reterr)
{
    struct graph *g = b->graph;
    if (g->count == GRAPH_MAX_NODES)
        return pst_fail(reterr, PST_ELIMIT, "the model has more than %d layers", GRAPH_MAX_NODES);
    if (mem_grow((void **)&g->nodes, &g->capacity, g->count + 1, sizeof(*g->nodes)) < 0)
        return fail_memory(reterr, "building the model");
    struct graph_node *n = &g->nodes[g->count];
    *n = (struct graph_node){.layer = layer, .config = config, .written = b->written, .inputs = count};
    for (size_t i = 0; i < count; i++) {
        n->input[i] = inputs[i];
        n->in[i] = *graph_shape(g, inputs[i]);
    }
    if (name)
        snprintf(n->name, sizeof(n->name), "%s", name);
    if (name && name_taken(g, n->name))
        return pst_fail(reterr, PST_EINVAL, "two layers are called \"%s\"; a layer that is repeated cannot have a name", n->name);
    pst_status st = name ? PST_OK : graph_name(b, layer, config, n->name, reterr);
    if (st == PST_OK)
        st = layer->shape(config, n->in, count, &n->out, reterr);
    if (st == PST_OK && (uint64_t)n->out.h * n->out.w > UINT32_MAX / (n->out.c ? n->out.c : 1))
        st = pst_fail(reterr, PST_ELIMIT, "the result of %s has more than 2^32 values per sample", n->name);
    if (st == PST_OK)
        st = add_params(g, n, reterr);
    if (st < 0)
        return st;
    *ret = ++g->count;
    return PST_OK;
}

pst_status graph_add_activation(struct graph_builder *b, int activation, size_t in, size_t *ret, pst_error *reterr)
{
    *ret = in;
    if (activation == ACT_NONE)
        return PST_OK;
    struct activation_config *config = arena_alloc(&b->graph->memory, sizeof(*config));
    if (!config)
        return fail_memory(reterr, "building the model");
    *config = (struct activation_config){.slope = ACTIVATION_LEAKY_SLOPE};
    return graph_add(b, layer_find(activation_choices[activation]), config, NULL, &in, 1, ret, reterr);
}

/* Adds the drawing of the place in the text, once: the innermost layer knows best. */
static pst_status point(struct graph_builder *b, const struct lang_node *n, pst_status st, pst_error *reterr)
{
    if (st < 0 && reterr && !reterr->op[0]) {
        snprintf(reterr->op, sizeof(reterr->op), "%s", n->class.name);
        lang_point(&b->graph->tree, n, reterr);
    }
    return st;
}

static pst_status add_layer(struct graph_builder *b, const struct lang_node *n, size_t in, size_t *ret, pst_error *reterr)
{
    const struct layer_class *layer = n->class.owner;
    if (layer->build)
        return layer->build(b, n, in, ret, reterr);
    pst_status st = graph_add(b, layer, n->config, NULL, &in, 1, ret, reterr);
    if (st == PST_OK && layer->activation)
        st = graph_add_activation(b, layer->activation(n->config), *ret, ret, reterr);
    return st;
}

pst_status graph_add_chain(struct graph_builder *b, const struct lang_chain *chain, size_t in, size_t *ret, pst_error *reterr)
{
    const struct lang_node *outer = b->written;
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < chain->count; i++) {
        b->written = chain->nodes[i];
        st = point(b, chain->nodes[i], add_layer(b, chain->nodes[i], in, &in, reterr), reterr);
    }
    b->written = outer;
    if (st == PST_OK)
        *ret = in;
    return st;
}

/* ---- The whole ---- */

static pst_status check_input(const struct shape *s, pst_error *reterr)
{
    if ((uint64_t)s->h * s->w > UINT32_MAX / (s->c ? s->c : 1))
        return pst_fail(reterr, PST_ELIMIT, "the input has more than 2^32 values per sample");
    if ((s->rank != 1 && s->rank != 3) || shape_values(s) == 0)
        return pst_fail(reterr, PST_EINVAL, "the input is an image (height × width × channels) or a vector, with at least one value");
    return PST_OK;
}

pst_status graph_begin(struct graph **ret, const struct shape *input, pst_error *reterr)
{
    pst_status st = check_input(input, reterr);
    if (st < 0)
        return st;
    struct graph *g = mem_zalloc(sizeof(*g));
    if (!g)
        return fail_memory(reterr, "building the model");
    g->input = *input;
    arena_init(&g->memory);
    *ret = g;
    return PST_OK;
}

pst_status graph_create(struct graph **ret, const char *text, const struct shape *input, pst_error *reterr)
{
    size_t layers = 0, out;
    while (layer_at(layers))
        layers++;
    struct graph *g = NULL;
    size_t *counters = mem_array(layers, sizeof(*counters));
    pst_status st = counters ? graph_begin(&g, input, reterr) : fail_memory(reterr, "building the model");
    if (st == PST_OK)
        st = lang_parse(&g->tree, &model_language, text, reterr);
    if (st == PST_OK)
        st = graph_add_chain(&(struct graph_builder){.graph = g, .counters = counters}, &g->tree.top, 0, &out, reterr);
    mem_free(counters);
    if (st < 0) {
        graph_destroy(g);
        return st;
    }
    *ret = g;
    return PST_OK;
}

struct graph *graph_destroy(struct graph *g)
{
    if (!g)
        return NULL;
    lang_finish(&g->tree);
    arena_finish(&g->memory);
    mem_free(g->nodes);
    mem_free(g->params);
    mem_free(g);
    return NULL;
}

void graph_init_params(const struct graph *g, uint64_t seed, float *params)
{
    memset(params, 0, g->values * sizeof(*params));
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        double limit = sqrt(6. / (double)(p->layer.fan_in + p->layer.fan_out));
        struct random r;
        random_init(&r, seed, hash_bytes(p->name, strlen(p->name), 0), 0, 0);
        for (size_t k = 0; k < p->count; k++)
            params[p->offset + k] = p->layer.init == INIT_GLOROT_UNIFORM ? (float)random_between(&r, -limit, limit)
                                    : p->layer.init == INIT_ONES         ? 1
                                                                         : 0;
    }
}

char *graph_text(const struct graph *g)
{
    return lang_chain_text(&g->tree.top);
}
