/* op_shard.c: the declaration of `shard`; the engine carries it out. */
#include "ops/op_table.h"

#include <math.h>

static const pst_param params[] = {
    {"count", PST_PARAM_UINT, offsetof(struct shard_config, count), NULL, 1, INFINITY, NULL, "number of parts"},
    {"index", PST_PARAM_UINT, offsetof(struct shard_config, index), NULL, 0, INFINITY, NULL,
     "number of the part to keep; the first is 0"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct shard_config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_SHARD, .shards = c->count, .shard = c->index};
}

const struct op_decl op_shard = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "shard",
            .doc = "Keeps every count-th element, starting with element index. Put it before shuffle, so that the parts "
                   "are disjoint. Training on several ranks does not need shard: the pipeline's rank and world options "
                   "split the batches evenly.",
            .example = "tfrecord shards/ | shard 4 0 | shuffle | batch 64",
            .params = params,
            .config_size = sizeof(struct shard_config),
        },
    .kind = PST_OP_ORDER,
    .order = order,
};
