/* op_unique.c: the declaration of `unique`; the engine carries it out. */
#include "ops/fields.h"
#include "ops/op_table.h"

struct config {
    pst_strings fields;
    /* Noted by the plan: */
    struct key_rule key;
    size_t compared[PST_MAX_FIELDS];
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    struct config *c = config;
    pst_status st = PST_OK;
    size_t named = c->fields.count, count = named ? named : in->count;
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        c->compared[i] = i;
        if (named)
            st = field_find(in, c->fields.value[i], &c->compared[i], reterr);
    }
    c->key = (struct key_rule){.fields = c->compared, .field_count = count};
    pst_spec_pass(in, out);
    return st;
}

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_UNIQUE, .key = &c->key};
}

static const pst_param params[] = {
    {"fields", PST_PARAM_STRINGS, offsetof(struct config, fields), "", 0, 0, NULL,
     "names of the fields that are compared; none: all fields"},
    {0},
};

const struct op_decl op_unique = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "unique",
            .doc = "Leaves out elements that came before in this epoch. Elements are compared by hashes of 128 bits, 32 "
                   "bytes or so of memory for each different one. The data decides which elements stay, so a stream "
                   "begins here.",
            .example = "tfrecord shards/ | example | unique image | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
        },
    .kind = PST_OP_ORDER,
    .order = order,
    .cut = CUT_STREAM,
};
