/* op_rebatch.c: the declaration of `rebatch`; the engine carries it out. */
#include "ops/op_table.h"

const struct op_decl op_rebatch = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "rebatch",
            .doc = "Combines the elements of the batches before it into batches of another size, as unbatch and batch "
                   "together. Without batches before it, elements are taken apart along their first dimension.",
            .example = "tfrecord shards/ | example | batch 8 | shuffle | rebatch 64",
            .params = batch_params,
            .config_size = sizeof(struct batch_config),
        },
    .kind = PST_OP_BATCHING,
    .order = batch_order,
    .cut = CUT_REBATCH,
};
