/* op_batch.c: the declaration of `batch`; the engine carries it out. */
#include "ops/op_table.h"

const pst_param batch_params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct batch_config, size), NULL, 1, 1e9, NULL, "number of elements per batch"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct batch_config, drop_remainder), "false", 0, 0, NULL,
     "leave out the last batch if it is not full"},
    {0},
};

void batch_order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct batch_config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_BATCH, .size = c->size, .drop_remainder = c->drop_remainder};
}

const struct op_decl op_batch = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "batch",
            .doc = "Combines elements into batches: each field becomes one tensor whose first dimension is the batch. "
                   "If the first dimension of a field varies between elements, their values are concatenated, and row "
                   "splits store where each element begins. Without this operation, every batch has one element.",
            .example = "tfrecord shards/ | shuffle | batch 64 drop_remainder=true",
            .params = batch_params,
            .config_size = sizeof(struct batch_config),
        },
    .kind = PST_OP_BATCHING,
    .order = batch_order,
    .cut = CUT_GATHER,
};
