/* op_example.c: `example`: the features of a serialized tf.train.Example as fields.
 *
 * The features stand first in the output, then the other fields of the input; the record itself is gone. A feature of fixed
 * shape is copied into its place, any other is a view into the record, or into the parser's memory, until the next element. */
#include "base/error.h"
#include "base/memory.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

struct config {
    const char *schema; /* "": to be inferred before the plan */
    const char *field;  /* which one holds the serialized Examples */
    size_t records;     /* that the schema was inferred from; 0: it was given */
    const bool *needed; /* features that are used, by number; NULL: all */
    size_t number;      /* of the field; noted by the plan */
};

static const pst_dtype dtypes[] = {[PST_BYTES] = PST_DTYPE_BYTES, [PST_FLOAT] = PST_DTYPE_F32, [PST_INT64] = PST_DTYPE_I64};

/* ---- Planning ---- */

static pst_status plan_feature(const pst_feature *feature, pst_field *ret, pst_error *reterr)
{
    uint32_t outer = feature->layout != PST_FIXED;
    *ret = (pst_field){.dtype = dtypes[feature->kind], .rank = outer + (uint32_t)feature->rank, .alias = -1};
    if (strlen(feature->name) >= PST_NAME_SIZE)
        return pst_fail(reterr, PST_EUNSUPPORTED, "feature %.64s…: a field's name has at most %d bytes", feature->name,
                        PST_NAME_SIZE - 1);
    if (ret->rank > PST_MAX_RANK)
        return pst_fail(reterr, PST_EUNSUPPORTED, "feature %s: a field has at most %d dimensions", feature->name, PST_MAX_RANK);
    strcpy(ret->name, feature->name);
    if (outer)
        ret->shape[0] = PST_ANY;
    memcpy(ret->shape + outer, feature->shape, feature->rank * sizeof(*feature->shape));
    return PST_OK;
}

static pst_status plan_fields(const struct config *c, const pst_schema *schema, const pst_spec *in, pst_spec *ret_out,
                              pst_error *reterr)
{
    size_t count = pst_schema_count(schema);
    if (count == 0)
        return pst_fail(reterr, PST_EINVAL, "the schema has no features");
    if (count + in->count - 1 > PST_MAX_FIELDS)
        return pst_fail(reterr, PST_ELIMIT,
                        "%zu features, an element has at most %d fields; name those that you need: schema=\"…\"", count,
                        PST_MAX_FIELDS);
    pst_field field;
    pst_status st = PST_OK;
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        st = plan_feature(pst_schema_feature(schema, i), &field, reterr);
        if (st == PST_OK)
            st = pst_spec_add(ret_out, &field, reterr);
    }
    for (size_t i = 0; i < in->count && st == PST_OK; i++) {
        if (i == c->number)
            continue;
        if (pst_spec_find(ret_out, in->field[i].name) >= 0)
            return pst_fail(reterr, PST_EINVAL, "feature %s: there is a field of that name already; drop or rename it first",
                            in->field[i].name);
        st = pst_spec_keep(ret_out, in, i, reterr);
    }
    pst_spec_read(ret_out, c->number);
    return st;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_schema *schema = NULL;
    pst_parser *parser = NULL;
    pst_status st = field_find(in, c->field, &c->number, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[c->number];
    if (f->dtype != PST_DTYPE_BYTES || f->rank != 0)
        return pst_fail(reterr, PST_ETYPE, "field %s has %s of %" PRIu32 " dimensions; expected a serialized Example: bytes",
                        f->name, pst_dtype_name(f->dtype), f->rank);
    if (c->schema[0] == '\0')
        return pst_fail(reterr, PST_EINVAL,
                        "there are no records to infer a schema from; give one, as in schema=\"image:bytes label:int64\"");
    st = pst_schema_parse(&schema, c->schema, reterr);
    if (st == PST_OK)
        st = pst_parser_create(&parser, schema, NULL, reterr); /* finds what no parser can do */
    if (st == PST_OK)
        st = plan_fields(c, schema, in, ret_out, reterr);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
    return st;
}

static void need(void *config, const bool *fields)
{
    ((struct config *)config)->needed = fields;
}

/* ---- Inferring ---- */

static const char *missing(const void *config)
{
    const struct config *c = config;
    return c->schema[0] == '\0' ? c->field : NULL;
}

/* mem_free; NULL: out of memory. */
static char *schema_text(const pst_schema *schema)
{
    static const char cut[] = " \xe2\x80\xa6";
    for (size_t size = 1024;; size *= 2) {
        char *text = mem_alloc(size);
        if (!text)
            return NULL;
        size_t length = strlen(pst_schema_text(schema, text, size));
        if (length < sizeof(cut) || strcmp(text + length - (sizeof(cut) - 1), cut) != 0)
            return text;
        mem_free(text);
    }
}

static pst_status keep_schema(struct config *c, struct arena *strings, const pst_schema *schema, size_t records,
                              pst_error *reterr)
{
    if (pst_schema_count(schema) == 0)
        return pst_fail(reterr, PST_EINVAL, "no schema can be inferred: the Examples have no features");
    char *text = schema_text(schema);
    const char *kept = text ? arena_strndup(strings, text, SIZE_MAX) : NULL;
    mem_free(text);
    if (!kept)
        return fail_memory(reterr, "inferring a schema");
    c->schema = kept;
    c->records = records;
    return PST_OK;
}

