/* op_repeat.c: the declaration of `repeat`; the engine carries it out. */
#include "ops/op_table.h"

#include <math.h>

static const pst_param params[] = {
    {"count", PST_PARAM_INT, offsetof(struct count_config, count), "-1", -1, INFINITY, NULL, "number of passes; -1: endless"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct count_config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_REPEAT, .count = c->count};
}

const struct op_decl op_repeat = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "repeat",
            .doc = "Repeats the elements within one epoch. A shuffle before it makes a new order for every pass.",
            .example = "tfrecord shards/ | shuffle | repeat 3 | batch 64",
            .params = params,
            .config_size = sizeof(struct count_config),
        },
    .kind = PST_OP_ORDER,
    .order = order,
};
