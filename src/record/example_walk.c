/* example_walk.c: every feature of an Example, without a schema: for inspection and inference.
 *
 * All entries are read in full, doubles too. Which of them is the last of its name is found by sorting, so that no
 * choice of names makes it slow. */
#include "record/parser.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

/* By the bytes of the name, then by place in the input. */
static int compare_named(const void *a, const void *b)
{
    const pst_named_value *x = *(const pst_named_value *const *)a, *y = *(const pst_named_value *const *)b;
    size_t n = x->name.length < y->name.length ? x->name.length : y->name.length;
    int order = n ? memcmp(x->name.data, y->name.data, n) : 0;
    if (order == 0)
        order = (x->name.length > y->name.length) - (x->name.length < y->name.length);
    return order ? order : (x > y) - (x < y);
}

static bool same_name(const pst_named_value *x, const pst_named_value *y)
{
    return x->name.length == y->name.length && memcmp(x->name.data, y->name.data, x->name.length) == 0;
}

/* Room for `count` entries; new ones are zeroed. */
static bool reserve(pst_parser *parser, size_t count)
{
    size_t before = parser->walked_capacity;
    void *walked = parser->walked;
    if (mem_grow(&walked, &parser->walked_capacity, count, sizeof(*parser->walked)) < 0)
        return false;
    parser->walked = walked;
    memset(parser->walked + before, 0, (parser->walked_capacity - before) * sizeof(*parser->walked));
    return true;
}

static bool walk_entry(pst_parser *parser, size_t number, const uint8_t *p, const uint8_t *end)
{
    struct plan *plan = &parser->plan;
    struct wire_entry entry;
    if (number == parser->walked_capacity && !reserve(parser, number + 1))
        return wire_fail(&plan->trouble, PST_ENOMEM, p, "out of memory for %zu features", number + 1);
    if (!wire_entry_read(&entry, p, end, &plan->trouble))
        return false;
    struct walked *w = &parser->walked[number];
    w->name = (pst_bytes){entry.key, entry.key_length};
    feature_reset(&w->values);
    while (wire_entry_next(&entry)) {
        if (!feature_merge(&w->values, entry.value, entry.value_end, plan->limits.max_values, &plan->trouble)) {
            plan->trouble_name = w->name;
            return false;
        }
    }
    return true;
}

static bool walk_features(pst_parser *parser, const uint8_t *p, const uint8_t *end, size_t *count)
{
    while (p < end) {
        struct wire_field field;
        const uint8_t *at = p;
        p = wire_next(p, end, &field, &parser->plan.trouble);
        if (!p)
            return false;
        if (field.tag == WIRE_TAG(1, WIRE_BYTES) &&
            (!plan_admit_entry(&parser->plan, count, at) || !walk_entry(parser, *count - 1, field.data, p)))
            return false;
    }
    return true;
}

/* Leaves the last of each name: `named` in the order of the input, `sorted` by name. */
static size_t drop_doubles(pst_parser *parser, size_t count)
{
    const pst_named_value **sorted = parser->sorted;
    size_t kept = 0, unique = 0;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &parser->named[i];
    qsort(sorted, count, sizeof(*sorted), compare_named);
    for (size_t i = 0; i < count; i++)
        if (i + 1 < count && same_name(sorted[i], sorted[i + 1]))
            parser->named[sorted[i] - parser->named].name.data = NULL; /* a later one has its name */
        else
            sorted[unique++] = sorted[i];
    if (unique == count)
        return count;
    for (size_t i = 0; i < count; i++)
        if (parser->named[i].name.data)
            parser->named[kept++] = parser->named[i];
    for (size_t i = 0; i < unique; i++)
        sorted[i] = &parser->named[i];
    qsort(sorted, unique, sizeof(*sorted), compare_named); /* they have moved */
    return unique;
}

pst_status parser_walk(pst_parser *parser, const void *data, size_t length, const pst_named_value **ret,
                       const pst_named_value *const **ret_sorted, size_t *ret_count, pst_error *reterr)
{
    const uint8_t *p = data, *end = length ? p + length : p;
    size_t count = 0;
    parser->plan.trouble_name = (pst_bytes){0};
    while (p < end) {
        struct wire_field field;
        p = wire_next(p, end, &field, &parser->plan.trouble);
        if (!p || (field.tag == WIRE_TAG(1, WIRE_BYTES) && !walk_features(parser, field.data, p, &count)))
            return plan_fail(&parser->plan, "Example", data, reterr);
    }
    void *named = parser->named, *sorted = parser->sorted;
    int failed = mem_grow(&named, &parser->named_capacity, count, sizeof(*parser->named));
    parser->named = named;
    failed |= mem_grow(&sorted, &parser->sorted_capacity, count, sizeof(*parser->sorted));
    parser->sorted = sorted;
    if (failed)
        return fail_memory(reterr, "allocating an Example of %zu features", count);
    for (size_t i = 0; i < count; i++) {
        const struct feature_values *v = &parser->walked[i].values;
        parser->named[i] = (pst_named_value){parser->walked[i].name, {v->kind, v->kind != PST_KIND_NONE, v->count, v->data}};
    }
    count = count > 0 ? drop_doubles(parser, count) : 0;
    *ret = parser->named;
    *ret_sorted = parser->sorted;
    *ret_count = count;
    return PST_OK;
}

pst_status pst_parser_walk(pst_parser *parser, const void *data, size_t length, const pst_named_value **ret, size_t *ret_count,
                           pst_error *reterr)
{
    const pst_named_value *const *sorted;
    return parser_walk(parser, data, length, ret, &sorted, ret_count, reterr);
}
