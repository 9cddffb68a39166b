/* op_batch.c: the declaration of `batch`; the engine carries it out. */
#include "ops/op_table.h"

static const pst_param params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct batch_config, size), NULL, 1, 1e9, NULL, "elements in a batch"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct batch_config, drop_remainder), "false", 0, 0, NULL,
     "leave out a last batch that is not full"},
    {0},
};

const pst_op_class op_batch = {
    .abi = PST_OP_ABI,
    .name = "batch",
    .doc = "Puts elements together: each field becomes one tensor whose first dimension is the batch. Fields whose first "
           "dimension differs from element to element come one behind the other, with row splits that say where each "
           "begins. Without batch in the chain, every batch is one element.",
    .example = "tfrecord shards/ | shuffle | batch 64 drop_remainder=true",
    .params = params,
    .config_size = sizeof(struct batch_config),
};
