/* layer_residual.c: residual( BRANCH )( SHORTCUT ): the sum of two chains that read the same value.
 *
 * Without a shortcut the input itself is added, or, where shapes differ, a 1×1 convolution of it with the stride that fits,
 * followed by batchnorm if the branch ends in one. */
#include "model/graph.h"
#include "model/layer_conv.h"
#include "model/layer_list.h"
#include "model/layer_norm.h"
#include "model/real.h"

#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct residual_config {
    struct layer_config layer;
    int activation;
};

static const pst_param params[] = {
    {"activation", PST_PARAM_CHOICE, offsetof(struct residual_config, activation), "none", 0, 0, activation_choices,
     "Activation applied to the sum."},
    {"name", PST_PARAM_STRING, offsetof(struct residual_config, layer.name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

/* The stride at which a 1×1 window over `in` values gives `out`; 0: there is none. */
static uint32_t stride_between(uint32_t in, uint32_t out)
{
    for (uint32_t s = in / out; s <= in / out + 1; s++)
        if (s > 0 && (in + s - 1) / s == out)
            return s;
    return 0;
}

static pst_status project(struct graph_builder *b, const char *name, size_t in, const struct graph_node *end, size_t *ret,
                          pst_error *reterr)
{
    const struct shape *from = graph_shape(b->graph, in), to = end->out;
    bool normed = strcmp(end->layer->name, "batchnorm") == 0;
    const struct norm_config *like = end->config;
    uint32_t stride = from->rank == 3 && to.rank == 3 ? stride_between(from->h, to.h) : 0;
    if (!stride || stride != stride_between(from->w, to.w))
        return pst_fail(reterr, PST_ETYPE,
                        "no 1×1 convolution takes the input, %u×%u×%u, to the branch's %u×%u×%u; write the shortcut: residual( … )( … )",
                        from->h, from->w, from->c, to.h, to.w, to.c);
    struct conv_config *conv = arena_alloc(&b->graph->memory, sizeof(*conv));
    struct norm_config *norm = arena_alloc(&b->graph->memory, sizeof(*norm));
    char part[GRAPH_NAME_SIZE + 24];
    if (!conv || !norm)
        return fail_memory(reterr, "building the model");
    *conv = (struct conv_config){
        .filters = to.c, .size = 1, .stride = stride, .dilation = 1, .groups = 1, .pad = "valid", .bias = !normed};
    snprintf(part, sizeof(part), "%s_shortcut", name);
    pst_status st = graph_add(b, layer_find("conv"), conv, part, &in, 1, ret, reterr);
    if (st < 0 || !normed)
        return st;
    *norm = (struct norm_config){.eps = like->eps, .momentum = like->momentum};
    snprintf(part, sizeof(part), "%s_shortcut_batchnorm", name);
    in = *ret;
    return graph_add(b, layer_find("batchnorm"), norm, part, &in, 1, ret, reterr);
}

static pst_status build(struct graph_builder *b, const struct lang_node *n, size_t in, size_t *ret, pst_error *reterr)
{
    const struct residual_config *c = n->config;
    size_t ends[2] = {in, in};
    char name[GRAPH_NAME_SIZE];
    pst_status st = graph_name(b, n->class.owner, c, name, reterr);
    if (st == PST_OK)
        st = graph_add_chain(b, &n->children[0], in, &ends[0], reterr);
    if (st == PST_OK && n->child_count > 1)
        st = graph_add_chain(b, &n->children[1], in, &ends[1], reterr);
    else if (st == PST_OK && !shape_equals(graph_shape(b->graph, in), graph_shape(b->graph, ends[0]))) {
        struct graph_node end = b->graph->nodes[ends[0] - 1]; /* a copy: adding moves the nodes */
        st = project(b, name, in, &end, &ends[1], reterr);
    }
    if (st == PST_OK)
        st = graph_add(b, layer_find("add"), c, name, ends, 2, ret, reterr);
    return st < 0 ? st : graph_add_activation(b, c->activation, *ret, ret, reterr);
}

const struct layer_class REAL(layer_residual) = {
    .name = "residual",
    .doc = "The sum of a branch and a shortcut, both in parentheses and neither of them empty. Without a shortcut: the input, or a 1×1 convolution of it "
           "where shapes differ, with batchnorm if the branch ends in one.",
    .example = "conv 16 3 pad=same | residual relu ( conv 16 3 relu pad=same | conv 16 3 pad=same ) | globalavgpool | dense 10",
    .params = params,
    .positional = 1,
    .config_size = sizeof(struct residual_config),
    .min_children = 1,
    .max_children = 2,
    .build = build,
};
