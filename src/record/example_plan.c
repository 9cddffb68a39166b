/* example_plan.c: see example_plan.h. */
#include "record/example_plan.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/options.h"

#include <inttypes.h>
#include <stdio.h>

#define DEFAULT_MAX_FEATURES ((size_t)100000)
#define DEFAULT_MAX_VALUES   ((size_t)1 << 28)

/* Bytes of a default repeated over its shape, so that the next one is aligned. They fit: see pst_schema_create. */
static size_t repeated_bytes(const struct planned *f)
{
    return ((size_t)f->product * kind_size(f->kind) + 15) & ~(size_t)15;
}

static pst_status init_fallbacks(struct plan *p, pst_error *reterr)
{
    size_t total = 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->features[i].fallback.count == 1 && __builtin_add_overflow(total, repeated_bytes(&p->features[i]), &total))
            return pst_fail(reterr, PST_ELIMIT, "the defaults of the schema do not fit in memory");
    char *values = p->fallbacks = mem_alloc(total);
    if (!values)
        return fail_memory(reterr, "allocating the schema's defaults (%zu bytes)", total);
    for (size_t i = 0; i < p->count; i++) {
        struct planned *f = &p->features[i];
        size_t size = kind_size(f->kind);
        if (f->fallback.count != 1)
            continue;
        for (size_t k = 0; k < f->product; k++)
            memcpy(values + k * size, f->fallback.data, size);
        f->fallback.data = values;
        f->fallback.count = (size_t)f->product;
        values += repeated_bytes(f);
    }
    return PST_OK;
}

static void init_feature(struct planned *ret, const pst_feature *f, uint64_t product)
{
    size_t length = strlen(f->name), head = length < 8 ? length : 8;
    *ret = (struct planned){.name = f->name, .name_length = length, .kind = f->kind, .layout = f->layout, .product = product};
    ret->optional = f->layout != PST_FIXED || f->has_default;
    ret->fallback = f->fallback;
    memcpy(&ret->head, f->name, head);
    memset(&ret->head_mask, 0xff, head);
}

static pst_status check_feature(const struct plan *p, const struct planned *f, pst_error *reterr)
{
    if (f->layout == PST_FIXED && f->product > p->limits.max_values)
        return pst_fail(reterr, PST_ELIMIT, "feature '%s': a shape of %" PRIu64 " values, max_values is %zu", f->name,
                        f->product, p->limits.max_values);
    if (p->use == PLAN_LISTS && f->fallback.count > 0)
        return pst_fail(reterr, PST_EINVAL, "feature list '%s': a list has no default values; =[] lets it be missing", f->name);
    if (p->use == PLAN_FEATURES && f->layout == PST_FIXED && f->optional && f->fallback.count == 0 && f->product > 0)
        return pst_fail(reterr, PST_EINVAL, "feature '%s': a default of no values; =[] is for feature lists", f->name);
    return PST_OK;
}

pst_status plan_init(struct plan *p, const pst_schema *schema, const pst_limits *limits, enum plan_use use, pst_error *reterr)
{
    size_t count = schema ? schema->count : 0;
    *p = (struct plan){.use = use};
    pst_status st = options_take(&p->limits, sizeof(p->limits), limits, reterr);
    if (st < 0)
        return st;
    if (p->limits.max_features == 0)
        p->limits.max_features = DEFAULT_MAX_FEATURES;
    if (p->limits.max_values == 0)
        p->limits.max_values = DEFAULT_MAX_VALUES;
    st = pst_schema_create(&p->schema, schema ? schema->features : NULL, count, reterr);
    if (st < 0)
        return st;
    p->features = count < UINT32_MAX ? mem_array(count + 1, sizeof(*p->features)) : NULL;
    if (!p->features)
        return fail_memory(reterr, "allocating a parser of %zu features", count);
    p->count = count;
    p->features[count].name_length = SIZE_MAX; /* before the first feature; no key is that long */
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        init_feature(&p->features[i], &p->schema->features[i], p->schema->products[i]);
        p->features[i].next = (uint32_t)(i + 1);
        st = check_feature(p, &p->features[i], reterr);
    }
    plan_begin(p);
    return st < 0 ? st : init_fallbacks(p, reterr);
}

void plan_finish(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        feature_finish(&p->features[i].found);
    mem_free(p->features);
    mem_free(p->fallbacks);
    p->schema = pst_schema_destroy(p->schema);
    *p = (struct plan){0};
}

