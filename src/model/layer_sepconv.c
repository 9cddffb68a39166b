/* layer_sepconv.c: separable convolution: a depthwise convolution without bias, then a 1×1 convolution, as in Keras. */
#include "model/graph.h"
#include "model/layer_params.h"
#include "model/layer_conv.h"
#include "model/layer_list.h"
#include "model/real.h"

#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>
#include <stdio.h>

static const pst_param params[] = {
    PARAM_FILTERS(struct conv_config),
    {"size", PST_PARAM_UINT, offsetof(struct conv_config, size), NULL, 1, 255, NULL, "Side of the depthwise kernel."},
    PARAM_ACTIVATION(struct conv_config),
    {"stride", PST_PARAM_UINT, offsetof(struct conv_config, stride), "1", 1, 255, NULL, "Step of the depthwise window."},
    PARAM_PAD(struct conv_config),
    {"bias", PST_PARAM_BOOL, offsetof(struct conv_config, bias), "true", 0, 0, NULL, "Whether a bias is added at the end."},
    PARAM_NAME(struct conv_config),
    {0},
};

static pst_status build(struct graph_builder *b, const struct lang_node *n, size_t in, size_t *ret, pst_error *reterr)
{
    const struct conv_config *c = n->config;
    struct conv_config *parts = arena_alloc(&b->graph->memory, 2 * sizeof(*parts));
    char name[GRAPH_NAME_SIZE], part[GRAPH_NAME_SIZE + 16];
    if (!parts)
        return fail_memory(reterr, "building the model");
    parts[0] = (struct conv_config){.size = c->size, .stride = c->stride, .dilation = 1, .groups = 1, .pad = c->pad};
    parts[1] = (struct conv_config){
        .filters = c->filters, .size = 1, .stride = 1, .dilation = 1, .groups = 1, .pad = "valid", .bias = c->bias};
    pst_status st = graph_name(b, n->class.owner, c, name, reterr);
    if (st < 0)
        return st;
    snprintf(part, sizeof(part), "%s_depthwise", name);
    st = graph_add(b, layer_find("dwconv"), &parts[0], part, &in, 1, &in, reterr);
    if (st < 0)
        return st;
    snprintf(part, sizeof(part), "%s_pointwise", name);
    st = graph_add(b, layer_find("conv"), &parts[1], part, &in, 1, &in, reterr);
    return st < 0 ? st : graph_add_activation(b, c->activation, in, ret, reterr);
}

const struct layer_class REAL(layer_sepconv) = {
    .name = "sepconv",
    .doc = "Separable convolution: a depthwise convolution, then a 1×1 convolution to `filters` channels.",
    .example = "sepconv 64 3 relu | globalavgpool | dense 10",
    .params = params,
    .positional = 3,
    .config_size = sizeof(struct conv_config),
    .build = build,
};
