/* op_cast.c: `cast`: a field in another type, be it an image or not. */
#include "base/cast.h"
#include "ops/fields.h"
#include "ops/image/image_op.h"

struct config {
    struct image_field field;
    int to; /* of `choices` */
};

static const char *const choices[] = {"u8", "i32", "i64", "f16", "bf16", "f32", "f64", NULL};

static pst_dtype target(const void *config)
{
    static const pst_dtype targets[] = {PST_DTYPE_U8,   PST_DTYPE_I32, PST_DTYPE_I64, PST_DTYPE_F16,
                                        PST_DTYPE_BF16, PST_DTYPE_F32, PST_DTYPE_F64};
    return targets[((const struct config *)config)->to];
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_status st = field_find(in, c->field.name, &c->field.number, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[c->field.number];
    if (f->dtype == PST_DTYPE_BYTES)
        return pst_fail(reterr, PST_ETYPE, "field %s has bytes; expected numbers (of an encoded image: decode it first)",
                        f->name);
    pst_spec_pass(in, ret_out);
    if (f->dtype == target(c))
        return PST_OK;
    pst_spec_read(ret_out, c->field.number);
    pst_spec_write(ret_out, c->field.number)->dtype = target(c);
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    const pst_tensor *from = &in[c->field.number];
    pst_tensor *to = &out[c->field.number];
    (void)worker;
    pst_status st = field_prepare(ctx, to, from->rank, from->shape, reterr);
    if (st == PST_OK)
        cast_values(to->data, to->dtype, from->data, from->dtype, tensor_values(from));
    return st;
}

static const pst_param params[] = {
    {"dtype", PST_PARAM_CHOICE, offsetof(struct config, to), NULL, 0, 0, choices, "the new type"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field to convert"},
    {0},
};

static const struct image_facet image = {.casts = target};

const struct op_decl op_cast = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "cast",
            .doc = "Converts a field of numbers to another type; values are not scaled. Conversion to integers rounds "
                   "to the nearest integer (ties to even) and clamps values outside the range; NaN becomes 0. "
                   "Conversion to floating point rounds correctly, and values outside the range become infinite.",
            .example = "npy image.npy label.npy | cast f16 | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CONVERTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
