/* view.c: decode_raw: the same bytes, read as another type or shape. No Python is called. */
#include "callback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct view_config {
    const char *dtype, *shape, *field;
    struct callback *callback;
};

static const pst_param view_params[] = {
    {"dtype", PST_PARAM_STRING, offsetof(struct view_config, dtype), "", 0, 0, NULL, "type of the values"},
    {"shape", PST_PARAM_STRING, offsetof(struct view_config, shape), "", 0, 0, NULL, "its dimensions"},
    {"field", PST_PARAM_STRING, offsetof(struct view_config, field), "", 0, 0, NULL, "the field"},
    {0},
};

static pst_status view_plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct callback *c = ((struct view_config *)config)->callback;
    int number = pst_spec_find(in, c->field);
    if (number < 0)
        return pst_fail(reterr, PST_ENOTFOUND, "there is no field \"%s\"", c->field);
    const pst_field *from = &in->field[number];
    bool fixed = true;
    for (uint32_t d = 0; d < from->rank; d++)
        fixed = fixed && from->shape[d] != PST_ANY;
    if (!fixed || (from->dtype == PST_DTYPE_BYTES && from->rank > 0))
        return pst_fail(reterr, PST_ETYPE, "field \"%s\" must be bytes, or numbers of a fixed shape", c->field);
    pst_spec_pass(in, ret_out);
    pst_spec_read(ret_out, (size_t)number);
    pst_field *to = pst_spec_write(ret_out, (size_t)number);
    to->dtype = c->fields->dtype;
    to->rank = c->fields->rank;
    memcpy(to->shape, c->fields->shape, sizeof(to->shape));
    c->number = (size_t)number;
    return PST_OK;
}

static pst_status view_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                           pst_error *reterr)
{
    const struct callback *c = ((const struct view_config *)config)->callback;
    const pst_tensor *from = &in[c->number];
    pst_tensor *to = &out[c->number];
    const void *data = from->data;
    size_t have = values_bytes(from), unit = pst_dtype_size(to->dtype), row = unit;
    bool open = false;
    (void)worker;
    if (from->dtype == PST_DTYPE_BYTES) {
        const pst_bytes *bytes = from->data;
        data = bytes->data;
        have = bytes->length;
    }
    for (uint32_t d = 0; d < c->fields->rank; d++) {
        open = open || c->fields->shape[d] == PST_ANY;
        row *= c->fields->shape[d] == PST_ANY ? 1 : (size_t)c->fields->shape[d];
    }
    if (open ? row == 0 || have % row != 0 : have != row)
        return pst_fail(reterr, PST_ETYPE, "field \"%s\" has %zu bytes, expected %s%zu for %s of shape %s", c->field, have,
                        open ? "a multiple of " : "", row, c->dtype, c->shape);
    for (uint32_t d = 0; d < c->fields->rank; d++)
        to->shape[d] = c->fields->shape[d] == PST_ANY ? have / row : c->fields->shape[d];
    if (!to->data)
        to->data = pst_scratch(ctx, have ? have : 1); /* copied: the bytes may lie unaligned */
    if (!to->data)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for %zu bytes", have);
    if (have)
        memcpy(to->data, data, have);
    return PST_OK;
}

static const pst_op_class view_class = {
    .size = sizeof(pst_op_class),
    .name = "decode_raw",
    .doc = "Reads bytes as numbers, or numbers as another shape.",
    .example = "tfrecord shards/ | example | decode_raw",
    .params = view_params,
    .config_size = sizeof(struct view_config),
    .plan = view_plan,
    .run = view_run,
};

/* (field, dtype, shape, shape as text) */
pst_status callback_add_view(pst_pipeline *p, PyObject *arguments, struct callback **ret, pst_error *reterr)
{
    const char *field, *shape_text;
    PyObject *dtype, *shape;
    if (!PyTuple_Check(arguments) || !PyArg_ParseTuple(arguments, "sOOs", &field, &dtype, &shape, &shape_text))
        return PST_EINVAL;
    struct callback *c = calloc(1, sizeof(*c));
    if (!c)
        return pst_fail(reterr, PST_ENOMEM, "out of memory");
    *ret = c;
    c->fields = calloc(1, sizeof(*c->fields));
    if (!c->fields)
        return pst_fail(reterr, PST_ENOMEM, "out of memory");
    c->fields->dtype = dtype_of_name(dtype);
    if (c->fields->dtype == PST_DTYPE_NONE || !take_shape(shape, c->fields))
        return PST_EINVAL;
    int open = 0;
    for (uint32_t d = 0; d < c->fields->rank; d++)
        open += c->fields->shape[d] == PST_ANY;
    if (open > 1 || c->fields->dtype == PST_DTYPE_BYTES)
        return pst_fail(reterr, PST_EINVAL, "decode_raw: at most one dimension may be open, and the type is one of numbers");
    snprintf(c->field, sizeof(c->field), "%s", field);
    snprintf(c->dtype, sizeof(c->dtype), "%s", pst_dtype_name(c->fields->dtype));
    snprintf(c->shape, sizeof(c->shape), "%s", shape_text);
    struct view_config config = {.dtype = c->dtype, .shape = c->shape, .field = c->field, .callback = c};
    return pst_pipeline_add_op(p, &view_class, &config, reterr);
}
