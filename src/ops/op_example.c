/* op_example.c: `example`: the features of a serialized tf.train.Example or SequenceExample as fields.
 *
 * The features stand first in the output, then the feature lists, then the other fields of the input; the record itself is
 * gone. A feature of fixed shape is copied into its place, any other is a view into the record, or into the parser's memory,
 * until the next element. */
#include "ops/example_op.h"

#include "base/error.h"
#include "base/memory.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

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

/* A row per step: an element's first dimension varies, and only that one can. */
static pst_status plan_list(const pst_feature *list, pst_field *ret, pst_error *reterr)
{
    pst_feature rows = *list;
    if (list->layout != PST_FIXED)
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "feature list %.64s: its steps have varying numbers of values, which no field can hold; name the lists "
                        "that you need, as in lists=\"x:float[2] y:int64\"",
                        list->name);
    for (uint32_t i = 0; i < list->rank; i++)
        if (list->shape[i] == 0)
            return pst_fail(reterr, PST_EINVAL, "feature list %.64s: a dimension is 0", list->name);
    rows.layout = PST_RAGGED;
    return plan_feature(&rows, ret, reterr);
}

static pst_status plan_fields(struct example_config *c, const pst_schema *schema, const pst_schema *lists, const pst_spec *in,
                              pst_spec *ret_out, pst_error *reterr)
{
    size_t features = pst_schema_count(schema), count = features + pst_schema_count(lists);
    c->features = count;
    if (count == 0)
        return pst_fail(reterr, PST_EINVAL, "the schema has no features");
    if (count + in->count - 1 > PST_MAX_FIELDS)
        return pst_fail(reterr, PST_ELIMIT,
                        "%zu features, an element has at most %d fields; name those that you need: schema=\"…\"", count,
                        PST_MAX_FIELDS);
    pst_field field;
    pst_status st = PST_OK;
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        st = i < features ? plan_feature(pst_schema_feature(schema, i), &field, reterr)
                          : plan_list(pst_schema_feature(lists, i - features), &field, reterr);
        if (st == PST_OK && i >= features && pst_schema_find(schema, field.name) >= 0)
            st = pst_fail(reterr, PST_EINVAL, "%s is a feature and a feature list; name the one that you need", field.name);
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
    struct example_config *c = config;
    pst_schema *schema = NULL, *lists = NULL;
    pst_sequence_parser *parser = NULL;
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
        st = pst_schema_parse(&lists, c->lists, reterr);
    if (st == PST_OK)
        st = pst_sequence_parser_create(&parser, schema, lists, NULL, reterr); /* finds what no parser can do */
    if (st == PST_OK)
        st = plan_fields(c, schema, lists, in, ret_out, reterr);
    pst_sequence_parser_destroy(parser);
    pst_schema_destroy(lists);
    pst_schema_destroy(schema);
    return st;
}

static void need(void *config, const bool *fields)
{
    ((struct example_config *)config)->needed = fields;
}

/* ---- Running ---- */

struct slot {
    size_t field;
    bool varies;
    size_t bytes;        /* of the fixed shape */
    size_t value, inner; /* bytes of a value; values of an inner row */
};

