/* op_rename.c: `rename`: another name for a field. Plan only. */
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <stdio.h>
#include <string.h>

struct config {
    const char *from, *to;
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    const struct config *c = config;
    size_t number;
    pst_status st = field_find(in, c->from, &number, reterr);
    if (st < 0)
        return st;
    if (c->to[0] == '\0' || strlen(c->to) >= PST_NAME_SIZE)
        return pst_fail(reterr, PST_EINVAL, "a field's name has 1 to %d bytes; \"%.64s\" is not valid", PST_NAME_SIZE - 1,
                        c->to);
    int other = pst_spec_find(in, c->to);
    if (other >= 0 && (size_t)other != number)
        return pst_fail(reterr, PST_EINVAL, "there is a field %s already; drop or rename it first", c->to);
    for (size_t i = 0; i < in->count && st == PST_OK; i++) {
        pst_field field = in->field[i];
        field.alias = (int)i;
        if (i == number)
            snprintf(field.name, sizeof(field.name), "%s", c->to);
        st = pst_spec_add(ret_out, &field, reterr);
    }
    return st;
}

static const pst_param params[] = {
    {"from", PST_PARAM_STRING, offsetof(struct config, from), NULL, 0, 0, NULL, "the current name"},
    {"to", PST_PARAM_STRING, offsetof(struct config, to), NULL, 0, 0, NULL, "the new name"},
    {0},
};

const struct op_decl op_rename = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "rename",
            .doc = "Renames a field.",
            .example = "tfrecord shards/ | example | rename image/encoded image | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
        },
    .kind = PST_OP_SAMPLE,
};
