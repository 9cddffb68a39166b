/* inference.c: a schema from data.
 *
 * Every Example is walked in full. What is known of each name is kept sorted, as the walk is: no choice of names makes
 * looking up or adding slow. An Example that fails changes nothing. */
#include "record/parser.h"

#include "base/error.h"
#include "base/memory.h"

struct inferred {
    char *name; /* NUL-terminated */
    size_t name_length;
    pst_kind kind;
    size_t count;
    bool varies;   /* in count */
    uint64_t seen; /* Examples that have it */
};

struct pst_inference {
    pst_parser *parser;
    struct inferred *features; /* by the bytes of their names */
    size_t count, capacity;
    uint64_t examples;
};

static int compare(const struct inferred *f, pst_bytes name)
{
    size_t n = f->name_length < name.length ? f->name_length : name.length;
    int order = memcmp(f->name, name.data, n);
    return order ? order : (f->name_length > name.length) - (f->name_length < name.length);
}

static struct inferred *find(const pst_inference *inference, pst_bytes name)
{
    size_t low = 0, high = inference->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(&inference->features[middle], name);
        if (order == 0)
            return &inference->features[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Reports why an Example does not fit, and counts the new names. */
static pst_status judge(const pst_inference *inference, const pst_named_value *walked, size_t count, size_t *ret_new,
                        pst_error *reterr)
{
    size_t most = inference->parser->plan.limits.max_features, new_count = 0;
    char name[PLAN_NAME_BYTES];
    for (size_t i = 0; i < count; i++) {
        const pst_named_value *w = &walked[i];
        const struct inferred *f = find(inference, w->name);
        if (memchr(w->name.data, '\0', w->name.length))
            return pst_fail(reterr, PST_EUNSUPPORTED, "feature '%s': a name with a NUL byte, which no schema can hold",
                            plan_show_name(w->name, name));
        if (f && w->value.present && f->kind != w->value.kind)
            return pst_fail(reterr, PST_ETYPE, "feature '%s' is %s here, %s in the Examples before",
                            plan_show_name(w->name, name), pst_kind_name(w->value.kind), pst_kind_name(f->kind));
        new_count += !f && w->value.present;
    }
    if (new_count > most - inference->count)
        return pst_fail(reterr, PST_ELIMIT, "over %zu feature names in all; raise max_features to read on", most);
    *ret_new = new_count;
    return PST_OK;
}

/* Makes `new_count` features of the names that are not known yet, in order. Returns how many there was memory for. */
static size_t make_new(const pst_inference *inference, struct inferred *fresh, const pst_named_value *const *sorted,
                       size_t new_count)
{
    size_t made = 0;
    for (size_t i = 0; made < new_count; i++) {
        const pst_named_value *w = sorted[i];
        if (!w->value.present || find(inference, w->name))
            continue;
        char *name = mem_strndup((const char *)w->name.data, w->name.length);
        if (!name)
            break;
        fresh[made++] =
            (struct inferred){.name = name, .name_length = w->name.length, .kind = w->value.kind, .count = w->value.count};
    }
    return made;
}

/* Merges two sorted arrays from the back; `features` has room. */
static void merge(struct inferred *features, size_t count, const struct inferred *fresh, size_t new_count)
{
    while (new_count > 0) {
        const struct inferred *f = &fresh[new_count - 1];
        bool keep = count > 0 && compare(&features[count - 1], (pst_bytes){(const uint8_t *)f->name, f->name_length}) > 0;
        features[count + new_count - 1] = keep ? features[count - 1] : *f;
        count -= keep;
        new_count -= !keep;
    }
}

static pst_status add_new(pst_inference *inference, const pst_named_value *const *sorted, size_t new_count, pst_error *reterr)
{
    struct inferred *fresh = mem_array(new_count, sizeof(*fresh));
    void *features = inference->features;
    size_t made = fresh ? make_new(inference, fresh, sorted, new_count) : 0;
    bool ok = made == new_count &&
              mem_grow(&features, &inference->capacity, inference->count + new_count, sizeof(struct inferred)) == 0;
    inference->features = features;
    if (ok) {
        merge(inference->features, inference->count, fresh, new_count);
        inference->count += new_count;
    } else {
        while (made > 0)
            mem_free(fresh[--made].name);
    }
    mem_free(fresh);
    return ok ? PST_OK : fail_memory(reterr, "allocating %zu feature names", inference->count + new_count);
}

pst_status pst_inference_add(pst_inference *inference, const void *data, size_t length, pst_error *reterr)
{
    const pst_named_value *walked, *const *sorted;
    size_t count = 0, new_count = 0;
    pst_status st = parser_walk(inference->parser, data, length, &walked, &sorted, &count, reterr);
    if (st == PST_OK)
        st = judge(inference, walked, count, &new_count, reterr);
    if (st == PST_OK && new_count > 0)
        st = add_new(inference, sorted, new_count, reterr);
    if (st < 0)
        return st;
    for (size_t i = 0; i < count; i++) {
        struct inferred *f = walked[i].value.present ? find(inference, walked[i].name) : NULL;
        if (!f)
            continue;
        f->varies |= f->count != walked[i].value.count;
        f->seen++;
    }
    inference->examples++;
    return PST_OK;
}

pst_status pst_inference_schema(const pst_inference *inference, pst_schema **ret, pst_error *reterr)
{
    pst_feature *features = mem_array(inference->count, sizeof(*features));
    if (!features)
        return fail_memory(reterr, "allocating a schema of %zu features", inference->count);
    for (size_t i = 0; i < inference->count; i++) {
        const struct inferred *f = &inference->features[i];
        bool fixed = !f->varies && f->seen == inference->examples && f->count > 0;
        features[i] = (pst_feature){.name = f->name, .kind = f->kind, .layout = fixed ? PST_FIXED : PST_VARIABLE};
        features[i].rank = fixed && f->count > 1;
        features[i].shape[0] = features[i].rank ? f->count : 0;
    }
    pst_status st = pst_schema_create(ret, features, inference->count, reterr);
    mem_free(features);
    return st;
}

pst_status pst_inference_create(pst_inference **ret, const pst_limits *limits, pst_error *reterr)
{
    pst_inference *inference = mem_zalloc(sizeof(*inference));
    if (!inference)
        return fail_memory(reterr, "allocating an inference");
    pst_status st = pst_parser_create(&inference->parser, NULL, limits, reterr);
    if (st < 0) {
        pst_inference_destroy(inference);
        return st;
    }
    *ret = inference;
    return PST_OK;
}

pst_inference *pst_inference_destroy(pst_inference *inference)
{
    if (!inference)
        return NULL;
    for (size_t i = 0; i < inference->count; i++)
        mem_free(inference->features[i].name);
    mem_free(inference->features);
    pst_parser_destroy(inference->parser);
    mem_free(inference);
    return NULL;
}
