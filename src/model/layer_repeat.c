/* layer_repeat.c: repeat N ( CHAIN ): the chain N times, one after the other, each time with parameters of its own. */
#include "model/graph.h"
#include "model/real.h"

#include <stddef.h>

struct repeat_config {
    struct layer_config layer;
    uint64_t times;
};

static const pst_param params[] = {
    {"times", PST_PARAM_UINT, offsetof(struct repeat_config, times), NULL, 1, GRAPH_MAX_NODES, NULL, "How often the chain stands there."},
    {0},
};

static pst_status build(struct graph_builder *b, const struct lang_node *n, size_t in, size_t *ret, pst_error *reterr)
{
    const struct repeat_config *c = n->config;
    pst_status st = PST_OK;
    *ret = in;
    for (uint64_t i = 0; st == PST_OK && i < c->times; i++)
        st = graph_add_chain(b, &n->children[0], *ret, ret, reterr);
    return st;
}

const struct layer_class REAL(layer_repeat) = {
    .name = "repeat",
    .doc = "A chain several times in a row, each time with parameters of its own.",
    .example = "repeat 2 ( conv 32 3 relu | maxpool 2 ) | flatten | dense 10",
    .params = params,
    .positional = 1,
    .config_size = sizeof(struct repeat_config),
    .min_children = 1,
    .max_children = 1,
    .build = build,
};
