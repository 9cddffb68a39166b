/* op_scale.c: `scale`: numbers times a factor plus an offset. */
#include "base/cast.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <math.h>

#define CHUNK 256

struct config {
    const char *field;
    double factor, offset;
    int dtype;
    size_t number;
};

static const char *const choices[] = {"f16", "bf16", "f32", "f64", NULL};
static const pst_dtype targets[] = {PST_DTYPE_F16, PST_DTYPE_BF16, PST_DTYPE_F32, PST_DTYPE_F64};

static const pst_param params[] = {
    {"factor", PST_PARAM_FLOAT, offsetof(struct config, factor), NULL, 0, 0, NULL, "multiplies every value"},
    {"offset", PST_PARAM_FLOAT, offsetof(struct config, offset), "0", 0, 0, NULL, "is added to every product"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field), "image", 0, 0, NULL, "the field"},
    {"dtype", PST_PARAM_CHOICE, offsetof(struct config, dtype), "f32", 0, 0, choices, "type of the result"},
    {0},
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_status st = field_find(in, c->field, &c->number, reterr);
    if (st < 0)
        return st;
    if (in->field[c->number].dtype == PST_DTYPE_BYTES)
        return pst_fail(reterr, PST_ETYPE, "field %s has bytes; expected numbers (try decode or decode_raw first)", c->field);
    pst_spec_pass(in, ret_out);
    pst_spec_read(ret_out, c->number);
    pst_spec_write(ret_out, c->number)->dtype = targets[c->dtype];
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    const pst_tensor *from = &in[c->number];
    pst_tensor *to = &out[c->number];
    double part[CHUNK];
    size_t values = tensor_values(from);
    (void)worker;
    pst_status st = field_prepare(ctx, to, from->rank, from->shape, reterr);
    for (size_t at = 0; at < values && st == PST_OK; at += CHUNK) {
        size_t count = values - at < CHUNK ? values - at : CHUNK;
        cast_values(part, PST_DTYPE_F64, (const uint8_t *)from->data + at * pst_dtype_size(from->dtype), from->dtype, count);
        for (size_t k = 0; k < count; k++)
            part[k] = part[k] * c->factor + c->offset;
        cast_values((uint8_t *)to->data + at * pst_dtype_size(to->dtype), to->dtype, part, PST_DTYPE_F64, count);
    }
    return st;
}

const struct op_decl op_scale = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "scale",
            .doc = "Multiplies the numbers of a field by a factor and adds an offset, as Keras' Rescaling does. Computed in float64, "
                   "rounded once.",
            .example = "npy x.npy | scale 0.5 offset=-1 field=x | batch 4",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CONVERTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
};
