/* op_take.c: the declaration of `take`; the engine carries it out. */
#include "ops/op_table.h"

#include <math.h>

static const pst_param params[] = {
    {"count", PST_PARAM_INT, offsetof(struct count_config, count), NULL, -1, INFINITY, NULL, "how many; -1: all"},
    {0},
};

const pst_op_class op_take = {
    .abi = PST_OP_ABI,
    .name = "take",
    .doc = "Keeps the first elements and leaves out the rest. Behind batch it counts batches.",
    .example = "tfrecord shards/ | take 1000 | batch 64",
    .params = params,
    .config_size = sizeof(struct count_config),
};
