/* op_expr.c: `expr`: a field computed from others. */
#include "base/cast.h"
#include "ops/expr_op.h"
#include "ops/fields.h"

#include <stdio.h>
#include <string.h>

static const char *const choices[] = {"auto", "u8", "i32", "i64", "f16", "bf16", "f32", "f64", NULL};
static const pst_dtype targets[] = {PST_DTYPE_NONE, PST_DTYPE_U8,   PST_DTYPE_I32, PST_DTYPE_I64,
                                    PST_DTYPE_F16,  PST_DTYPE_BF16, PST_DTYPE_F32, PST_DTYPE_F64};

static const pst_param params[] = {
    {"expr", PST_PARAM_STRING, offsetof(struct expr_config, expr), NULL, 0, 0, NULL, "the expression, as in \"image / 255\""},
    {"field", PST_PARAM_STRING, offsetof(struct expr_config, field), NULL, 0, 0, NULL,
     "name of the result; a field of that name is replaced"},
    {"dtype", PST_PARAM_CHOICE, offsetof(struct expr_config, dtype), "auto", 0, 0, choices,
     "type of the result; auto: i64 for whole numbers, u8 for true and false, otherwise f32"},
    {0},
};

static void note_read(void *user, size_t field)
{
    pst_spec_read(user, field);
}

static pst_status add_result(struct expr_config *c, const pst_spec *in, pst_spec *out, const pst_field *like, pst_error *reterr)
{
    int found = pst_spec_find(in, c->field);
    pst_field field = {.alias = -1};
    pst_status st = PST_OK;
    snprintf(field.name, sizeof(field.name), "%s", c->field);
    c->number = found >= 0 ? (size_t)found : in->count;
    if (found < 0)
        st = pst_spec_add(out, &field, reterr);
    if (st < 0)
        return st;
    pst_field *to = pst_spec_write(out, c->number);
    to->dtype = c->computed;
    to->rank = like ? like->rank : 0;
    if (like)
        memcpy(to->shape, like->shape, sizeof(to->shape));
    return PST_OK;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct expr_config *c = config;
    enum expr_type type;
    if (c->field[0] == '\0' || strlen(c->field) >= PST_NAME_SIZE)
        return pst_fail(reterr, PST_EINVAL, "a field's name has 1 to %d bytes; \"%.64s\" is not valid", PST_NAME_SIZE - 1,
                        c->field);
    pst_status st = expr_parse(&c->parsed, c->expr, reterr);
    if (st < 0)
        return st;
    pst_spec_pass(in, ret_out);
    st = expr_bind(&c->parsed, in, note_read, ret_out, &type, &c->shape, reterr);
    if (st < 0)
        return st;
    if (type == EXPR_BYTES)
        return pst_fail(reterr, PST_ETYPE, "the result is bytes; expected numbers (to copy a field, use rename)");
    c->computed = c->dtype                ? targets[c->dtype]
                  : type == EXPR_FLOAT    ? PST_DTYPE_F32
                  : type == EXPR_BOOL     ? PST_DTYPE_U8
                                          : PST_DTYPE_I64;
    return add_result(c, in, ret_out, c->shape == SIZE_MAX ? NULL : &in->field[c->shape], reterr);
}

union values {
    double f[EXPR_CHUNK];
    int64_t i[EXPR_CHUNK];
};

/* 1 for values that are not 0, as int64. */
static void make_truth(union values *v, bool real, size_t count)
{
    for (size_t k = 0; k < count; k++)
        v->i[k] = real ? v->f[k] != 0 : v->i[k] != 0;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct expr_config *c = config;
    const struct expr *e = &c->parsed;
    pst_tensor *to = &out[c->number];
    bool real = e->nodes[e->root].type == EXPR_FLOAT;
    const pst_tensor *like = c->shape == SIZE_MAX ? NULL : &in[c->shape];
    union values chunk;
    size_t values;
    (void)worker;
    pst_status st = expr_check(e, in, &values, reterr);
    if (st == PST_OK)
        st = field_prepare(ctx, to, like ? like->rank : 0, like ? like->shape : NULL, reterr);
    for (size_t at = 0; at < values && st == PST_OK; at += EXPR_CHUNK) {
        size_t count = values - at < EXPR_CHUNK ? values - at : EXPR_CHUNK;
        st = expr_compute(e, in, at, count, &chunk, reterr);
        if (c->truth)
            make_truth(&chunk, real, count);
        cast_values((uint8_t *)to->data + at * pst_dtype_size(to->dtype), to->dtype, &chunk,
                    real && !c->truth ? PST_DTYPE_F64 : PST_DTYPE_I64, count);
    }
    return st;
}

const struct op_decl op_expr = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "expr",
            .doc = "Computes a field from others with an expression: + - * / // % **, comparisons, and, or, not, `in (1, 2)`, `match "
                   "\"n0*\"` (with * ? [ ]), and the functions abs, sqrt, exp, log, floor, ceil, round, int, float, min, max, and over all "
                   "values of a field len, sum, mean, min, max, any, all. They mean what they mean in Python. An expression is computed "
                   "value by value; single values go with every value of a larger field. Write field names that are not plain names in "
                   "back quotes.",
            .example = "range 10 | expr \"value * 0.5 + 1\" half | batch 4",
            .params = params,
            .config_size = sizeof(struct expr_config),
            .plan = plan,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
};