struct planned *plan_look_up(struct plan *p, const uint8_t *key, size_t length)
{
    size_t i = name_table_find(&p->schema->names, key, length);
    if (i == NAME_NONE)
        return NULL;
    p->last->next = (uint32_t)i;
    p->last = &p->features[i];
    return p->last;
}

char *plan_show_name(pst_bytes name, char buffer[static PLAN_NAME_BYTES])
{
    bool utf8 = text_is_utf8(name.data, name.length);
    size_t n = name.length < PLAN_NAME_BYTES - 4 ? name.length : PLAN_NAME_BYTES - 4;
    while (n > 0 && n < name.length && utf8 && (name.data[n] & 0xc0) == 0x80)
        n--; /* not through a character */
    for (size_t i = 0; i < n; i++) {
        uint8_t c = name.data[i];
        buffer[i] = c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8) ? '?' : (char)c;
    }
    snprintf(buffer + n, PLAN_NAME_BYTES - n, "%s", n < name.length ? "..." : "");
    return buffer;
}

pst_status plan_fail(const struct plan *p, const char *message, const uint8_t *start, pst_error *reterr)
{
    const struct wire_trouble *t = &p->trouble;
    const char *what = p->use == PLAN_LISTS ? "feature list" : "feature";
    const char *doubt = t->status == PST_ECORRUPT ? "; it is damaged, or something else" : "";
    char name[PLAN_NAME_BYTES];
    if (!p->trouble_name.data)
        return pst_fail(reterr, t->status, "byte %zu of the %s: %s%s", (size_t)(t->at - start), message, t->text, doubt);
    return pst_fail(reterr, t->status, "%s '%s', byte %zu of the %s: %s%s", what, plan_show_name(p->trouble_name, name),
                    (size_t)(t->at - start), message, t->text, doubt);
}

static const char *noun(pst_kind kind, uint64_t count)
{
    static const char *const nouns[][2] = {
        [PST_BYTES] = {"byte string", "byte strings"}, [PST_FLOAT] = {"float", "floats"}, [PST_INT64] = {"int64", "int64s"}};
    return nouns[kind][count != 1];
}

/* "feature 'x'" or "feature list 'x'", and how the schema declares it. */
struct description {
    char name[PLAN_NAME_BYTES + 24], spec[SCHEMA_SPEC_BYTES];
};

static struct description describe(const struct plan *p, const struct planned *f)
{
    struct description d;
    char name[PLAN_NAME_BYTES];
    plan_show_name((pst_bytes){(const uint8_t *)f->name, f->name_length}, name);
    snprintf(d.name, sizeof(d.name), "%s '%s'", p->use == PLAN_LISTS ? "feature list" : "feature", name);
    schema_spec(&p->schema->features[f - p->features], d.spec);
    return d;
}

pst_status plan_refuse(const struct plan *p, const struct planned *f, pst_kind kind, uint64_t count, const char *where,
                       pst_error *reterr)
{
    struct description d = describe(p, f);
    const char *shape = strchr(d.spec, '[') ? strchr(d.spec, '[') : "no shape";
    if (kind == PST_KIND_NONE)
        return pst_fail(reterr, PST_ETYPE, "%s: %sno kind is set, the schema says %s", d.name, where, d.spec);
    if (kind != f->kind)
        return pst_fail(reterr, PST_ETYPE, "%s: %s%" PRIu64 " %s, the schema says %s", d.name, where, count, noun(kind, count),
                        d.spec);
    if (f->layout == PST_FIXED)
        return pst_fail(reterr, PST_ETYPE, "%s: %s%" PRIu64 " %s, the schema says %" PRIu64 " (%s); [*] takes any number",
                        d.name, where, count, noun(kind, count), f->product, shape);
    return pst_fail(reterr, PST_ETYPE, "%s: %s%" PRIu64 " %s, the schema says rows of %" PRIu64 " (%s)", d.name, where, count,
                    noun(kind, count), f->product, shape);
}

pst_status plan_refuse_missing(const struct plan *p, const struct planned *f, pst_error *reterr)
{
    struct description d = describe(p, f);
    return pst_fail(reterr, PST_ENOTFOUND, "%s (%s) is missing; %s", d.name, d.spec,
                    p->use == PLAN_LISTS ? "=[] after it in the schema allows that"
                                         : "give it a default in the schema (=0) or make it variable ([*])");
}
