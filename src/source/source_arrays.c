/* source_arrays.c: `arrays`: arrays in the caller's memory, a row an element. Elements are views: nothing is copied before the
 * batch. */
#include "source/source.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES      16u /* places of the data that the fingerprint looks at… */
#define SAMPLE_BYTES ((size_t)4096)

static const pst_param params[] = {{0}};

struct arrays {
    pst_field *field;
    struct column {
        uint8_t *data;
        size_t row; /* bytes */
    } * column;
    size_t count;
    uint64_t rows, bytes, fingerprint;
};

/* Hashes a few rows of each field: it detects other data of the same shape, not every single change. */
static uint64_t sample_rows(const struct arrays *a, size_t f, uint64_t hash)
{
    uint64_t samples = a->rows < SAMPLES ? a->rows : SAMPLES;
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t row = samples > 1 ? i * ((a->rows - 1) / (samples - 1)) : 0;
        const uint8_t *data = a->column[f].data + row * a->column[f].row;
        size_t length = a->column[f].row;
        if (a->field[f].dtype == PST_DTYPE_BYTES) {
            for (size_t k = 0; k < length / sizeof(pst_bytes) && k < SAMPLES; k++) {
                const pst_bytes *b = (const pst_bytes *)(const void *)data + k;
                hash = hash_bytes(b->data, b->length < SAMPLE_BYTES ? b->length : SAMPLE_BYTES, hash_combine(hash, b->length));
            }
        } else {
            hash = hash_bytes(data, length < SAMPLE_BYTES ? length : SAMPLE_BYTES, hash);
        }
    }
    return hash;
}

static pst_status add_array(struct arrays *a, const char *name, const pst_tensor *t, const char *first, pst_error *reterr)
{
    size_t f = a->count, bytes = pst_dtype_size(t->dtype);
    pst_field *field = &a->field[f];
    if (!name || !*name || strlen(name) >= PST_NAME_SIZE ||
        pst_spec_find(&(pst_spec){.count = f, .field = a->field}, name) >= 0)
        return pst_fail(reterr, PST_EINVAL, "array %zu needs a name of 1 to %d bytes that no other has, not \"%.64s\"", f,
                        PST_NAME_SIZE - 1, name ? name : "");
    if (bytes == 0 || t->rank == 0 || t->rank > PST_MAX_RANK || t->row_splits)
        return pst_fail(reterr, PST_EINVAL, "array %s needs a type, 1 to %d dimensions and no row splits", name, PST_MAX_RANK);
    if (f > 0 && t->shape[0] != a->rows)
        return pst_fail(reterr, PST_EINVAL,
                        "array %s has %" PRIu64 " rows and %s has %" PRIu64 ": they must have the same number", name,
                        t->shape[0], first, a->rows);
    *field = (pst_field){.dtype = t->dtype, .rank = t->rank - 1, .alias = -1};
    memcpy(field->name, name, strlen(name));
    memcpy(field->shape, t->shape + 1, field->rank * sizeof(*field->shape));
    bool overflow = false;
    for (uint32_t d = 1; d < t->rank; d++)
        overflow |= __builtin_mul_overflow(bytes, t->shape[d], &bytes);
    size_t total;
    if (overflow || __builtin_mul_overflow(bytes, t->shape[0], &total) || (total > 0 && !t->data))
        return pst_fail(reterr, PST_EINVAL, "array %s has no data, or a shape that does not fit in memory", name);
    a->rows = t->shape[0];
    a->column[f].data = t->data;
    a->column[f].row = bytes;
    a->bytes += total;
    a->count++;
    uint64_t facts[] = {t->dtype, t->rank};
    a->fingerprint = hash_bytes(name, strlen(name), hash_bytes(facts, sizeof(facts), a->fingerprint));
    a->fingerprint = sample_rows(a, f, hash_bytes(t->shape, t->rank * sizeof(*t->shape), a->fingerprint));
    return PST_OK;
}

static void arrays_close(void *source)
{
    struct arrays *a = source;
    if (!a)
        return;
    mem_free(a->field);
    mem_free(a->column);
    mem_free(a);
}

static pst_status arrays_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct arrays_config *c = config;
    (void)env;
    if (c->count == 0 || c->count > PST_MAX_FIELDS)
        return pst_fail(reterr, PST_EINVAL, "%zu arrays, expected 1 to %d; the program hands them over, a text cannot",
                        c->count, PST_MAX_FIELDS);
    pst_status st = PST_OK;
    struct arrays *a = mem_zalloc(sizeof(*a));
    if (a) {
        a->field = mem_array(c->count, sizeof(*a->field));
        a->column = mem_array(c->count, sizeof(*a->column));
    }
    if (!a || !a->field || !a->column)
        st = fail_memory(reterr, "opening the arrays");
    for (size_t i = 0; st == PST_OK && i < c->count; i++)
        st = add_array(a, c->names[i], &c->arrays[i], c->names[0], reterr);
    if (st < 0) {
        arrays_close(a);
        return st;
    }
    *ret = a;
    return PST_OK;
}

static void arrays_spec(const void *source, pst_spec *ret)
{
    const struct arrays *a = source;
    *ret = (pst_spec){.count = a->count, .field = a->field};
}

static uint64_t arrays_count(const void *source)
{
    return ((const struct arrays *)source)->rows;
}

static uint64_t arrays_fingerprint(const void *source)
{
    return ((const struct arrays *)source)->fingerprint;
}

static void arrays_describe(const void *source, char *buffer, size_t size)
{
    const struct arrays *a = source;
    char bytes[32];
    snprintf(buffer, size, "%zu array%s in memory, %s", a->count, a->count == 1 ? "" : "s",
             text_bytes(a->bytes, bytes, sizeof(bytes)));
}

static pst_status arrays_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    const struct arrays *a = source;
    (void)worker, (void)ctx, (void)reterr;
    for (size_t f = 0; f < a->count; f++)
        out[f].data = a->column[f].data + index * a->column[f].row;
    return PST_OK;
}

static uint64_t arrays_bytes_of(const void *source, uint64_t index)
{
    const struct arrays *a = source;
    uint64_t bytes = 0;
    (void)index;
    for (size_t f = 0; f < a->count; f++)
        bytes += a->column[f].row;
    return bytes;
}

const struct source_class source_arrays = {
    .op = {.size = sizeof(pst_op_class),
           .name = "arrays",
           .doc = "Arrays in memory: one field per array, one element per row. They come from the program that builds "
                  "the pipeline, not from pipeline text.",
           .example = "arrays | shuffle | batch 64",
           .params = params,
           .config_size = sizeof(struct arrays_config)},
    .open = arrays_open,
    .close = arrays_close,
    .spec = arrays_spec,
    .count = arrays_count,
    .fingerprint = arrays_fingerprint,
    .describe = arrays_describe,
    .load = arrays_load,
    .bytes_of = arrays_bytes_of,
};
