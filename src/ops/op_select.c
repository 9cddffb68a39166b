/* op_select.c: `select`: some of the fields. Plan only: what is left out is not even computed. */
#include "ops/fields.h"
#include "ops/op_decl.h"

struct config {
    pst_strings fields;
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    const struct config *c = config;
    for (size_t i = 0; i < c->fields.count; i++) {
        size_t from;
        pst_status st = field_find(in, c->fields.value[i], &from, reterr);
        if (st < 0)
            return st;
        if (pst_spec_find(ret_out, c->fields.value[i]) >= 0)
            return pst_fail(reterr, PST_EINVAL, "field %s is selected twice", c->fields.value[i]);
        st = pst_spec_keep(ret_out, in, from, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

static const pst_param params[] = {
    {"fields", PST_PARAM_STRINGS, offsetof(struct config, fields), NULL, 0, 0, NULL, "names of the fields, in the new order"},
    {0},
};

const struct op_decl op_select = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "select",
            .doc = "Keeps the named fields and removes the others. A removed field that no earlier operation uses is "
                   "not read, parsed or decoded.",
            .example = "tfrecord shards/ | example | select image label | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
        },
    .kind = PST_OP_SAMPLE,
};
