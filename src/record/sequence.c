/* sequence.c: SequenceExample{context = 1: Features, feature_lists = 2: FeatureLists{map feature_list = 1}}, where a
 * FeatureList{repeated feature = 1} holds one Feature per step.
 *
 * The context is parsed like an Example. Each declared list becomes a column with one row per step. If a list occurs twice,
 * the last one is used, and only that one is checked: a step that does not fit is recorded, and reported at the end. */
#include "record/feature.h"
#include "record/parser.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>

struct list {
    struct column column;
    bool present;
    bool misfit; /* some step is not as declared; the first of them: */
    size_t misfit_step, misfit_count;
    pst_kind misfit_kind;
};

struct pst_sequence_parser {
    struct plan context, lists;
    struct list *found; /* one a declared list */
    struct feature_values step;
};

static bool begin_list(struct list *list, const struct planned *f, bool present)
{
    list->present = present;
    list->misfit = false;
    return column_reset(&list->column, f->kind);
}

static bool add_step(pst_sequence_parser *parser, struct list *list, const struct planned *f, const uint8_t *at)
{
    const struct feature_values *step = &parser->step;
    size_t most = parser->lists.limits.max_values;
    bool unset = step->kind == PST_KIND_NONE && f->layout != PST_FIXED; /* an empty row, as TensorFlow has it */
    if (list->misfit)
        return true;
    if (!unset && !planned_accepts(f, step->kind, step->count)) {
        list->misfit = true;
        list->misfit_step = list->column.rows;
        list->misfit_kind = step->kind;
        list->misfit_count = step->count;
        return true;
    }
    if (list->column.rows == most || step->count > most - list->column.values.count)
        return wire_fail(&parser->lists.trouble, PST_ELIMIT, at, "over %zu steps or values; raise max_values to read it", most);
    if (!column_add_row(&list->column, step->data, step->count, f->layout == PST_RAGGED ? f->product : 1))
        return wire_fail(&parser->lists.trouble, PST_ENOMEM, at, "out of memory for %zu steps", list->column.rows + 1);
    return true;
}

/* A FeatureList message, or one of several that merge. */
static bool read_steps(pst_sequence_parser *parser, struct list *list, const struct planned *f, const uint8_t *p,
                       const uint8_t *end)
{
    struct plan *plan = &parser->lists;
    while (p < end) {
        struct wire_field field;
        p = wire_next(p, end, &field, &plan->trouble);
        if (!p)
            return false;
        if (field.tag != WIRE_TAG(1, WIRE_BYTES))
            continue;
        feature_reset(&parser->step);
        if (!feature_merge(&parser->step, field.data, p, plan->limits.max_values, &plan->trouble) ||
            !add_step(parser, list, f, field.data))
            return false;
    }
    return true;
}

static bool read_entry(pst_sequence_parser *parser, const uint8_t *p, const uint8_t *end)
{
    struct plan *plan = &parser->lists;
    struct wire_entry entry;
    if (!wire_entry_read(&entry, p, end, &plan->trouble))
        return false;
    const struct planned *f = plan_find(plan, entry.key, entry.key_length, end);
    if (!f)
        return true;
    struct list *list = &parser->found[f - plan->features];
    plan->trouble_name = (pst_bytes){entry.key, entry.key_length};
    if (!begin_list(list, f, true))
        return wire_fail(&plan->trouble, PST_ENOMEM, p, "out of memory");
    while (wire_entry_next(&entry))
        if (!read_steps(parser, list, f, entry.value, entry.value_end))
            return false;
    plan->trouble_name = (pst_bytes){0};
    return true;
}

static bool read_lists(pst_sequence_parser *parser, const uint8_t *p, const uint8_t *end, size_t *entries)
{
    struct plan *plan = &parser->lists;
    while (p < end) {
        struct wire_field field;
        const uint8_t *at = p;
        p = wire_next(p, end, &field, &plan->trouble);
        if (!p)
            return false;
        if (field.tag == WIRE_TAG(1, WIRE_BYTES) &&
            (!plan_admit_entry(plan, entries, at) || !read_entry(parser, field.data, p)))
            return false;
    }
    return true;
}

