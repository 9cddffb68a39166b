/* op_unbatch.c: the declaration of `unbatch`; the engine carries it out. */
#include "ops/op_table.h"

const struct op_decl op_unbatch = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "unbatch",
            .doc = "Takes batches apart into elements. Without batches before it, takes every element apart along the "
                   "first dimension of its fields, which must have the same number of rows. If all have the same "
                   "number of rows, or the batches the same size, the result still has an index; otherwise it is a "
                   "stream.",
            .example = "npy clips.npy | unbatch | shuffle | batch 64",
        },
    .kind = PST_OP_BATCHING,
    .cut = CUT_UNBATCH,
};
