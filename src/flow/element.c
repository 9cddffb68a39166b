/* element.c: sizes of tensors, and elements packed into one block.
 *
 * A block holds its fields one after the other: the shape where the field's varies, then the values, then for bytes what
 * they point to. Sizes come from operations that may be the user's: every product and sum is checked. */
#include "flow/element.h"

#include "base/cast.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALIGNMENT ((size_t)16)

size_t shape_bytes(pst_dtype dtype, uint32_t rank, const uint64_t *shape)
{
    size_t total = pst_dtype_size(dtype);
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(total, shape[i], &total))
            return SIZE_MAX;
    return total;
}

size_t payload_bytes(const pst_tensor *t, size_t own)
{
    if (t->dtype != PST_DTYPE_BYTES)
        return 0;
    const pst_bytes *values = t->data;
    size_t total = 0;
    for (size_t i = 0; i < own / sizeof(*values); i++)
        if (__builtin_add_overflow(total, values[i].length, &total))
            return SIZE_MAX;
    return total;
}

size_t tensor_bytes(const pst_tensor *t)
{
    size_t own = shape_bytes(t->dtype, t->rank, t->shape), total;
    if (own == SIZE_MAX || __builtin_add_overflow(own, payload_bytes(t, own), &total))
        return SIZE_MAX;
    return total;
}

uint64_t tensor_length(const pst_tensor *t)
{
    int64_t value = 0;
    if (t->rank > 0)
        return t->shape[0];
    if (t->dtype == PST_DTYPE_BYTES)
        return ((const pst_bytes *)t->data)->length;
    cast_values(&value, PST_DTYPE_I64, t->data, t->dtype, 1);
    return value > 0 ? (uint64_t)value : 0;
}

char *shape_text(uint32_t rank, const uint64_t *shape, char *buffer, size_t size)
{
    size_t n = (size_t)snprintf(buffer, size, "[");
    for (uint32_t i = 0; i < rank && n < size; i++) {
        const char *comma = i ? "," : "";
        n += (size_t)(shape[i] == PST_ANY ? snprintf(buffer + n, size - n, "%s?", comma)
                                          : snprintf(buffer + n, size - n, "%s%" PRIu64, comma, shape[i]));
    }
    if (n < size)
        snprintf(buffer + n, size - n, "]");
    return buffer;
}

pst_tensor field_tensor(const pst_field *f)
{
    pst_tensor t = {.dtype = f->dtype, .rank = f->rank};
    memcpy(t.shape, f->shape, sizeof(t.shape));
    return t;
}

pst_status tensor_refuse(const pst_field *planned, const pst_tensor *found, pst_error *reterr)
{
    char a[SHAPE_TEXT_SIZE], b[SHAPE_TEXT_SIZE];
    uint32_t rank = found->rank < PST_MAX_RANK ? found->rank : PST_MAX_RANK;
    bool other = found->dtype != planned->dtype;
    if (!other && !found->data && found->rank == planned->rank)
        return pst_fail(reterr, PST_ETYPE, "field \"%s\" came without data", planned->name);
    return pst_fail(reterr, PST_ETYPE, "field \"%s\" was planned as %s%s%s and came as %s%s%s", planned->name,
                    other ? pst_dtype_name(planned->dtype) : "", other ? " " : "",
                    shape_text(planned->rank, planned->shape, a, sizeof(a)), other ? pst_dtype_name(found->dtype) : "",
                    other ? " " : "", shape_text(rank, found->shape, b, sizeof(b)));
}

static size_t shape_header(const pst_field *f)
{
    return field_is_fixed(f) ? 0 : f->rank * sizeof(uint64_t);
}

static size_t align_up(size_t n)
{
    return (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

size_t element_size(const pst_spec *spec, const struct field_list *fields, const pst_tensor *tensors)
{
    size_t total = 0;
    for (size_t k = 0; k < fields->count; k++) {
        size_t i = fields->number[k];
        size_t bytes = tensor_bytes(&tensors[i]);
        if (bytes > SIZE_MAX / 2 - total)
            return SIZE_MAX;
        total = align_up(total) + align_up(shape_header(&spec->field[i])) + bytes;
    }
    return total;
}

/* Returns where the values of a field begin when the field before it ended at `at`. */
static uint8_t *values_at(uint8_t *at, const pst_field *f)
{
    size_t misaligned = (uintptr_t)at % ALIGNMENT;
    uint8_t *begin = misaligned ? at + ALIGNMENT - misaligned : at;
    size_t header = shape_header(f);
    return header ? begin + align_up(header) : begin;
}

static uint8_t *pack_payloads(uint8_t *to, pst_bytes *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].length)
            memcpy(to, values[i].data, values[i].length);
        values[i].data = to;
        to += values[i].length;
    }
    return to;
}

void element_pack(void *block, const pst_spec *spec, const struct field_list *fields, const pst_tensor *tensors)
{
    uint8_t *at = block;
    for (size_t k = 0; k < fields->count; k++) {
        size_t i = fields->number[k];
        const pst_field *f = &spec->field[i];
        uint8_t *values = values_at(at, f);
        size_t header = shape_header(f), own = shape_bytes(f->dtype, f->rank, tensors[i].shape);
        if (header)
            memcpy(values - align_up(header), tensors[i].shape, header);
        if (own > 0 && own < SIZE_MAX) /* more than there can be was refused with the size */
            memcpy(values, tensors[i].data, own);
        at = values + own;
        if (f->dtype == PST_DTYPE_BYTES)
            at = pack_payloads(at, (pst_bytes *)(void *)values, own / sizeof(pst_bytes));
    }
}

void element_view(void *block, const pst_spec *spec, const struct field_list *fields, pst_tensor *tensors)
{
    uint8_t *at = block;
    for (size_t k = 0; k < fields->count; k++) {
        size_t i = fields->number[k];
        const pst_field *f = &spec->field[i];
        uint8_t *values = values_at(at, f);
        size_t header = shape_header(f);
        if (header)
            memcpy(tensors[i].shape, values - align_up(header), header);
        size_t own = shape_bytes(f->dtype, f->rank, tensors[i].shape);
        tensors[i].data = values;
        at = values + own;
        if (f->dtype == PST_DTYPE_BYTES)
            for (size_t v = 0; v < own / sizeof(pst_bytes); v++)
                at += ((const pst_bytes *)tensors[i].data)[v].length;
    }
}

pst_tensor element_field(void *block, const pst_spec *spec, const struct field_list *fields, size_t k)
{
    uint8_t *at = block;
    for (size_t n = 0;; n++) {
        const pst_field *f = &spec->field[fields->number[n]];
        pst_tensor t = field_tensor(f);
        uint8_t *values = values_at(at, f);
        size_t header = shape_header(f);
        if (header)
            memcpy(t.shape, values - align_up(header), header);
        size_t own = shape_bytes(f->dtype, f->rank, t.shape);
        t.data = values;
        if (n == k)
            return t;
        at = values + own + payload_bytes(&t, own);
    }
}
