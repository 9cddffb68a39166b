/* example_parse.c: one serialized Example against a schema.
 *
 * Example{features = 1}, Features{map feature = 1}. Declared features are read in full; the others are skipped by their
 * length, so what is inside of them is not looked at. Doubles: the last wins, and only it is judged. */
#include "record/parser.h"

#include "base/error.h"
#include "base/memory.h"

static bool read_entry(struct plan *plan, const uint8_t *p, const uint8_t *end, const uint8_t *readable_end)
{
    struct wire_entry entry;
    if (!wire_entry_read(&entry, p, end, &plan->trouble))
        return false;
    struct planned *f = plan_find(plan, entry.key, entry.key_length, readable_end);
    if (!f)
        return true;
    feature_reset(&f->found);
    while (wire_entry_next(&entry)) {
        if (!feature_merge(&f->found, entry.value, entry.value_end, plan->limits.max_values, &plan->trouble)) {
            plan->trouble_name = (pst_bytes){entry.key, entry.key_length};
            return false;
        }
    }
    return true;
}

bool parser_read_features(struct plan *plan, const uint8_t *p, const uint8_t *end, size_t *entries)
{
    while (p < end) {
        struct wire_field field;
        const uint8_t *at = p, *entry;
        p = wire_expect(at, end, WIRE_TAG(1, WIRE_BYTES), &entry);
        if (!p) {
            p = wire_next(at, end, &field, &plan->trouble);
            if (!p)
                return false;
            if (field.tag != WIRE_TAG(1, WIRE_BYTES))
                continue;
            entry = field.data;
        }
        if (!plan_admit_entry(plan, entries, at) || !read_entry(plan, entry, p, end))
            return false;
    }
    return true;
}

pst_status parser_deliver(const struct plan *plan, pst_value *values, pst_error *reterr)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct planned *f = &plan->features[i];
        if (planned_accepts(f, f->found.kind, f->found.count))
            continue;
        if (f->found.kind != PST_KIND_NONE)
            return plan_refuse(plan, f, f->found.kind, f->found.count, "", reterr);
        if (!f->optional)
            return plan_refuse_missing(plan, f, reterr);
    }
    for (size_t i = 0; i < plan->count; i++) {
        const struct planned *f = &plan->features[i];
        if (f->found.kind != PST_KIND_NONE)
            values[i] = (pst_value){f->kind, true, f->found.count, f->found.data};
        else
            values[i] = (pst_value){f->kind, false, f->fallback.count, f->fallback.data};
    }
    return PST_OK;
}

pst_status pst_parser_parse(pst_parser *parser, const void *data, size_t length, pst_value *values, pst_error *reterr)
{
    struct plan *plan = &parser->plan;
    const uint8_t *p = data, *end = length ? p + length : p;
    size_t entries = 0;
    plan_begin(plan);
    while (p < end) {
        struct wire_field field;
        p = wire_next(p, end, &field, &plan->trouble);
        if (!p || (field.tag == WIRE_TAG(1, WIRE_BYTES) && !parser_read_features(plan, field.data, p, &entries)))
            return plan_fail(plan, "Example", data, reterr);
    }
    return parser_deliver(plan, values, reterr);
}

pst_status pst_parser_create(pst_parser **ret, const pst_schema *schema, const pst_limits *limits, pst_error *reterr)
{
    pst_parser *parser = mem_zalloc(sizeof(*parser));
    if (!parser)
        return fail_memory(reterr, "allocating a parser");
    pst_status st = plan_init(&parser->plan, schema, limits, PLAN_FEATURES, reterr);
    if (st < 0) {
        pst_parser_destroy(parser);
        return st;
    }
    *ret = parser;
    return PST_OK;
}

pst_parser *pst_parser_destroy(pst_parser *parser)
{
    if (!parser)
        return NULL;
    for (size_t i = 0; i < parser->walked_capacity; i++)
        feature_finish(&parser->walked[i].values);
    for (size_t i = 0; parser->columns && i < parser->plan.count; i++)
        column_finish(&parser->columns[i]);
    mem_free(parser->walked);
    mem_free(parser->named);
    mem_free(parser->sorted);
    mem_free(parser->columns);
    mem_free(parser->values);
    plan_finish(&parser->plan);
    mem_free(parser);
    return NULL;
}

/* Examples one after the other into columns.
 *
 * Each Example is parsed on its own and its values are appended; a batch fails with its first bad Example, by number. */

static pst_status begin_batch(pst_parser *parser, pst_error *reterr)
{
    size_t count = parser->plan.count;
    bool ok = true;
    if (!parser->columns)
        parser->columns = mem_array(count, sizeof(*parser->columns));
    if (!parser->values)
        parser->values = mem_array(count, sizeof(*parser->values));
    ok = parser->columns && parser->values;
    for (size_t i = 0; ok && i < count; i++)
        ok = column_reset(&parser->columns[i], parser->plan.features[i].kind);
    return ok ? PST_OK : fail_memory(reterr, "allocating the columns of a batch");
}

static pst_status add_example(pst_parser *parser, const pst_bytes *example, size_t number, pst_error *reterr)
{
    pst_error why;
    pst_status st = pst_parser_parse(parser, example->data, example->length, parser->values, &why);
    if (st < 0)
        return pst_fail(reterr, st, "example %zu of the batch: %s", number, why.message);
    for (size_t i = 0; i < parser->plan.count; i++) {
        const struct planned *f = &parser->plan.features[i];
        const pst_value *v = &parser->values[i];
        if (!column_add_row(&parser->columns[i], v->data, v->count, f->layout == PST_RAGGED ? f->product : 1))
            return pst_fail(reterr, PST_ENOMEM, "example %zu of the batch: out of memory for feature '%s'", number, f->name);
    }
    return PST_OK;
}

pst_status pst_parser_parse_batch(pst_parser *parser, const pst_bytes *examples, size_t count, pst_column *columns,
                                  pst_error *reterr)
{
    pst_status st = begin_batch(parser, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++)
        st = add_example(parser, &examples[i], i, reterr);
    if (st < 0)
        return st;
    for (size_t i = 0; i < parser->plan.count; i++) {
        columns[i] = column_view(&parser->columns[i], true);
        if (parser->plan.features[i].layout == PST_FIXED)
            columns[i].row_splits = NULL;
    }
    return PST_OK;
}
