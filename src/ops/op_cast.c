/* op_cast.c: `cast`: a field in another type. Whether the cast of an image joins its other operations is image_program.c's. */
#include "ops/cast.h"
#include "ops/fields.h"
#include "ops/op_table.h"

static const char *const choices[] = {"u8", "i32", "i64", "f16", "bf16", "f32", "f64", NULL};

pst_dtype cast_target(int choice)
{
    static const pst_dtype targets[] = {PST_DTYPE_U8,   PST_DTYPE_I32, PST_DTYPE_I64, PST_DTYPE_F16,
                                        PST_DTYPE_BF16, PST_DTYPE_F32, PST_DTYPE_F64};
    return targets[choice];
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct cast_config *c = config;
    pst_status st = field_find(in, c->field, &c->number, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[c->number];
    if (f->dtype == PST_DTYPE_BYTES)
        return pst_fail(reterr, PST_ETYPE, "field %s has bytes; expected numbers (of an encoded image: decode it first)",
                        f->name);
    pst_spec_pass(in, ret_out);
    if (f->dtype == cast_target(c->to))
        return PST_OK;
    ret_out->field[c->number].dtype = cast_target(c->to);
    ret_out->field[c->number].alias = -1;
    ret_out->reads = UINT64_C(1) << c->number;
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct cast_config *c = config;
    const pst_tensor *from = &in[c->number];
    pst_tensor *to = &out[c->number];
    (void)worker;
    pst_status st = field_prepare(ctx, to, from->rank, from->shape, reterr);
    if (st == PST_OK)
        cast_values(to->data, to->dtype, from->data, from->dtype, tensor_values(from));
    return st;
}

static const pst_param params[] = {
    {"dtype", PST_PARAM_CHOICE, offsetof(struct cast_config, to), NULL, 0, 0, choices, "the type to have afterwards"},
    {"field", PST_PARAM_STRING, offsetof(struct cast_config, field), "image", 0, 0, NULL, "the field to convert"},
    {0},
};

const pst_op_class op_cast = {
    .abi = PST_OP_ABI,
    .name = "cast",
    .doc = "Converts a field of numbers to another type; values stay what they are, nothing is scaled. To integers it "
           "rounds to the nearest (ties to even) and holds values beyond the range at its limits; NaN becomes 0. To "
           "floating point it rounds correctly, and values beyond the range become infinite.",
    .example = "npy image.npy label.npy | cast f16 | batch 64",
    .params = params,
    .config_size = sizeof(struct cast_config),
    .plan = plan,
    .run = run,
};
