/* op_resample.c: the declaration of `resample`; the engine carries it out. */
#include "ops/op_table.h"

#include <math.h>

struct config {
    struct resample_rule rule;
    int64_t seed;
};

static const pst_param params[] = {
    {"field", PST_PARAM_STRING, offsetof(struct config, rule.field), "label", 0, 0, NULL,
     "the field with the class: a single number"},
    {"target", PST_PARAM_STRING, offsetof(struct config, rule.target), "", 0, 0, NULL,
     "share of each class, in the order of the labels: 0.5,0.3,0.2; empty: the same for all"},
    {"length", PST_PARAM_UINT, offsetof(struct config, rule.length), "0", 0, 1e15, NULL,
     "elements per epoch; 0: as many as there are"},
    {"seed", PST_PARAM_INT, offsetof(struct config, seed), "-1", -1, INFINITY, NULL,
     "seed of the order; -1: the pipeline's seed"},
    {0},
};

static const struct resample_rule *rule(const void *config, uint64_t pipeline_seed, uint64_t *ret_seed)
{
    const struct config *c = config;
    *ret_seed = c->seed >= 0 ? (uint64_t)c->seed : pipeline_seed;
    return &c->rule;
}

const struct op_decl op_resample = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "resample",
            .doc =
                "Draws the elements such that every class has its share: rare classes come more often, frequent ones less "
                "often. The labels of all elements are read once, before the first batch. Every 1000 elements have the shares "
                "exactly (16 per class if there are more than 62 classes), shorter parts nearly, and no element of a class "
                "comes twice before all of them came "
                "once. An element that comes again is augmented in another way. The order stays an index: seeking takes no "
                "time. "
                "It also shuffles; put no shuffle before it.",
            .example = "range 100 | expr \"value > 89\" rare | resample rare | batch 10",
            .params = params,
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_ORDER,
    .reorders = true,
    .resample = rule,
};
