/* op_group.c: the declaration of `group`; the engine carries it out. */
#include "base/error.h"
#include "ops/fields.h"
#include "ops/op_table.h"

struct config {
    const char *field;
    uint64_t size;
    bool drop_remainder;
    struct key_rule key; /* noted by the plan */
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    struct config *c = config;
    size_t field;
    pst_status st = field_find(in, c->field, &field, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[field];
    bool is_float = f->dtype >= PST_DTYPE_F16 && f->dtype <= PST_DTYPE_F64;
    if (f->rank > 0 || is_float)
        return pst_fail(reterr, PST_ETYPE, "field %s is %s%s; expected a single whole number or text", c->field,
                        f->rank > 0 ? "an array of " : "", pst_dtype_name(f->dtype));
    c->key = (struct key_rule){.kind = KEY_VALUE, .field = field};
    pst_spec_pass(in, out);
    return PST_OK;
}

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_BATCH, .size = c->size, .drop_remainder = c->drop_remainder, .key = &c->key};
}

static const pst_param params[] = {
    {"field", PST_PARAM_STRING, offsetof(struct config, field), NULL, 0, 0, NULL,
     "the field whose values are compared: a single whole number or text"},
    {"size", PST_PARAM_UINT, offsetof(struct config, size), NULL, 1, 1e9, NULL, "number of elements per batch"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct config, drop_remainder), "false", 0, 0, NULL,
     "leave out the batches at the end that are not full"},
    {0},
};

const struct op_decl op_group = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "group",
            .doc = "Combines elements with the same value of a field into batches, as group_by_window of tf.data with "
                   "batch. Batches come out when they are full; at the end the rest comes out in the order of the "
                   "values. The data decides which elements come together, so a stream begins here.",
            .example = "tfrecord shards/ | example | shuffle | group label 8",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
        },
    .kind = PST_OP_BATCHING,
    .order = order,
    .cut = CUT_KEYED,
};
