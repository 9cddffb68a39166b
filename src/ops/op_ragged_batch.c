/* op_ragged_batch.c: `ragged_batch`: batches of elements whose shapes differ, without filling anything up.
 *
 * The engine makes batches of fields whose first dimension varies. Here fields in which other dimensions vary become that:
 * their values in one row, and their shape as a field of its own. */
#include "base/error.h"
#include "ops/fields.h"
#include "ops/op_table.h"

#include <stdio.h>
#include <string.h>

struct config {
    struct batch_config batch;
    /* Noted by the plan: */
    size_t count, from[PST_MAX_FIELDS], shape[PST_MAX_FIELDS]; /* fields that become flat, and the fields of their shapes */
};

static bool varies_inside(const pst_field *f)
{
    for (uint32_t i = 1; i < f->rank; i++)
        if (f->shape[i] == PST_ANY)
            return true;
    return false;
}

static pst_status add_shape(struct config *c, const pst_spec *in, size_t i, pst_spec *out, pst_error *reterr)
{
    const pst_field *from = &in->field[i];
    pst_field shape = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {from->rank}, .alias = -1};
    if (snprintf(shape.name, sizeof(shape.name), "%s_shape", from->name) >= (int)sizeof(shape.name))
        return pst_fail(reterr, PST_EINVAL, "field %s: no room for the name %s_shape; rename it before", from->name,
                        from->name);
    if (pst_spec_find(in, shape.name) >= 0)
        return pst_fail(reterr, PST_EINVAL, "there is a field %s already, and the shapes of %s go there; rename it before",
                        shape.name, from->name);
    c->from[c->count] = i;
    c->shape[c->count++] = out->count;
    return pst_spec_add(out, &shape, reterr);
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    struct config *c = config;
    pst_status st = PST_OK;
    c->count = 0;
    pst_spec_pass(in, out);
    for (size_t i = 0; i < in->count && st == PST_OK; i++) {
        if (!varies_inside(&in->field[i]))
            continue;
        pst_spec_read(out, i);
        pst_field *flat = pst_spec_write(out, i);
        flat->rank = 1;
        flat->shape[0] = PST_ANY;
        st = add_shape(c, in, i, out, reterr);
    }
    return st;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    (void)worker, (void)ctx, (void)reterr;
    for (size_t i = 0; i < c->count; i++) {
        const pst_tensor *from = &in[c->from[i]];
        pst_tensor *to = &out[c->from[i]];
        int64_t *shape = out[c->shape[i]].data;
        to->shape[0] = tensor_values(from);
        to->data = from->data;
        for (uint32_t d = 0; shape && d < from->rank; d++)
            shape[d] = (int64_t)from->shape[d];
    }
    return PST_OK;
}

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct config *c = config;
    (void)env;
    *ret = (struct order_step){.kind = ORDER_BATCH, .size = c->batch.size, .drop_remainder = c->batch.drop_remainder};
}

static const pst_param params[] = {
    {"size", PST_PARAM_UINT, offsetof(struct config, batch.size), NULL, 1, 1e9, NULL, "number of elements per batch"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct config, batch.drop_remainder), "false", 0, 0, NULL,
     "leave out the last batch if it is not full"},
    {0},
};

const struct op_decl op_ragged_batch = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "ragged_batch",
            .doc = "Combines elements of different shapes into batches without filling anything up: the values of all "
                   "elements one after the other, and row splits that say where each element begins, as "
                   "tf.RaggedTensor and torch.nested take them. If a dimension other than the first varies, as in "
                   "images of different sizes, all values of an element are one row, and the field NAME_shape has the "
                   "shape of each element.",
            .example = "folder photos/ | decode image | ragged_batch 16",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .run = run,
        },
    .kind = PST_OP_BATCHING,
    .order = order,
    .cut = CUT_GATHER,
};
