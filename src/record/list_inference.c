/* list_inference.c: the feature lists of SequenceExamples as a schema. One step shows the kind and the number of values. */
#include "record/list_inference.h"

#include "base/memory.h"

#include <string.h>

#define MOST_LISTS  1024       /* names; looked up one after the other */
#define MOST_VALUES (1u << 28) /* of one step, as in pst_limits */

struct inferred_list {
    char *name; /* NUL-terminated */
    size_t name_length;
    pst_kind kind; /* PST_KIND_NONE: no step had values so far */
    size_t count;  /* values of every step so far */
    bool varies;
    uint64_t seen; /* messages that have it */
    uint64_t last; /* the message that it was seen in last, counted from 1 */
};

static struct inferred_list *find_or_add(struct list_inference *inference, const struct wire_entry *entry,
                                         struct wire_trouble *t)
{
    for (size_t i = 0; i < inference->count; i++) {
        struct inferred_list *l = &inference->lists[i];
        if (l->name_length == entry->key_length && memcmp(l->name, entry->key, entry->key_length) == 0)
            return l;
    }
    if (inference->count == MOST_LISTS || memchr(entry->key, '\0', entry->key_length)) {
        wire_fail(t, PST_EUNSUPPORTED, entry->key, "over %d feature lists, or one with a NUL byte in its name", MOST_LISTS);
        return NULL;
    }
    char *name = mem_strndup((const char *)entry->key, entry->key_length);
    if (!name ||
        mem_grow((void **)&inference->lists, &inference->capacity, inference->count + 1, sizeof(*inference->lists)) < 0) {
        mem_free(name);
        wire_fail(t, PST_ENOMEM, entry->key, "out of memory");
        return NULL;
    }
    struct inferred_list *l = &inference->lists[inference->count++];
    *l = (struct inferred_list){.name = name, .name_length = entry->key_length};
    return l;
}

static bool add_step(struct list_inference *inference, struct inferred_list *l, const uint8_t *p, const uint8_t *end,
                     struct wire_trouble *t)
{
    struct feature_values *step = &inference->step;
    feature_reset(step);
    if (!feature_merge(step, p, end, MOST_VALUES, t))
        return false;
    if (step->kind == PST_KIND_NONE) {
        l->varies = true; /* an empty step */
        return true;
    }
    if (l->kind != PST_KIND_NONE && l->kind != step->kind)
        return wire_fail(t, PST_ETYPE, p, "feature list '%.40s' is %s here, %s in the steps before", l->name,
                         pst_kind_name(step->kind), pst_kind_name(l->kind));
    l->varies |= l->kind != PST_KIND_NONE && l->count != step->count;
    l->kind = step->kind;
    l->count = step->count;
    return true;
}

static bool add_list(struct list_inference *inference, const uint8_t *p, const uint8_t *end, struct wire_trouble *t)
{
    struct wire_entry entry;
    if (!wire_entry_read(&entry, p, end, t))
        return false;
    struct inferred_list *l = find_or_add(inference, &entry, t);
    if (!l)
        return false;
    l->seen += l->last != inference->examples;
    l->last = inference->examples;
    while (wire_entry_next(&entry)) {
        for (const uint8_t *at = entry.value; at < entry.value_end;) {
            struct wire_field field;
            at = wire_next(at, entry.value_end, &field, t);
            if (!at || (field.tag == WIRE_TAG(1, WIRE_BYTES) && !add_step(inference, l, field.data, at, t)))
                return false;
        }
    }
    return true;
}

static bool add_lists(struct list_inference *inference, const uint8_t *p, const uint8_t *end, struct wire_trouble *t)
{
    while (p < end) {
        struct wire_field field;
        p = wire_next(p, end, &field, t);
        if (!p || (field.tag == WIRE_TAG(1, WIRE_BYTES) && !add_list(inference, field.data, p, t)))
            return false;
    }
    return true;
}

pst_status list_inference_add(struct list_inference *inference, const void *data, size_t length, pst_error *reterr)
{
    const uint8_t *p = data, *end = length ? p + length : p;
    struct wire_trouble t = {.status = PST_OK};
    inference->examples++;
    while (p && p < end) {
        struct wire_field field;
        p = wire_next(p, end, &field, &t);
        if (p && field.tag == WIRE_TAG(2, WIRE_BYTES) && !add_lists(inference, field.data, p, &t))
            p = NULL;
    }
    if (t.status == PST_OK)
        return PST_OK;
    return pst_fail(reterr, t.status, "SequenceExample, byte %zu: %s", (size_t)(t.at - (const uint8_t *)data), t.text);
}

pst_status list_inference_schema(const struct list_inference *inference, pst_schema **ret, pst_error *reterr)
{
    pst_feature *features = mem_array(inference->count, sizeof(*features));
    size_t count = 0;
    if (!features)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for a schema of %zu feature lists", inference->count);
    for (size_t i = 0; i < inference->count; i++) {
        const struct inferred_list *l = &inference->lists[i];
        if (l->kind == PST_KIND_NONE)
            continue; /* without a value its kind is unknown */
        pst_feature *f = &features[count++];
        *f = (pst_feature){.name = l->name, .kind = l->kind, .layout = l->varies || l->count == 0 ? PST_VARIABLE : PST_FIXED};
        f->rank = f->layout == PST_FIXED && l->count > 1;
        f->shape[0] = f->rank ? l->count : 0;
        f->has_default = f->layout == PST_FIXED && l->seen < inference->examples;
        f->fallback.kind = l->kind;
    }
    pst_status st = pst_schema_create(ret, features, count, reterr);
    mem_free(features);
    return st;
}

void list_inference_finish(struct list_inference *inference)
{
    for (size_t i = 0; i < inference->count; i++)
        mem_free(inference->lists[i].name);
    mem_free(inference->lists);
    feature_finish(&inference->step);
    *inference = (struct list_inference){0};
}
