/* op_window.c: the declaration of `window`; the engine carries it out. */
#include "ops/op_table.h"

struct config {
    uint64_t size, shift, stride;
    bool drop_remainder;
};

static const pst_param params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct config, size), NULL, 1, 1e9, NULL, "number of elements per window"},
    {"shift", PST_PARAM_UINT, offsetof(struct config, shift), "0", 0, 1e15, NULL,
     "number of elements from the beginning of one window to the beginning of the next; 0: size"},
    {"stride", PST_PARAM_UINT, offsetof(struct config, stride), "1", 1, 1e15, NULL,
     "number of elements from one element of a window to the next"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct config, drop_remainder), "false", 0, 0, NULL,
     "leave out windows at the end that are not full; all windows then have the same shape"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct config *c = config;
    bool plain = (c->shift == 0 || c->shift == c->size) && c->stride == 1;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_BATCH, .size = c->size, .drop_remainder = c->drop_remainder};
    if (!plain) {
        ret->shift = c->shift ? c->shift : c->size;
        ret->stride = c->stride;
    }
}

const struct op_decl op_window = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "window",
            .doc = "Combines neighbouring elements into one: each field becomes a stack with a new first dimension, as "
                   "window and batch of tf.data together. Operations after it work on the stacks. Windows may overlap "
                   "(shift less than size) and may leave elements out (stride, or shift greater than size). If the "
                   "elements have numbers, every window is computed by its number: shuffle after it is exact.",
            .example = "npy series.npy | window 24 shift=1 drop_remainder=true | shuffle | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_BATCHING,
    .order = order,
    .cut = CUT_WINDOW,
};
