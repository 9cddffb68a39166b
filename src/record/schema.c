/* schema.c: schemas made of declarations: checked, copied, found by name. Their text is schema_text.c's. */
#include "record/schema.h"

#include "base/error.h"
#include "base/memory.h"
#include "record/feature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

char *schema_spec(const pst_feature *feature, char buffer[static SCHEMA_SPEC_BYTES])
{
    bool open = feature->layout != PST_FIXED;
    size_t n = (size_t)snprintf(buffer, SCHEMA_SPEC_BYTES, "%s%s", pst_kind_name(feature->kind), open ? "[*" : "");
    for (size_t i = 0; i < feature->rank; i++)
        n += (size_t)snprintf(buffer + n, SCHEMA_SPEC_BYTES - n, "%s%" PRIu64, i || open ? "," : "[", feature->shape[i]);
    if (open || feature->rank > 0)
        snprintf(buffer + n, SCHEMA_SPEC_BYTES - n, "]");
    return buffer;
}

/* The default may be one value for all, one for each, or none at all: see pst_feature. */
static pst_status check_default(const pst_feature *f, uint64_t product, pst_error *reterr)
{
    const pst_value *d = &f->fallback;
    if (!f->has_default)
        return PST_OK;
    if (f->layout != PST_FIXED)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': only a fixed feature has a default; a missing [*] is an empty row",
                        f->name);
    if (d->kind != PST_KIND_NONE && d->kind != f->kind)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': the default is %s, the feature %s", f->name, pst_kind_name(d->kind),
                        pst_kind_name(f->kind));
    if (d->count > 1 && d->count != product)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': a default of %zu values; its shape takes 1 for all or %" PRIu64,
                        f->name, d->count, product);
    if (d->count > 0 && !d->data)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': the default's data is NULL", f->name);
    return PST_OK;
}

static pst_status check(const pst_feature *f, size_t number, uint64_t *ret_product, pst_error *reterr)
{
    uint64_t product = 1, bytes;
    if (!f->name)
        return pst_fail(reterr, PST_EINVAL, "feature %zu of the schema has no name", number);
    if (f->kind != PST_BYTES && f->kind != PST_FLOAT && f->kind != PST_INT64)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': invalid kind %d; expected bytes, float or int64", f->name,
                        (int)f->kind);
    if (f->layout != PST_FIXED && f->layout != PST_VARIABLE && f->layout != PST_RAGGED)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': invalid layout %d; expected fixed, variable or ragged", f->name,
                        (int)f->layout);
    if (f->rank > PST_MAX_RANK)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': %zu dimensions, at most %d are possible", f->name, f->rank,
                        PST_MAX_RANK);
    if (f->layout == PST_VARIABLE && f->rank > 0)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': a variable feature has no shape; ragged has an inner one", f->name);
    for (size_t i = 0; i < f->rank; i++) {
        if (f->shape[i] == 0 && f->layout == PST_RAGGED)
            return pst_fail(reterr, PST_EINVAL, "feature '%s': an inner dimension is 0", f->name);
        if (__builtin_mul_overflow(product, f->shape[i], &product))
            product = UINT64_MAX;
    }
    if (__builtin_mul_overflow(product, sizeof(pst_bytes), &bytes) || bytes > SIZE_MAX / 2)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': its shape has more values than memory could hold", f->name);
    *ret_product = product;
    return check_default(f, product, reterr);
}

/* Copies a default and the bytes it points to. */
static bool copy_default(struct arena *memory, pst_feature *f)
{
    pst_value *d = &f->fallback;
    size_t size = d->count * kind_size(f->kind);
    void *copy = arena_alloc(memory, size);
    if (!copy)
        return false;
    if (size > 0)
        memcpy(copy, d->data, size);
    pst_bytes *strings = f->kind == PST_BYTES ? copy : NULL;
    for (size_t i = 0; strings && i < d->count; i++) {
        uint8_t *bytes = arena_alloc(memory, strings[i].length);
        if (!bytes)
            return false;
        if (strings[i].length > 0)
            memcpy(bytes, strings[i].data, strings[i].length);
        strings[i].data = bytes;
    }
    *d = (pst_value){.kind = f->kind, .count = d->count, .data = copy};
    return true;
}

static pst_status add_feature(pst_schema *s, const pst_feature *feature, pst_error *reterr)
{
    pst_feature *f = &s->features[s->count];
    pst_status st = check(feature, s->count, &s->products[s->count], reterr);
    if (st < 0)
        return st;
    if (name_table_find(&s->names, feature->name, strlen(feature->name)) != NAME_NONE)
        return pst_fail(reterr, PST_EINVAL, "feature '%s' is declared twice", feature->name);
    if (name_table_add(&s->names, feature->name, strlen(feature->name)) < 0)
        return fail_memory(reterr, "allocating the schema");
    *f = *feature;
    if (f->layout == PST_RAGGED && f->rank == 0)
        f->layout = PST_VARIABLE; /* rows of single values */
    if (!f->has_default)
        f->fallback = (pst_value){0};
    else if (!copy_default(&s->memory, f))
        return fail_memory(reterr, "allocating the schema");
    s->count++;
    return PST_OK;
}

pst_status pst_schema_create(pst_schema **ret, const pst_feature *features, size_t count, pst_error *reterr)
{
    pst_status st = PST_OK;
    pst_schema *s = mem_zalloc(sizeof(*s));
    if (s) {
        arena_init(&s->memory);
        s->features = mem_array(count, sizeof(*s->features));
        s->products = mem_array(count, sizeof(*s->products));
    }
    if (!s || !s->features || !s->products)
        st = fail_memory(reterr, "allocating a schema of %zu features", count);
    for (size_t i = 0; i < count && st == PST_OK; i++)
        st = add_feature(s, &features[i], reterr);
    if (st < 0) {
        pst_schema_destroy(s);
        return st;
    }
    for (size_t i = 0; i < count; i++) /* only now do the names stay where they are */
        s->features[i].name = name_table_at(&s->names, i);
    *ret = s;
    return PST_OK;
}

size_t pst_schema_count(const pst_schema *schema)
{
    return schema->count;
}

const pst_feature *pst_schema_feature(const pst_schema *schema, size_t i)
{
    return i < schema->count ? &schema->features[i] : NULL;
}

int pst_schema_find(const pst_schema *schema, const char *name)
{
    size_t i = name_table_find(&schema->names, name, strlen(name));
    return i == NAME_NONE ? -1 : (int)i;
}

pst_schema *pst_schema_destroy(pst_schema *schema)
{
    if (!schema)
        return NULL;
    mem_free(schema->features);
    mem_free(schema->products);
    name_table_finish(&schema->names);
    arena_finish(&schema->memory);
    mem_free(schema);
    return NULL;
}
