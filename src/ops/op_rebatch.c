/* op_rebatch.c: the declaration of `rebatch`; the engine carries it out. */
#include "ops/op_table.h"

static const pst_param params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct batch_config, size), NULL, 1, 1e9, NULL, "number of elements per batch"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct batch_config, drop_remainder), "false", 0, 0, NULL,
     "leave out the last batch if it is not full"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct batch_config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_BATCH, .size = c->size, .drop_remainder = c->drop_remainder};
}

const struct op_decl op_rebatch = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "rebatch",
            .doc = "Combines the elements of the batches before it into batches of another size, as unbatch and batch "
                   "together. Without batches before it, elements are taken apart along their first dimension.",
            .example = "tfrecord shards/ | example | batch 8 | shuffle | rebatch 64",
            .params = params,
            .config_size = sizeof(struct batch_config),
        },
    .kind = PST_OP_BATCHING,
    .order = order,
    .cut = CUT_REBATCH,
};
