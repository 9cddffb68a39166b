/* walker.c: see walker.h. Examples are walked by the parser of the record room; this file adds the feature lists of
 * SequenceExamples and the guess at what a record is. */
#include "inspect/walker.h"

#include "base/error.h"
#include "base/memory.h"
#include "inspect/events.h"
#include "inspect/message.h"
#include "record/feature.h"

#define LISTS_MAX     100000u           /* of one record: as many as an Example may have features */
#define VALUES_MAX    ((size_t)1 << 28) /* of one list, all steps together */
#define FEATURE_LISTS WIRE_TAG(2, WIRE_BYTES)

struct walker {
    pst_schema *schema; /* of nothing: walking needs none, the parser does */
    pst_parser *parser;
    struct feature_values *lists; /* buffers are kept from record to record */
    size_t list_capacity;
    pst_named_value *values; /* context and lists together */
    size_t value_capacity;
};

pst_status walker_create(struct walker **ret, pst_error *reterr)
{
    struct walker *w = mem_zalloc(sizeof(*w));
    if (!w)
        return fail_memory(reterr, "reading records");
    pst_status st = pst_schema_create(&w->schema, NULL, 0, reterr);
    if (st == PST_OK)
        st = pst_parser_create(&w->parser, w->schema, NULL, reterr);
    if (st < 0) {
        walker_destroy(w);
        return st;
    }
    *ret = w;
    return PST_OK;
}

struct walker *walker_destroy(struct walker *w)
{
    if (!w)
        return NULL;
    pst_parser_destroy(w->parser);
    pst_schema_destroy(w->schema);
    for (size_t i = 0; i < w->list_capacity; i++)
        feature_finish(&w->lists[i]);
    mem_free(w->lists);
    mem_free(w->values);
    mem_free(w);
    return NULL;
}

/* ---- Feature lists ---- */

/* One more list of values, its buffer ready for use; NULL: out of memory. */
static struct feature_values *new_list(struct walker *w, size_t i)
{
    size_t before = w->list_capacity;
    if (mem_grow((void **)&w->lists, &w->list_capacity, i + 1, sizeof(*w->lists)))
        return NULL;
    for (size_t k = before; k < w->list_capacity; k++)
        w->lists[k] = (struct feature_values){0};
    feature_reset(&w->lists[i]);
    return &w->lists[i];
}

/* Appends the values of every step of one FeatureList to `into`. */
static pst_status merge_steps(struct feature_values *into, pst_bytes list, struct wire_trouble *t)
{
    struct field f;
    pst_status st;
    while ((st = message_next(&list, &f, t)) == PST_OK) {
        const uint8_t *end = f.data.data + f.data.length;
        if (f.tag == WIRE_TAG(1, WIRE_BYTES) && !feature_merge(into, f.data.data, end, VALUES_MAX, t))
            return t->status;
    }
    return st;
}

/* One entry of the map of feature lists: key = 1, value = 2, in any order and number. */
static pst_status read_list(struct walker *w, pst_bytes entry, size_t i, struct wire_trouble *t)
{
    struct feature_values *list = i < LISTS_MAX ? new_list(w, i) : NULL;
    if (!list) {
        wire_fail(t, i < LISTS_MAX ? PST_ENOMEM : PST_ELIMIT, entry.data, "feature list number %zu: %s", i,
                  i < LISTS_MAX ? "out of memory" : "too many in one record");
        return t->status;
    }
    struct field f;
    pst_status st;
    w->values[i] = (pst_named_value){.name = {entry.data, 0}}; /* its value is filled in when all are read */
    while ((st = message_next(&entry, &f, t)) == PST_OK) {
        if (f.tag == WIRE_TAG(1, WIRE_BYTES))
            w->values[i].name = f.data;
        else if (f.tag == WIRE_TAG(2, WIRE_BYTES) && merge_steps(list, f.data, t) < 0)
            return t->status;
    }
    return st;
}