static pst_status read_message(pst_sequence_parser *parser, const uint8_t *p, size_t length, pst_error *reterr)
{
    const uint8_t *start = p, *end = length ? p + length : p;
    size_t context_entries = 0, list_entries = 0;
    while (p < end) {
        struct wire_field field;
        p = wire_next(p, end, &field, &parser->context.trouble);
        if (!p ||
            (field.tag == WIRE_TAG(1, WIRE_BYTES) && !parser_read_features(&parser->context, field.data, p, &context_entries)))
            return plan_fail(&parser->context, "SequenceExample", start, reterr);
        if (field.tag == WIRE_TAG(2, WIRE_BYTES) && !read_lists(parser, field.data, p, &list_entries))
            return plan_fail(&parser->lists, "SequenceExample", start, reterr);
    }
    return PST_OK;
}

static pst_status judge_lists(const pst_sequence_parser *parser, pst_error *reterr)
{
    for (size_t i = 0; i < parser->lists.count; i++) {
        const struct list *list = &parser->found[i];
        const struct planned *f = &parser->lists.features[i];
        char where[40];
        snprintf(where, sizeof(where), "step %zu: ", list->misfit_step);
        if (list->misfit)
            return plan_refuse(&parser->lists, f, list->misfit_kind, list->misfit_count, where, reterr);
        if (!list->present && !f->optional)
            return plan_refuse_missing(&parser->lists, f, reterr);
    }
    return PST_OK;
}

pst_status pst_sequence_parser_parse(pst_sequence_parser *parser, const void *data, size_t length, pst_value *context,
                                     pst_column *lists, pst_error *reterr)
{
    plan_begin(&parser->context);
    plan_begin(&parser->lists);
    for (size_t i = 0; i < parser->lists.count; i++)
        if (!begin_list(&parser->found[i], &parser->lists.features[i], false))
            return fail_memory(reterr, "allocating %zu feature lists", parser->lists.count);
    pst_status st = read_message(parser, data, length, reterr);
    if (st == PST_OK)
        st = judge_lists(parser, reterr);
    if (st == PST_OK)
        st = parser_deliver(&parser->context, context, reterr);
    if (st < 0)
        return st;
    for (size_t i = 0; i < parser->lists.count; i++)
        lists[i] = column_view(&parser->found[i].column, parser->found[i].present);
    return PST_OK;
}

pst_status pst_sequence_parser_create(pst_sequence_parser **ret, const pst_schema *context, const pst_schema *lists,
                                      const pst_limits *limits, pst_error *reterr)
{
    pst_sequence_parser *parser = mem_zalloc(sizeof(*parser));
    if (!parser)
        return fail_memory(reterr, "allocating a parser");
    pst_status st = plan_init(&parser->context, context, limits, PLAN_FEATURES, reterr);
    if (st == PST_OK)
        st = plan_init(&parser->lists, lists, limits, PLAN_LISTS, reterr);
    if (st == PST_OK) {
        parser->found = mem_array(parser->lists.count, sizeof(*parser->found));
        if (!parser->found)
            st = fail_memory(reterr, "allocating %zu feature lists", parser->lists.count);
    }
    if (st < 0) {
        pst_sequence_parser_destroy(parser);
        return st;
    }
    *ret = parser;
    return PST_OK;
}

pst_sequence_parser *pst_sequence_parser_destroy(pst_sequence_parser *parser)
{
    if (!parser)
        return NULL;
    for (size_t i = 0; parser->found && i < parser->lists.count; i++)
        column_finish(&parser->found[i].column);
    mem_free(parser->found);
    feature_finish(&parser->step);
    plan_finish(&parser->context);
    plan_finish(&parser->lists);
    mem_free(parser);
    return NULL;
}
