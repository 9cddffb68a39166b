/* example_samples.c: what `example` learns from sample records before it is planned: the schema where none is given, and
 * whether the records have what a given one names. */
#include "ops/example_op.h"

#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"
#include "record/list_inference.h"

#include <stdio.h>
#include <string.h>

#define MOST_NAMES 1024 /* of features that are remembered to suggest one */

/* ---- Inferring ---- */

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

static const char *keep_text(struct arena *strings, const pst_schema *schema)
{
    char *text = schema_text(schema);
    const char *kept = text ? arena_strndup(strings, text, SIZE_MAX) : NULL;
    mem_free(text);
    return kept;
}

static pst_status keep_schema(struct example_config *c, struct arena *strings, const pst_schema *schema,
                              const pst_schema *lists, size_t records, pst_error *reterr)
{
    if (pst_schema_count(schema) == 0 && pst_schema_count(lists) == 0 && c->lists[0] == '\0')
        return pst_fail(reterr, PST_EINVAL, "no schema can be inferred: the Examples have no features");
    const char *text = keep_text(strings, schema), *lists_text = c->lists[0] ? c->lists : keep_text(strings, lists);
    if (!text || !lists_text)
        return pst_fail(reterr, PST_ENOMEM, "inferring a schema: out of memory");
    c->schema = text[0] ? text : " "; /* "" would ask to infer one */
    c->lists = lists_text;
    c->records = records;
    return PST_OK;
}

pst_status example_infer(void *config, struct arena *strings, const pst_bytes *records, size_t count, pst_error *reterr)
{
    pst_inference *inference = NULL;
    struct list_inference inferred_lists = {0};
    pst_schema *schema = NULL, *lists = NULL;
    size_t added = 0;
    pst_status st = pst_inference_create(&inference, NULL, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        st = pst_inference_add(inference, records[i].data, records[i].length, reterr);
        if (st == PST_OK)
            st = list_inference_add(&inferred_lists, records[i].data, records[i].length, reterr);
        added += st == PST_OK;
        if (st == PST_ECORRUPT && (added > 0 || i + 1 < count))
            st = PST_OK; /* one damaged record costs one record: the run will judge it */
    }
    if (st == PST_OK)
        st = pst_inference_schema(inference, &schema, reterr);
    if (st == PST_OK)
        st = list_inference_schema(&inferred_lists, &lists, reterr);
    if (st == PST_OK)
        st = keep_schema(config, strings, schema, lists, added, reterr);
    pst_schema_destroy(lists);
    pst_schema_destroy(schema);
    list_inference_finish(&inferred_lists);
    pst_inference_destroy(inference);
    return st;
}

/* ---- Checking ---- */

/* The names that sample records have, each once. */
struct names {
    struct arena memory;
    const char *name[MOST_NAMES + 1]; /* ends with NULL */
    size_t count;
};

static bool has_name(const struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->name[i], name) == 0)
            return true;
    return false;
}

/* False: out of memory. Beyond MOST_NAMES nothing is kept. */
static bool add_name(struct names *n, const char *name, size_t length)
{
    const char *copy = n->count < MOST_NAMES ? arena_strndup(&n->memory, name, length) : "";
    if (copy && copy[0] && !has_name(n, copy))
        n->name[n->count++] = copy;
    return copy;
}

/* The features, and the feature lists, of all records that can be read. */
static pst_status collect_names(const pst_bytes *records, size_t count, struct names *features, struct names *lists,
                                pst_error *reterr)
{
    pst_parser *parser = NULL;
    struct list_inference inferred = {0};
    pst_schema *schema = NULL;
    pst_status st = pst_parser_create(&parser, NULL, NULL, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        const pst_named_value *walked;
        size_t n = 0;
        st = pst_parser_walk(parser, records[i].data, records[i].length, &walked, &n, NULL);
        for (size_t k = 0; k < n && st == PST_OK; k++)
            if (!add_name(features, (const char *)walked[k].name.data, walked[k].name.length))
                st = PST_ENOMEM;
        if (st == PST_OK)
            st = list_inference_add(&inferred, records[i].data, records[i].length, NULL);
        st = st == PST_ENOMEM ? st : PST_OK; /* anything else is for the run to judge */
    }
    if (st == PST_OK)
        st = list_inference_schema(&inferred, &schema, NULL);
    for (size_t i = 0; st == PST_OK && i < pst_schema_count(schema); i++)
        if (!add_name(lists, pst_schema_feature(schema, i)->name, SIZE_MAX))
            st = PST_ENOMEM;
    pst_schema_destroy(schema);
    list_inference_finish(&inferred);
    pst_parser_destroy(parser);
    return st < 0 ? pst_fail(reterr, st, "looking at sample records: out of memory") : PST_OK;
}

/* A feature that may be missing is doubted only if the records have one of nearly its name. */
static pst_status check_feature(const pst_feature *f, const char *what, const struct names *here, const struct names *there,
                                const char *remedy, size_t records, pst_error *reterr)
{
    bool optional = f->layout != PST_FIXED || f->has_default;
    if (here->count == 0 || here->count == MOST_NAMES || has_name(here, f->name))
        return PST_OK;
    if (has_name(there, f->name))
        return pst_fail(reterr, PST_EINVAL, "%s is not a %s; %s", f->name, what, remedy);
    const char *nearest = text_nearest(f->name, here->name);
    if (nearest)
        return pst_fail(reterr, PST_EINVAL, "none of the %zu records looked at has a %s %.64s; did you mean %.64s?", records,
                        what, f->name, nearest);
    if (optional)
        return PST_OK;
    char listed[120];
    size_t n = 0;
    listed[0] = '\0';
    for (size_t i = 0; i < here->count && n < sizeof(listed); i++)
        n += (size_t)snprintf(listed + n, sizeof(listed) - n, "%s%s", i ? ", " : "", here->name[i]);
    return pst_fail(reterr, PST_EINVAL, "none of the %zu records looked at has a %s %.64s; they have %s%s", records, what,
                    f->name, listed, n >= sizeof(listed) ? "\xe2\x80\xa6" : "");
}

static pst_status check_schema(const char *text, const char *what, const struct names *here, const struct names *there,
                               const char *remedy, size_t records, pst_error *reterr)
{
    pst_schema *schema = NULL;
    if (pst_schema_parse(&schema, text, NULL) < 0)
        return PST_OK; /* the operation's own plan says what is wrong */
    pst_status st = PST_OK;
    for (size_t i = 0; i < pst_schema_count(schema) && st == PST_OK; i++)
        st = check_feature(pst_schema_feature(schema, i), what, here, there, remedy, records, reterr);
    pst_schema_destroy(schema);
    return st;
}

pst_status example_check(const void *config, const pst_bytes *records, size_t count, pst_error *reterr)
{
    const struct example_config *c = config;
    struct names *features = mem_zalloc(sizeof(*features)), *lists = mem_zalloc(sizeof(*lists));
    pst_status st = features && lists ? collect_names(records, count, features, lists, reterr)
                                      : pst_fail(reterr, PST_ENOMEM, "looking at sample records: out of memory");
    if (st == PST_OK)
        st = check_schema(c->schema, "feature", features, lists, "it is a feature list: name it in lists=", count, reterr);
    if (st == PST_OK)
        st = check_schema(c->lists, "feature list", lists, features, "it is a feature: name it in schema=", count, reterr);
    if (features)
        arena_finish(&features->memory);
    if (lists)
        arena_finish(&lists->memory);
    mem_free(features);
    mem_free(lists);
    return st;
}
