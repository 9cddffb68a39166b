/* op_skip.c: the declaration of `skip`; the engine carries it out. */
#include "ops/op_table.h"

#include <math.h>

static const pst_param params[] = {
    {"count", PST_PARAM_INT, offsetof(struct count_config, count), NULL, -1, INFINITY, NULL,
     "number of elements; -1: all, so that none are left"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct count_config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_SKIP, .count = c->count};
}

const struct op_decl op_skip = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "skip",
            .doc = "Leaves out the first elements. After batch it counts batches.",
            .example = "tfrecord shards/ | skip 1000 | batch 64",
            .params = params,
            .config_size = sizeof(struct count_config),
        },
    .kind = PST_OP_ORDER,
    .order = order,
};