/* Appends the entries of one FeatureLists message to w->values, after the first `*count`. */
static pst_status read_map(struct walker *w, pst_bytes map, size_t *count, struct wire_trouble *t)
{
    struct field f;
    pst_status st;
    while ((st = message_next(&map, &f, t)) == PST_OK) {
        if (f.tag != WIRE_TAG(1, WIRE_BYTES))
            continue;
        if (mem_grow((void **)&w->values, &w->value_capacity, *count + 1, sizeof(*w->values))) {
            wire_fail(t, PST_ENOMEM, f.data.data, "out of memory for %zu feature lists", *count + 1);
            return PST_ENOMEM;
        }
        st = read_list(w, f.data, (*count)++, t);
        if (st < 0)
            return st;
    }
    return st;
}

/* All feature lists of a SequenceExample go to w->values from 0 on. */
static pst_status read_lists(struct walker *w, const void *data, size_t length, size_t *ret_count, pst_error *reterr)
{
    pst_bytes rest = {data, length};
    struct wire_trouble t;
    struct field f;
    size_t count = 0;
    pst_status st;
    while ((st = message_next(&rest, &f, &t)) == PST_OK) {
        if (f.tag == FEATURE_LISTS)
            st = read_map(w, f.data, &count, &t);
        if (st < 0)
            break;
    }
    if (st < 0)
        return pst_fail(reterr, st, "byte %zu of the SequenceExample: %s", (size_t)(t.at - (const uint8_t *)data), t.text);
    *ret_count = count;
    return PST_OK;
}

/* ---- Records ---- */

pst_status walker_walk(struct walker *w, pst_content content, const void *data, size_t length, const pst_named_value **ret,
                       size_t *ret_count, size_t *ret_context, pst_error *reterr)
{
    const pst_named_value *context;
    size_t context_count, lists = 0;
    pst_status st = pst_parser_walk(w->parser, data, length, &context, &context_count, reterr);
    if (st == PST_OK && content == PST_CONTENT_SEQUENCES)
        st = read_lists(w, data, length, &lists, reterr);
    if (st < 0)
        return st;
    *ret = context;
    *ret_count = context_count + lists;
    *ret_context = context_count;
    if (!lists)
        return PST_OK;
    if (mem_grow((void **)&w->values, &w->value_capacity, context_count + lists, sizeof(*w->values)))
        return fail_memory(reterr, "allocating %zu features", context_count + lists);
    for (size_t i = lists; i-- > 0;) { /* they make way for the context */
        const struct feature_values *v = &w->lists[i];
        w->values[context_count + i] = (pst_named_value){
            .name = w->values[i].name,
            .value = {.kind = v->kind, .present = v->kind != PST_KIND_NONE, .count = v->count, .data = v->data}};
    }
    for (size_t i = 0; i < context_count; i++)
        w->values[i] = context[i];
    *ret = w->values;
    return PST_OK;
}

pst_status walker_content(struct walker *w, const void *data, size_t length, pst_content *ret, pst_error *reterr)
{
    struct event event;
    const pst_named_value *values;
    size_t count, context, lists = 0;
    if (length == 0 || event_parse(&event, data, length)) {
        *ret = length == 0 ? PST_CONTENT_EMPTY : PST_CONTENT_EVENTS;
        return PST_OK;
    }
    pst_status st = walker_walk(w, PST_CONTENT_EXAMPLES, data, length, &values, &count, &context, reterr);
    if (st == PST_OK && read_lists(w, data, length, &lists, NULL) == PST_ENOMEM)
        st = fail_memory(reterr, "allocating the feature lists of a record");
    if (st == PST_ENOMEM)
        return st;
    /* a message of unknown fields alone parses as an Example of nothing: it is something else */
    *ret = st == PST_OK && lists ? PST_CONTENT_SEQUENCES : st == PST_OK && count ? PST_CONTENT_EXAMPLES : PST_CONTENT_OTHER;
    return PST_OK;
}
