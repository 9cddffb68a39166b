/* batch_pad.c: elements of varying shape as one tensor: every dimension that varies is filled up at its end.
 *
 * The shape is that of the largest element in every dimension, or what the rule asks for. What is added are numbers of one
 * value, or empty bytes. */
#include "flow/batch.h"

#include "base/cast.h"
#include "flow/element.h"
#include "ops/order_step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The values ---- */

static bool fits(pst_dtype dtype, double value)
{
    switch (dtype) {
    case PST_DTYPE_U8:
        return value >= 0 && value <= UINT8_MAX && floor(value) == value;
    case PST_DTYPE_I32:
        return value >= INT32_MIN && value <= INT32_MAX && floor(value) == value;
    case PST_DTYPE_I64:
        return fabs(value) <= 9007199254740992.0 && floor(value) == value;
    default:
        return true;
    }
}

/* "labels:-100,weights:1" */
static pst_status read_values(struct batch_layout *l, pst_error *reterr)
{
    const char *at = l->pad->values;
    while (at && *at) {
        char name[PST_NAME_SIZE], *end;
        size_t length = strcspn(at, ",");
        const char *colon = memrchr(at, ':', length);
        if (!colon || colon == at || (size_t)(colon - at) >= sizeof(name))
            return pst_fail(reterr, PST_EINVAL, "values: \"%.*s\" is not FIELD:NUMBER, as in labels:-100,weights:1",
                            (int)length, at);
        memcpy(name, at, (size_t)(colon - at));
        name[colon - at] = '\0';
        double value = strtod(colon + 1, &end);
        size_t i = name_index_find(&l->names, l->column[0].field.name, sizeof(*l->column), name);
        if (end == colon + 1 || end != at + length)
            return pst_fail(reterr, PST_EINVAL, "values: \"%.*s\" is not a number", (int)(at + length - colon - 1), colon + 1);
        if (i == NAME_INDEX_NONE)
            return pst_fail(reterr, PST_ENOTFOUND, "values: there is no field %s", name);
        l->column[i].fill = value;
        at += length + (at[length] == ',');
    }
    return PST_OK;
}

pst_status batch_pad_init(struct batch_layout *l, pst_error *reterr)
{
    for (size_t i = 0; i < l->fields; i++)
        l->column[i].fill = l->pad->value;
    pst_status st = read_values(l, reterr);
    if (st == PST_OK && l->pad->boundaries) {
        l->pad_column = name_index_find(&l->names, l->column[0].field.name, sizeof(*l->column), l->pad->field);
        if (l->pad_column == NAME_INDEX_NONE)
            return pst_fail(reterr, PST_EINVAL,
                            "field %s determines how far batches are filled up, and the batch does not have it", l->pad->field);
    }
    for (size_t i = 0; i < l->fields && st == PST_OK; i++) {
        const struct batch_column *c = &l->column[i];
        if (c->kind == COLUMN_PADDED && !fits(c->field.dtype, c->fill))
            st = pst_fail(reterr, PST_EINVAL, "%g does not fit field \"%s\" of type %s", c->fill, c->field.name,
                          pst_dtype_name(c->field.dtype));
    }
    return st;
}

/* ---- The shape ---- */

/* Returns the end of the bucket that the elements of the batch belong to; 0: they are beyond the last one. */
static uint64_t bucket_end(const pst_batch *b, const struct pad_rule *rule)
{
    const struct batch_column *c = &b->layout->column[b->layout->pad_column];
    pst_tensor first = field_tensor(&c->field);
    if (b->size == 0)
        return 0;
    first.data = c->kind == COLUMN_FIXED ? batch_slot(b, b->layout->pad_column, 0) : NULL;
    uint64_t length = tensor_length(c->kind == COLUMN_FIXED ? &first : &b->varying[b->layout->pad_column].elements[0]);
    for (size_t i = 0; i < rule->boundary_count; i++)
        if (length < rule->boundaries[i])
            return rule->boundaries[i] - 1;
    return 0;
}

static pst_status fail_long(const pst_batch *b, size_t field, uint64_t found, uint64_t allowed, pst_error *reterr)
{
    return pst_fail(reterr, PST_ETYPE,
                    "field \"%s\" has %" PRIu64 " rows here, more than the %" PRIu64 " that it is to be filled up to",
                    b->layout->column[field].field.name, found, allowed);
}

pst_status batch_pad_shape(const pst_batch *b, size_t field, uint64_t *ret_shape, size_t *ret_at, pst_error *reterr)
{
    const struct pad_rule *rule = b->layout->pad;
    const pst_field *f = &b->layout->column[field].field;
    const pst_tensor *e = b->varying[field].elements;
    for (uint32_t d = 0; d < f->rank; d++) {
        uint64_t most = 0, wanted = d == 0 ? rule->length : 0;
        size_t longest = 0;
        if (f->shape[d] != PST_ANY) {
            ret_shape[d] = f->shape[d];
            continue;
        }
        for (size_t i = 0; i < b->size; i++) {
            longest = e[i].shape[d] > most ? i : longest;
            most = e[i].shape[d] > most ? e[i].shape[d] : most;
        }
        if (d == 0 && rule->boundaries)
            wanted = bucket_end(b, rule);
        if (wanted && most > wanted) {
            *ret_at = longest;
            return fail_long(b, field, most, wanted, reterr);
        }
        most = wanted ? wanted : most;
        ret_shape[d] = rule->multiple > 1 && most % rule->multiple ? most + rule->multiple - most % rule->multiple : most;
    }
    return PST_OK;
}

/* ---- The data ---- */

static void fill(uint8_t *to, size_t count, size_t size, const uint8_t *value)
{
    if (size == 1) {
        memset(to, value[0], count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * size, value, size);
}

/* Copies an element into the beginning of every dimension of a larger one. */
static void copy_rows(uint8_t *to, const uint8_t *from, uint32_t rank, const uint64_t *have, const uint64_t *want, size_t size)
{
    if (rank == 0) {
        memcpy(to, from, size);
        return;
    }
    size_t inner = size, whole = size;
    for (uint32_t d = 1; d < rank; d++) {
        inner *= (size_t)have[d];
        whole *= (size_t)want[d];
    }
    if (inner == 0 || have[0] == 0)
        return;
    if (inner == whole) {
        memcpy(to, from, inner * (size_t)have[0]);
        return;
    }
    for (uint64_t i = 0; i < have[0]; i++)
        copy_rows(to + i * whole, from + i * inner, rank - 1, have + 1, want + 1, size);
}

void batch_pad_fill(const pst_batch *b, size_t field, const uint64_t *shape, void *to)
{
    const struct batch_column *c = &b->layout->column[field];
    const pst_tensor *e = b->varying[field].elements;
    size_t size = pst_dtype_size(c->field.dtype), values = shape_bytes(c->field.dtype, c->field.rank, shape) / size;
    _Alignas(pst_bytes) uint8_t value[sizeof(pst_bytes)] = {0};
    uint8_t *at = to;
    if (c->field.dtype == PST_DTYPE_BYTES)
        memcpy(value, &(pst_bytes){(const uint8_t *)"", 0}, sizeof(pst_bytes));
    else
        cast_values(value, c->field.dtype, &c->fill, PST_DTYPE_F64, 1);
    for (size_t i = 0; i < b->size; i++, at += values * size) {
        if (!shape_equal(c->field.rank, shape, e[i].shape))
            fill(at, values, size, value);
        copy_rows(at, e[i].data, c->field.rank, e[i].shape, shape, size);
    }
}
