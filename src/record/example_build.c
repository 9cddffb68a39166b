/* example_build.c: serialized Examples, written once.
 *
 * Every length is known before the first byte is written, so each feature goes straight to its place; the few bytes
 * that open the Example are put before them when all lengths are known. The bytes depend on the calls alone; what they
 * are is written in docs/example.md. */
#include <penstock/example.h>

#include "base/error.h"
#include "base/le.h"
#include "base/memory.h"
#include "base/text.h"
#include "record/name_table.h"
#include "base/wire.h"

#define OPENING ((size_t)6) /* the tag of `features` and its length, at most */

struct pst_builder {
    uint8_t *bytes; /* OPENING bytes kept free, then the entries of the map */
    size_t length, capacity;
    struct name_table names;
    bool any_names; /* also names that are not UTF-8 */
};

/* Opens a feature whose list will take `list` bytes: reserves the whole entry and writes all that comes before the
 * list. On PST_OK the caller writes the list to `*ret`, and nothing can fail any more. */
static pst_status open_feature(pst_builder *b, const char *name, pst_kind kind, size_t list, uint8_t **ret, pst_error *reterr)
{
    size_t name_length = name ? strlen(name) : 0;
    if (!name || (!b->any_names && !text_is_utf8(name, name_length)))
        return pst_fail(reterr, PST_EINVAL, "a feature's name is not UTF-8, as protobuf requires");
    if (name_table_find(&b->names, name, name_length) != NAME_NONE)
        return pst_fail(reterr, PST_EINVAL, "feature '%s' was added already", name);

    size_t feature = wire_field_size(list), entry = wire_field_size(name_length) + wire_field_size(feature),
           total = wire_field_size(entry);
    if (list > WIRE_MOST_BYTES || name_length > WIRE_MOST_BYTES || total > WIRE_MOST_BYTES - b->length)
        return pst_fail(reterr, PST_ELIMIT,
                        "feature '%s': the Example would have over %zu bytes, which no protobuf reader takes", name,
                        WIRE_MOST_BYTES);
    void *bytes = b->bytes;
    int failed = mem_grow(&bytes, &b->capacity, b->length + total, 1);
    b->bytes = bytes;
    if (failed || name_table_add(&b->names, name, name_length) < 0)
        return pst_fail(reterr, PST_ENOMEM, "feature '%s': out of memory for %zu bytes", name, total);

    uint8_t *p = wire_put_field(b->bytes + b->length, 1, entry);
    p = wire_put_field(p, 1, name_length);
    memcpy(p, name, name_length);
    p = wire_put_field(p + name_length, 2, feature);
    *ret = wire_put_field(p, (unsigned)kind, list); /* the oneof's field numbers are the kinds' */
    b->length += total;
    return PST_OK;
}

static pst_status check_values(const char *name, const void *values, size_t count, pst_error *reterr)
{
    if (count > 0 && !values)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': %zu values at NULL", name ? name : "", count);
    if (count > WIRE_MOST_BYTES)
        return pst_fail(reterr, PST_ELIMIT, "feature '%s': %zu values, more than an Example holds", name ? name : "", count);
    return PST_OK;
}

pst_status pst_builder_add_bytes(pst_builder *builder, const char *name, const pst_bytes *values, size_t count,
                                 pst_error *reterr)
{
    size_t list = 0;
    uint8_t *p = NULL;
    pst_status st = check_values(name, values, count, reterr);
    for (size_t i = 0; st == PST_OK && i < count && list <= WIRE_MOST_BYTES; i++)
        list = values[i].length > WIRE_MOST_BYTES ? SIZE_MAX : list + wire_field_size(values[i].length);
    if (st == PST_OK)
        st = open_feature(builder, name, PST_BYTES, list > WIRE_MOST_BYTES ? WIRE_MOST_BYTES + 1 : list, &p, reterr);
    for (size_t i = 0; st == PST_OK && i < count; i++) {
        p = wire_put_field(p, 1, values[i].length);
        if (values[i].length > 0)
            memcpy(p, values[i].data, values[i].length);
        p += values[i].length;
    }
    return st;
}

pst_status pst_builder_add_floats(pst_builder *builder, const char *name, const float *values, size_t count, pst_error *reterr)
{
    size_t packed = count * sizeof(float);
    uint8_t *p = NULL;
    pst_status st = check_values(name, values, count, reterr);
    if (st == PST_OK)
        st = open_feature(builder, name, PST_FLOAT, count ? wire_field_size(packed) : 0, &p, reterr);
    if (st == PST_OK && count > 0)
        memcpy(wire_put_field(p, 1, packed), values, packed);
    return st;
}

pst_status pst_builder_add_int64s(pst_builder *builder, const char *name, const int64_t *values, size_t count,
                                  pst_error *reterr)
{
    size_t packed = 0;
    uint8_t *p = NULL;
    pst_status st = check_values(name, values, count, reterr);
    for (size_t i = 0; st == PST_OK && i < count; i++)
        packed += wire_varint_size((uint64_t)values[i]);
    if (st == PST_OK)
        st = open_feature(builder, name, PST_INT64, count ? wire_field_size(packed) : 0, &p, reterr);
    if (st < 0 || count == 0)
        return st;
    p = wire_put_field(p, 1, packed);
    for (size_t i = 0; i < count; i++)
        p = wire_put_varint(p, (uint64_t)values[i]);
    return PST_OK;
}

pst_status pst_builder_finish(pst_builder *builder, pst_bytes *ret, pst_error *reterr)
{
    (void)reterr; /* what could fail has failed when features were added */
    size_t features = builder->length - OPENING, opening = 1 + wire_varint_size(features);
    uint8_t *start = builder->bytes + OPENING - opening;
    wire_put_field(start, 1, features);
    *ret = (pst_bytes){start, opening + features};
    return PST_OK;
}

void pst_builder_allow_any_names(pst_builder *b, bool any)
{
    b->any_names = any;
}

void pst_builder_reset(pst_builder *builder)
{
    builder->length = OPENING;
    name_table_clear(&builder->names);
}

pst_status pst_builder_create(pst_builder **ret, pst_error *reterr)
{
    pst_builder *builder = mem_zalloc(sizeof(*builder));
    if (builder) {
        builder->capacity = 256;
        builder->bytes = mem_alloc(builder->capacity);
    }
    if (!builder || !builder->bytes) {
        pst_builder_destroy(builder);
        return fail_memory(reterr, "allocating a builder");
    }
    pst_builder_reset(builder);
    *ret = builder;
    return PST_OK;
}

pst_builder *pst_builder_destroy(pst_builder *builder)
{
    if (!builder)
        return NULL;
    mem_free(builder->bytes);
    name_table_finish(&builder->names);
    mem_free(builder);
    return NULL;
}
