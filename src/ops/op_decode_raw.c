/* op_decode_raw.c: `decode_raw`: bytes read as numbers, or numbers as another shape. */
#include "base/error.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct config {
    int dtype;
    const char *shape, *field;
    size_t number;
    pst_field to;
    size_t row; /* bytes of the result, or of one row if the first open dimension is 1 */
    bool open;
};

static const char *const choices[] = {"u8", "i32", "i64", "f16", "bf16", "f32", "f64", NULL};
static const pst_dtype targets[] = {PST_DTYPE_U8,   PST_DTYPE_I32, PST_DTYPE_I64, PST_DTYPE_F16,
                                    PST_DTYPE_BF16, PST_DTYPE_F32, PST_DTYPE_F64};

static const pst_param params[] = {
    {"dtype", PST_PARAM_CHOICE, offsetof(struct config, dtype), "u8", 0, 0, choices, "type of the numbers, little-endian"},
    {"shape", PST_PARAM_STRING, offsetof(struct config, shape), "?", 0, 0, NULL,
     "dimensions, as in 28x28x1; one of them may be ?, and empty is a single value"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field), "image", 0, 0, NULL, "the field"},
    {0},
};

static pst_status read_shape(struct config *c, pst_error *reterr)
{
    const char *at = c->shape;
    c->to.rank = 0;
    c->open = false;
    c->row = pst_dtype_size(c->to.dtype);
    for (bool more = *at; more; at++) {
        uint64_t n = 0;
        bool any = *at == '?', fits = c->to.rank < PST_MAX_RANK && (any ? !c->open : *at >= '0' && *at <= '9');
        for (at += any; !any && fits && *at >= '0' && *at <= '9'; at++)
            fits = !__builtin_mul_overflow(n, 10, &n) && !__builtin_add_overflow(n, (uint64_t)(*at - '0'), &n);
        if (!fits || (*at && *at != 'x') || (!any && __builtin_mul_overflow(c->row, (size_t)n, &c->row)))
            return pst_fail(reterr, PST_EINVAL,
                            "shape=%.60s: expected up to %d dimensions as in 28x28x1, of which one may be ?", c->shape,
                            PST_MAX_RANK);
        c->open |= any;
        c->to.shape[c->to.rank++] = any ? PST_ANY : n;
        more = *at == 'x';
        if (!more && !*at)
            break;
    }
    return c->open && c->row == 0
               ? pst_fail(reterr, PST_EINVAL, "shape=%.60s: a dimension is 0, so that ? could be any number", c->shape)
               : PST_OK;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    c->to = (pst_field){.dtype = targets[c->dtype]};
    pst_status st = read_shape(c, reterr);
    if (st == PST_OK)
        st = field_find(in, c->field, &c->number, reterr);
    if (st < 0)
        return st;
    const pst_field *from = &in->field[c->number];
    if (from->dtype == PST_DTYPE_BYTES && from->rank > 0)
        return pst_fail(reterr, PST_ETYPE, "field %s is a list of bytes; expected a single one, or numbers", c->field);
    pst_spec_pass(in, ret_out);
    pst_spec_read(ret_out, c->number);
    pst_field *to = pst_spec_write(ret_out, c->number);
    to->dtype = c->to.dtype;
    to->rank = c->to.rank;
    memcpy(to->shape, c->to.shape, sizeof(to->shape));
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    const pst_tensor *from = &in[c->number];
    uint64_t shape[PST_MAX_RANK];
    (void)worker;
    bool bytes = from->dtype == PST_DTYPE_BYTES;
    const void *data = bytes ? ((const pst_bytes *)from->data)->data : from->data;
    size_t have = bytes ? ((const pst_bytes *)from->data)->length : tensor_values(from) * pst_dtype_size(from->dtype);
    if (c->open ? have % c->row != 0 : have != c->row)
        return pst_fail(reterr, PST_ETYPE, "field %s has %zu bytes; expected %s%zu for %s of shape %s", c->field, have,
                        c->open ? "a multiple of " : "", c->row, pst_dtype_name(c->to.dtype), c->shape);
    for (uint32_t d = 0; d < c->to.rank; d++)
        shape[d] = c->to.shape[d] == PST_ANY ? have / c->row : c->to.shape[d];
    pst_status st = field_prepare(ctx, &out[c->number], c->to.rank, shape, reterr);
    if (st == PST_OK && have)
        memcpy(out[c->number].data, data, have); /* copied: the bytes may lie unaligned */
    return st;
}

const struct op_decl op_decode_raw = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "decode_raw",
            .doc = "Reads bytes as numbers, as tf.io.decode_raw does, or the bytes of numbers as another type and shape.",
            .example = "tfrecord shards/ | example | decode_raw u8 ? image | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CONVERTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .cause = PST_CAUSE_VALUE,
};