/* One of the two parsers is there: the one for SequenceExamples where a feature list is needed. */
struct worker {
    pst_parser *parser;
    pst_sequence_parser *sequence;
    size_t count, lists; /* features and feature lists that are needed; the lists come after the features */
    struct slot *slots;
    pst_value *values;
    pst_column *columns;
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

/* Those features of the schema `text` that are needed, with their slots from `slots` on. Their first field is `field`, which
 * moves past the last. */
static pst_status narrow(const struct example_config *c, const char *text, size_t *field, struct slot *slots, pst_schema **ret,
                         pst_error *reterr)
{
    pst_feature *wanted = NULL;
    pst_schema *schema = NULL;
    size_t count = 0;
    pst_status st = pst_schema_parse(&schema, text, reterr);
    if (st == PST_OK) {
        wanted = mem_array(pst_schema_count(schema), sizeof(*wanted));
        st = wanted ? PST_OK : pst_fail(reterr, PST_ENOMEM, "out of memory for %zu features", pst_schema_count(schema));
    }
    for (size_t i = 0; st == PST_OK && i < pst_schema_count(schema); i++, (*field)++) {
        if (c->needed && !c->needed[*field])
            continue;
        wanted[count] = *pst_schema_feature(schema, i);
        slots[count] = slot_of(&wanted[count], *field);
        count++;
    }
    if (st == PST_OK)
        st = pst_schema_create(ret, wanted, count, reterr);
    mem_free(wanted);
    pst_schema_destroy(schema);
    return st;
}

static pst_status start(const void *config, void *worker, pst_error *reterr)
{
    const struct example_config *c = config;
    struct worker *w = worker;
    pst_schema *schema = NULL, *lists = NULL;
    size_t field = 0;
    w->slots = mem_array(c->features, sizeof(*w->slots));
    w->values = mem_array(c->features, sizeof(*w->values));
    w->columns = mem_array(c->features, sizeof(*w->columns));
    if (!w->slots || !w->values || !w->columns)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for %zu features", c->features);
    pst_status st = narrow(c, c->schema, &field, w->slots, &schema, reterr);
    if (st == PST_OK) {
        w->count = pst_schema_count(schema);
        st = narrow(c, c->lists, &field, w->slots + w->count, &lists, reterr);
    }
    if (st == PST_OK) {
        w->lists = pst_schema_count(lists);
        st = w->lists ? pst_sequence_parser_create(&w->sequence, schema, lists, NULL, reterr)
                      : pst_parser_create(&w->parser, schema, NULL, reterr);
    }
    pst_schema_destroy(lists);
    pst_schema_destroy(schema);
    return st;
}

static void stop(const void *config, void *worker)
{
    struct worker *w = worker;
    (void)config;
    w->parser = pst_parser_destroy(w->parser);
    w->sequence = pst_sequence_parser_destroy(w->sequence);
    mem_free(w->slots);
    mem_free(w->values);
    mem_free(w->columns);
    w->slots = NULL;
    w->values = NULL;
    w->columns = NULL;
}

static pst_status fail_inferred(const struct example_config *c, pst_status st, pst_error *reterr)
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
    const struct example_config *c = config;
    struct worker *w = worker;
    const pst_bytes *record = in[c->number].data;
    pst_status st = w->sequence
                        ? pst_sequence_parser_parse(w->sequence, record->data, record->length, w->values, w->columns, reterr)
                        : pst_parser_parse(w->parser, record->data, record->length, w->values, reterr);
    if (__builtin_expect(st != PST_OK, 0))
        return fail_inferred(c, st, reterr);
    for (size_t i = 0; i < w->count && st == PST_OK; i++) {
        const struct slot *s = &w->slots[i];
        if (s->varies)
            st = view(ctx, s, &w->values[i], &out[s->field], reterr);
        else if (s->bytes)
            memcpy(out[s->field].data, w->values[i].data, s->bytes);
    }
    for (size_t i = 0; i < w->lists && st == PST_OK; i++) {
        const struct slot *s = &w->slots[w->count + i];
        st = view(ctx, s, &w->columns[i].values, &out[s->field], reterr);
        out[s->field].shape[0] = w->columns[i].rows;
    }
    return st;
}

static const pst_param params[] = {
    {"schema", PST_PARAM_STRING, offsetof(struct example_config, schema), "", 0, 0, NULL,
     "the features, such as \"image:bytes label:int64 x:float[32] tags:bytes[*] boxes:float[*,4] "
     "w:float=1.5\"; empty: inferred"},
    {"field", PST_PARAM_STRING, offsetof(struct example_config, field), "record", 0, 0, NULL,
     "the field with the serialized Examples"},
    {"lists", PST_PARAM_STRING, offsetof(struct example_config, lists), "", 0, 0, NULL,
     "the feature lists of SequenceExamples, with the shape of one step, such as \"rgb:float[1024] "
     "word:bytes\"; empty: inferred if the schema is inferred, otherwise none"},
    {0},
};

static const char *missing(const void *config)
{
    const struct example_config *c = config;
    return c->schema[0] == '\0' ? c->field : NULL;
}

static const char *given(const void *config)
{
    const struct example_config *c = config;
    return c->schema[0] && c->records == 0 ? c->field : NULL;
}

static const struct schema_facet samples = {.missing = missing, .infer = example_infer, .given = given, .check = example_check};

const struct op_decl op_example = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "example",
            .doc = "Parses tf.train.Examples and SequenceExamples: every feature of the schema becomes a field of "
                   "float32, int64 or bytes. A feature with a shape must have exactly that many values; [*] accepts any "
                   "number of values, [*,4] any number of rows of four values. A missing feature gets its default "
                   "(=1.5), is empty ([*]), or makes that element an error. A feature list becomes a field with one row "
                   "per step: x:float[2] in `lists` becomes a field [?,2]. Features that no later operation uses are "
                   "not parsed. Without a schema, the schema is inferred from records spread over the source.",
            .example = "tfrecord shards/ | example \"image:bytes label:int64\" | batch 64",
            .params = params,
            .config_size = sizeof(struct example_config),
            .worker_size = sizeof(struct worker),
            .plan = plan,
            .start = start,
            .flags = PST_OP_PARSES,
            .run = run,
            .stop = stop,
        },
    .kind = PST_OP_SAMPLE,
    .need = need,
    .schema = &samples,
    .cause = PST_CAUSE_EXAMPLE,
};
