/* op_stack.c: `stack`: several fields of numbers as one vector, such as the columns of a table as the features of a model. */
#include "base/cast.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct config {
    pst_strings fields;
    const char *name;
    int dtype; /* of `choices` */
    /* Noted by the plan: */
    size_t count, from[PST_MAX_FIELDS], values[PST_MAX_FIELDS]; /* input fields in order, and how many values each has */
    size_t to;                                                  /* the field of the result */
};

static const char *const choices[] = {"auto", "u8", "i32", "i64", "f16", "bf16", "f32", "f64", NULL};
static const pst_dtype targets[] = {PST_DTYPE_NONE, PST_DTYPE_U8,   PST_DTYPE_I32, PST_DTYPE_I64,
                                    PST_DTYPE_F16,  PST_DTYPE_BF16, PST_DTYPE_F32, PST_DTYPE_F64};

/* One type for all: their own where they agree, float64 where one of them has it, otherwise float32. */
static pst_dtype common_type(pst_dtype a, pst_dtype b)
{
    if (a == PST_DTYPE_NONE || a == b)
        return b;
    return a == PST_DTYPE_F64 || b == PST_DTYPE_F64 ? PST_DTYPE_F64 : PST_DTYPE_F32;
}

static pst_status note_field(struct config *c, const pst_spec *in, const char *name, pst_dtype *type, uint64_t *length,
                             pst_error *reterr)
{
    size_t number, values = 1;
    pst_status st = field_find(in, name, &number, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[number];
    if (f->dtype == PST_DTYPE_BYTES)
        return pst_fail(reterr, PST_ETYPE, "field %s has bytes; expected numbers", name);
    for (size_t i = 0; i < c->count; i++)
        if (c->from[i] == number)
            return pst_fail(reterr, PST_EINVAL, "field %s is stacked twice", name);
    for (uint32_t i = 0; i < f->rank; i++)
        if (f->shape[i] == PST_ANY || __builtin_mul_overflow(values, (size_t)f->shape[i], &values))
            return pst_fail(reterr, PST_ETYPE, "field %s varies in shape; a vector has a fixed number of values", name);
    if (__builtin_add_overflow(*length, values, length))
        return pst_fail(reterr, PST_ELIMIT, "field %s makes the vector too long", name);
    *type = common_type(*type, f->dtype);
    c->from[c->count] = number;
    c->values[c->count++] = values;
    return PST_OK;
}

static bool is_stacked(const struct config *c, size_t field)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->from[i] == field)
            return true;
    return false;
}

/* The vector takes the place of the first field that goes into it. */
static pst_status place_fields(struct config *c, const pst_spec *in, const pst_field *vector, pst_spec *ret_out,
                               pst_error *reterr)
{
    bool placed = false;
    pst_status st = PST_OK;
    for (size_t i = 0; i < in->count && st == PST_OK; i++) {
        if (!is_stacked(c, i)) {
            if (strcmp(in->field[i].name, vector->name) == 0)
                return pst_fail(reterr, PST_EINVAL, "there is a field %s already; choose another name (name=)", vector->name);
            st = pst_spec_keep(ret_out, in, i, reterr);
            continue;
        }
        pst_spec_read(ret_out, i);
        if (placed)
            continue;
        c->to = ret_out->count;
        placed = true;
        st = pst_spec_add(ret_out, vector, reterr);
    }
    return st;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_dtype type = PST_DTYPE_NONE;
    pst_field vector = {.rank = 1, .alias = -1};
    c->count = 0; /* a chain may be planned again */
    if (!c->name[0] || strlen(c->name) >= PST_NAME_SIZE)
        return pst_fail(reterr, PST_EINVAL, "the name of the vector has %zu bytes; expected 1 to %d", strlen(c->name),
                        PST_NAME_SIZE - 1);
    for (size_t i = 0; i < c->fields.count; i++) {
        pst_status st = note_field(c, in, c->fields.value[i], &type, &vector.shape[0], reterr);
        if (st < 0)
            return st;
    }
    snprintf(vector.name, sizeof(vector.name), "%s", c->name);
    vector.dtype = c->dtype ? targets[c->dtype] : type;
    return place_fields(c, in, &vector, ret_out, reterr);
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    pst_tensor *vector = &out[c->to];
    uint8_t *to = vector->data;
    (void)worker, (void)ctx, (void)reterr;
    for (size_t i = 0; i < c->count; i++) {
        const pst_tensor *from = &in[c->from[i]];
        cast_values(to, vector->dtype, from->data, from->dtype, c->values[i]);
        to += c->values[i] * pst_dtype_size(vector->dtype);
    }
    return PST_OK;
}

static const pst_param params[] = {
    {"fields", PST_PARAM_STRINGS, offsetof(struct config, fields), NULL, 0, 0, NULL,
     "names of the fields, in the order of their values in the vector"},
    {"name", PST_PARAM_STRING, offsetof(struct config, name), "features", 0, 0, NULL, "the name of the vector"},
    {"dtype", PST_PARAM_CHOICE, offsetof(struct config, dtype), "auto", 0, 0, choices,
     "type of the vector; auto: the type of the fields, or float32 if they differ (float64 if one of them "
     "is float64)"},
    {0},
};

const struct op_decl op_stack = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "stack",
            .doc = "Combines several fields of numbers, such as the columns of a table, into one vector. A single "
                   "number adds one value, an array of fixed shape adds all of its values. The vector takes the place "
                   "of the first of the fields; the fields themselves are removed.",
            .example = "tfrecord table/ | example | stack age height weight name=features | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_CONVERTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
};
