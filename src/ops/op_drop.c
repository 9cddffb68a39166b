/* op_drop.c: `drop`: all fields but some. Plan only, as `select`. */
#include "ops/fields.h"
#include "ops/op_decl.h"

struct config {
    pst_strings fields;
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    const struct config *c = config;
    bool dropped[PST_MAX_FIELDS] = {false};
    pst_status st = PST_OK;
    for (size_t i = 0; i < c->fields.count; i++) {
        size_t from;
        st = field_find(in, c->fields.value[i], &from, reterr);
        if (st < 0)
            return st;
        dropped[from] = true;
    }
    for (size_t i = 0; i < in->count && st == PST_OK; i++)
        if (!dropped[i])
            st = pst_spec_keep(ret_out, in, i, reterr);
    if (st == PST_OK && ret_out->count == 0)
        st = pst_fail(reterr, PST_EINVAL, "every field is dropped; at least one has to stay");
    return st;
}

static const pst_param params[] = {
    {"fields", PST_PARAM_STRINGS, offsetof(struct config, fields), NULL, 0, 0, NULL, "names of the fields"},
    {0},
};

const struct op_decl op_drop = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "drop",
            .doc = "Removes the named fields and keeps the others. A removed field that no earlier operation uses is "
                   "not read, parsed or decoded.",
            .example = "tfrecord shards/ | example | drop filename | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
        },
    .kind = PST_OP_SAMPLE,
};
