/* op_enumerate.c: `enumerate`: the position of each element as a field. The engine provides the position. */
#include "ops/ctx.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct config {
    const char *field;
    int64_t start;
    size_t number;
};

static const pst_param params[] = {
    {"field", PST_PARAM_STRING, offsetof(struct config, field), "index", 0, 0, NULL, "name of the new field"},
    {"start", PST_PARAM_INT, offsetof(struct config, start), "0", 0, 0, NULL, "number of the first element"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    (void)config, (void)env;
    *ret = (struct order_step){.kind = ORDER_NUMBER};
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_field field = {.dtype = PST_DTYPE_I64, .alias = -1};
    if (c->field[0] == '\0' || strlen(c->field) >= PST_NAME_SIZE)
        return pst_fail(reterr, PST_EINVAL, "a field's name has 1 to %d bytes; \"%.64s\" is not valid", PST_NAME_SIZE - 1,
                        c->field);
    if (pst_spec_find(in, c->field) >= 0)
        return pst_fail(reterr, PST_EINVAL, "there is a field %s already; choose another name (field=)", c->field);
    snprintf(field.name, sizeof(field.name), "%s", c->field);
    pst_spec_pass(in, ret_out);
    c->number = in->count;
    return pst_spec_add(ret_out, &field, reterr);
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    (void)worker, (void)in, (void)reterr;
    *(int64_t *)out[c->number].data = (int64_t)((uint64_t)c->start + ctx->number);
    return PST_OK;
}

const struct op_decl op_enumerate = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "enumerate",
            .doc = "Adds the position of each element as an int64 field: 0 for the first element that comes, whatever its place in "
                   "the data, 1 for the second. After shuffle or repeat it counts the elements in their new order.",
            .example = "range 10 20 | shuffle | enumerate | batch 4",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .order = order,
};
