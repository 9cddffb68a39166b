/* op_padded_batch.c: the declaration of `padded_batch`; the engine carries it out. */
#include "ops/op_table.h"

#include <math.h>

struct config {
    uint64_t size;
    bool drop_remainder;
    struct pad_rule pad;
};

static const pst_param params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct config, size), NULL, 1, 1e9, NULL, "number of elements per batch"},
    {"multiple", PST_PARAM_UINT, offsetof(struct config, pad.multiple), "1", 1, 1e9, NULL,
     "fill every varying dimension up to a multiple of this"},
    {"length", PST_PARAM_UINT, offsetof(struct config, pad.length), "0", 0, 1e15, NULL,
     "fill the first dimension up to this length; a longer element is an error; 0: up to the longest element"},
    {"value", PST_PARAM_FLOAT, offsetof(struct config, pad.value), "0", -INFINITY, INFINITY, NULL,
     "value of the numbers that are added; fields of bytes get empty bytes"},
    {"values", PST_PARAM_STRING, offsetof(struct config, pad.values), "", 0, 0, NULL,
     "other values for some fields, as labels:-100,weights:1"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct config, drop_remainder), "false", 0, 0, NULL,
     "leave out the last batch if it is not full"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_BATCH, .size = c->size, .drop_remainder = c->drop_remainder, .pad = &c->pad};
}

const struct op_decl op_padded_batch = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "padded_batch",
            .doc = "Combines elements of different shapes into batches: every dimension that varies is filled up at its "
                   "end to that of the largest element of the batch.",
            .example = "tfrecord text/ | example | padded_batch 32 multiple=8 values=labels:-100",
            .params = params,
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_BATCHING,
    .order = order,
    .cut = CUT_GATHER,
};