static pst_status infer(void *config, struct arena *strings, const pst_bytes *records, size_t count, pst_error *reterr)
{
    pst_inference *inference = NULL;
    pst_schema *schema = NULL;
    size_t added = 0;
    pst_status st = pst_inference_create(&inference, NULL, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        st = pst_inference_add(inference, records[i].data, records[i].length, reterr);
        added += st == PST_OK;
        if (st == PST_ECORRUPT && (added > 0 || i + 1 < count))
            st = PST_OK; /* one damaged record costs one record: the run will judge it */
    }
    if (st == PST_OK)
        st = pst_inference_schema(inference, &schema, reterr);
    if (st == PST_OK)
        st = keep_schema(config, strings, schema, added, reterr);
    pst_schema_destroy(schema);
    pst_inference_destroy(inference);
    return st;
}

/* ---- Running ---- */

struct slot {
    size_t field;
    bool varies;
    size_t bytes;        /* of the fixed shape */
    size_t value, inner; /* bytes of a value; values of an inner row */
};

struct worker {
    pst_parser *parser;
    size_t count; /* features that somebody looks at */
    struct slot *slots;
    pst_value *values;
};

static struct slot slot_of(const pst_feature *feature, size_t field)
{
    struct slot s = {.field = field, .varies = feature->layout != PST_FIXED, .inner = 1};
    for (size_t i = 0; i < feature->rank; i++)
        s.inner *= feature->shape[i];
    s.value = pst_dtype_size(dtypes[feature->kind]);
    s.bytes = s.inner * s.value;
    return s;
}

static pst_status start(const void *config, void *worker, pst_error *reterr)
{
    const struct config *c = config;
    struct worker *w = worker;
    pst_feature *wanted = NULL;
    pst_schema *schema = NULL, *narrowed = NULL;
    pst_status st = pst_schema_parse(&schema, c->schema, reterr);
    if (st == PST_OK) {
        size_t count = pst_schema_count(schema);
        wanted = mem_array(count, sizeof(*wanted));
        w->slots = mem_array(count, sizeof(*w->slots));
        w->values = mem_array(count, sizeof(*w->values));
        if (!wanted || !w->slots || !w->values)
            st = fail_memory(reterr, "allocating %zu features", count);
    }
    for (size_t i = 0; st == PST_OK && i < pst_schema_count(schema); i++) {
        if (c->needed && !c->needed[i])
            continue;
        wanted[w->count] = *pst_schema_feature(schema, i);
        w->slots[w->count] = slot_of(&wanted[w->count], i);
        w->count++;
    }
    if (st == PST_OK)
        st = pst_schema_create(&narrowed, wanted, w->count, reterr);
    if (st == PST_OK)
        st = pst_parser_create(&w->parser, narrowed, NULL, reterr);
    mem_free(wanted);
    pst_schema_destroy(narrowed);
    pst_schema_destroy(schema);
    return st;
}

static void stop(const void *config, void *worker)
{
    struct worker *w = worker;
    (void)config;
    w->parser = pst_parser_destroy(w->parser);
    mem_free(w->slots);
    mem_free(w->values);
    w->slots = NULL;
    w->values = NULL;
}

static pst_status fail_inferred(const struct config *c, pst_status st, pst_error *reterr)
{
    if (!reterr || c->records == 0 || (st != PST_ETYPE && st != PST_ENOTFOUND))
        return st;
    return pst_fail(reterr, st, "%s; the schema was inferred from %zu records: give schema=\"…\"", reterr->message, c->records);
}

/* Floats lie in the record as they come; everything else is aligned already. */
static pst_status view(pst_ctx *ctx, const struct slot *s, const pst_value *value, pst_tensor *out, pst_error *reterr)
{
    static const pst_bytes nothing;
    out->shape[0] = value->count / s->inner;
    out->data = value->count ? (void *)value->data : (void *)&nothing;
    if ((uintptr_t)out->data % alignof(float) == 0)
        return PST_OK;
    out->data = pst_scratch(ctx, value->count * s->value);
    if (!out->data)
        return fail_memory(reterr, "allocating %zu values", value->count);
    memcpy(out->data, value->data, value->count * s->value);
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    struct worker *w = worker;
    const pst_bytes *record = in[c->number].data;
    pst_status st = pst_parser_parse(w->parser, record->data, record->length, w->values, reterr);
    if (__builtin_expect(st != PST_OK, 0))
        return fail_inferred(c, st, reterr);
    for (size_t i = 0; i < w->count && st == PST_OK; i++) {
        const struct slot *s = &w->slots[i];
        if (s->varies)
            st = view(ctx, s, &w->values[i], &out[s->field], reterr);
        else if (s->bytes)
            memcpy(out[s->field].data, w->values[i].data, s->bytes);
    }
    return st;
}

static const pst_param params[] = {
    {"schema", PST_PARAM_STRING, offsetof(struct config, schema), "", 0, 0, NULL,
     "the features as \"image:bytes label:int64 x:float[32] tags:bytes[*] boxes:float[*,4] w:float=1.5\"; empty: inferred"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field), "record", 0, 0, NULL, "the field with the serialized Examples"},
    {0},
};

static const struct schema_facet inference = {.missing = missing, .infer = infer};

const struct op_decl op_example = {
    .op =
        {
            .abi = PST_OP_ABI,
            .name = "example",
            .doc = "Parses tf.train.Examples: every feature of the schema becomes a field of float32, int64 or bytes. A "
                   "feature with a shape must have exactly so many values; [*] takes any number, [*,4] any number of rows "
                   "of four. A feature that is missing takes its default (=1.5), is empty ([*]), or is an error of that "
                   "element. Features that nothing behind uses are not parsed. Without a schema one is inferred from "
                   "records spread over the source.",
            .example = "tfrecord shards/ | example \"image:bytes label:int64\" | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .worker_size = sizeof(struct worker),
            .plan = plan,
            .start = start,
            .run = run,
            .stop = stop,
        },
    .kind = PST_OP_SAMPLE,
    .need = need,
    .schema = &inference,
    .cause = PST_CAUSE_EXAMPLE,
};
