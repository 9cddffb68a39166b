/* op_one_hot.c: `one_hot`: class numbers as vectors. */
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <string.h>

struct config {
    uint64_t classes;
    const char *field;
    size_t number; /* of the field; noted by the plan */
};

static bool is_integer(pst_dtype dtype)
{
    return dtype == PST_DTYPE_U8 || dtype == PST_DTYPE_I32 || dtype == PST_DTYPE_I64;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_status st = field_find(in, c->field, &c->number, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[c->number];
    if (!is_integer(f->dtype))
        return pst_fail(reterr, PST_ETYPE, "field %s has %s; expected class numbers: uint8, int32 or int64", f->name,
                        pst_dtype_name(f->dtype));
    if (f->rank == PST_MAX_RANK)
        return pst_fail(reterr, PST_ETYPE, "field %s has %d dimensions already, one_hot would add another", f->name,
                        PST_MAX_RANK);
    pst_spec_pass(in, ret_out);
    pst_spec_read(ret_out, c->number);
    pst_field *out = pst_spec_write(ret_out, c->number);
    out->dtype = PST_DTYPE_F32;
    out->shape[out->rank++] = c->classes;
    return PST_OK;
}

static int64_t value_at(const pst_tensor *t, size_t i)
{
    if (t->dtype == PST_DTYPE_U8)
        return ((const uint8_t *)t->data)[i];
    return t->dtype == PST_DTYPE_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    const pst_tensor *labels = &in[c->number];
    pst_tensor *to = &out[c->number];
    uint64_t shape[PST_MAX_RANK] = {0};
    size_t count = tensor_values(labels);
    (void)worker;
    memcpy(shape, labels->shape, labels->rank * sizeof(*shape));
    shape[labels->rank] = c->classes;
    pst_status st = field_prepare(ctx, to, labels->rank + 1, shape, reterr);
    if (st < 0)
        return st;
    float *row = to->data;
    memset(row, 0, count * c->classes * sizeof(*row));
    for (size_t i = 0; i < count; i++, row += c->classes) {
        int64_t label = value_at(labels, i);
        if (label < 0 || (uint64_t)label >= c->classes)
            return pst_fail(reterr, PST_ETYPE,
                            "%s is %" PRId64 "; expected a class from 0 to %" PRIu64 " (classes=%" PRIu64 ")", c->field, label,
                            c->classes - 1, c->classes);
        row[label] = 1;
    }
    return PST_OK;
}

static const pst_param params[] = {
    {"classes", PST_PARAM_UINT, offsetof(struct config, classes), NULL, 1, 16777216, NULL, "number of classes"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field), "label", 0, 0, NULL, "the field with the class numbers"},
    {0},
};

const struct op_decl op_one_hot = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "one_hot",
            .doc = "Converts class numbers to float32 vectors that are 1 at the class and 0 elsewhere. The field gets "
                   "one more dimension. If a number is not a class, that element is an error.",
            .example = "tfrecord shards/ | example | one_hot 10 | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CONVERTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
};
