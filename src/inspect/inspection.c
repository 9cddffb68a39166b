/* inspection.c: pst_inspect from paths to result: finds the shards, has them surveyed, and lays out what was found. */
#include "inspect/inspection.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "inspect/read_shards.h"
#include "inspect/readable.h"
#include "record/find.h"
#include "record/label_names.h"

#include <math.h>
#include <stdlib.h>

#define DEFAULT_SAMPLE 100000u

const char *pst_content_name(pst_content content)
{
    static const char *const names[] = {"empty", "examples", "events", "other", "sequences"};
    return (unsigned)content < sizeof(names) / sizeof(names[0]) ? names[content] : "unknown";
}

/* A zeroed array in the inspection's memory. */
static void *keep_array(struct inspection *n, size_t count, size_t size)
{
    size_t bytes;
    void *array = __builtin_mul_overflow(count, size, &bytes) ? NULL : arena_alloc(&n->memory, bytes ? bytes : 1);
    return array ? memset(array, 0, bytes) : NULL;
}

/* The bytes as printable text in the inspection's memory; NULL: out of memory. */
static const char *keep_text(struct inspection *n, const void *bytes, size_t length)
{
    struct text t = {0};
    readable_add(&t, bytes, length, SIZE_MAX);
    char *kept = t.failed ? NULL : arena_strndup(&n->memory, t.data ? t.data : "", t.length);
    text_finish(&t);
    return kept;
}

/* ---- Features ---- */

/* Features by name, then kind. */
struct order {
    const struct feature_table *table;
    size_t i;
};

static int compare_features(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    size_t x_length, y_length;
    const char *x_name = feature_name(x->table, x->i, &x_length), *y_name = feature_name(y->table, y->i, &y_length);
    int difference = memcmp(x_name, y_name, x_length < y_length ? x_length : y_length);
    if (difference == 0 && x_length != y_length)
        difference = x_length < y_length ? -1 : 1;
    return difference ? difference : (int)feature_kind(x->table, x->i) - (int)feature_kind(y->table, y->i);
}

static pst_status lay_feature(struct inspection *n, pst_inspect_feature *to, const struct feature_table *t, size_t i,
                              pst_error *reterr)
{
    const struct feature_stats *s = &t->stats[i];
    bool everywhere = s->present == n->public.parsed && s->min_count == s->max_count;
    size_t length;
    const char *name = feature_name(t, i, &length);
    *to = (pst_inspect_feature){.name = keep_text(n, name, length),
                                .kind = feature_kind(t, i),
                                .layout = feature_in_list(t, i) ? PST_RAGGED
                                          : everywhere          ? PST_FIXED
                                                                : PST_VARIABLE,
                                .present = s->present,
                                .min_count = s->min_count,
                                .max_count = s->max_count,
                                .min_bytes = s->min_bytes == UINT64_MAX ? 0 : s->min_bytes,
                                .max_bytes = s->max_bytes,
                                .min = s->finite ? s->min : NAN,
                                .max = s->finite ? s->max : NAN,
                                .mean = s->finite ? s->sum / (double)s->finite : NAN,
                                .image = feature_is_image(s),
                                .text = s->values && s->texts == s->values,
                                .nonfinite = s->nonfinite,
                                .preview = keep_text(n, s->preview ? s->preview : "", s->preview ? strlen(s->preview) : 0)};
    const char *plain = feature_plain_name(t, i), **kept = &n->names[to - n->public.feature];
    *kept = plain ? arena_strndup(&n->memory, plain, length) : NULL;
    return to->name && to->preview && (*kept || !plain) ? PST_OK
                                                        : fail_memory(reterr, "allocating the result of the inspection");
}

static pst_status lay_features(struct inspection *n, const struct feature_table *t, pst_error *reterr)
{
    pst_inspect_feature *features = keep_array(n, t->keys.count, sizeof(*features));
    struct order *order = mem_array(t->keys.count ? t->keys.count : 1, sizeof(*order));
    n->names = keep_array(n, t->keys.count, sizeof(*n->names));
    n->public.feature = features;
    pst_status st = features && order && n->names ? PST_OK : fail_memory(reterr, "allocating the result of the inspection");
    for (size_t i = 0; i < t->keys.count && st == PST_OK; i++)
        order[i] = (struct order){t, i};
    if (st == PST_OK)
        qsort(order, t->keys.count, sizeof(*order), compare_features);
    for (size_t i = 0; i < t->keys.count && st == PST_OK; i++)
        st = lay_feature(n, &features[i], t, order[i].i, reterr);
    mem_free(order);
    n->public.features = t->keys.count;
    n->public.features_cut = t->full;
    return st;
}

/* ---- Schema ---- */

/* Whether one schema can describe the records: Examples, and every name of one kind. */
static bool has_schema(const struct inspection *n)
{
    const pst_inspection *p = &n->public;
    for (size_t i = 0; i < p->features; i++) {
        if (!n->names[i] || (i && n->names[i - 1] && strcmp(n->names[i], n->names[i - 1]) == 0))
            return false;
    }
    return p->content == PST_CONTENT_EXAMPLES && p->features > 0 && !p->features_cut;
}

static pst_status write_schema(struct inspection *n, const pst_schema *schema, pst_error *reterr)
{
    for (size_t size = 256;; size *= 2) {
        char *buffer = mem_alloc(size);
        if (!buffer)
            return fail_memory(reterr, "allocating the result of the inspection");
        pst_schema_text(schema, buffer, size);
        size_t length = strlen(buffer);
        bool whole = length + 8 < size; /* a cut text is shorter than its buffer by less than a character */
        if (whole)
            n->public.schema = arena_strndup(&n->memory, buffer, length);
        mem_free(buffer);
        if (whole)
            return n->public.schema ? PST_OK : fail_memory(reterr, "allocating the result of the inspection");
    }
}

static pst_status lay_schema(struct inspection *n, pst_error *reterr)
{
    const pst_inspection *p = &n->public;
    n->public.schema = "";
    if (!has_schema(n))
        return PST_OK;
    pst_feature *features = mem_array(p->features, sizeof(*features));
    if (!features)
        return fail_memory(reterr, "allocating the result of the inspection");
    for (size_t i = 0; i < p->features; i++) {
        const pst_inspect_feature *f = &p->feature[i];
        features[i] = (pst_feature){.name = n->names[i], .kind = f->kind, .layout = f->layout};
        if (f->layout == PST_FIXED && f->max_count != 1) {
            features[i].rank = 1;
            features[i].shape[0] = f->max_count;
        }
    }
    pst_schema *schema;
    pst_status st = pst_schema_create(&schema, features, p->features, reterr);
    mem_free(features);
    if (st < 0) /* a name or a shape that no schema can have: then there is none to show */
        return st == PST_ENOMEM ? st : PST_OK;
    st = write_schema(n, schema, reterr);
    pst_schema_destroy(schema);
    return st;
}

/* ---- Classes ---- */

static int compare_classes(const void *a, const void *b)
{
    const pst_inspect_class *x = a, *y = b;
    return x->label != y->label ? (x->label < y->label ? -1 : 1) : strcmp(x->name, y->name);
}

static pst_status read_names(struct inspection *n, struct label_names *ret, pst_error *reterr)
{
    char **paths = mem_array(n->public.shards, sizeof(*paths));
    if (!paths)
        return fail_memory(reterr, "reading the names of the classes");
    for (size_t i = 0; i < n->public.shards; i++)
        paths[i] = (char *)(uintptr_t)n->shards[i].path;
    pst_status st = label_names_read(ret, paths, n->public.shards, n->choice.label_feature, reterr);
    mem_free(paths);
    return st;
}

static pst_status lay_classes(struct inspection *n, const struct class_table *t, pst_error *reterr)
{
    pst_inspect_class *classes = keep_array(n, t->keys.count, sizeof(*classes));
    struct label_names names = {0};
    bool numbers = n->choice.label_kind == PST_INT64;
    pst_status st = classes ? PST_OK : fail_memory(reterr, "allocating the result of the inspection");
    if (st == PST_OK && numbers && t->keys.count)
        st = read_names(n, &names, reterr);
    for (size_t i = 0; i < t->keys.count && st == PST_OK; i++) {
        int64_t label = numbers ? class_number(t, i) : 0;
        const char *name = numbers ? label_name(&names, label) : name_table_at(&t->keys, i);
        classes[i].label = label;
        classes[i].records = t->counts[i];
        classes[i].name = keep_text(n, name, numbers ? strlen(name) : t->keys.names[i].length);
        st = classes[i].name ? PST_OK : fail_memory(reterr, "allocating the result of the inspection");
    }
    label_names_finish(&names);
    if (st < 0)
        return st;
    qsort(classes, t->keys.count, sizeof(*classes), compare_classes);
    for (size_t i = 0; i < t->keys.count && !numbers; i++)
        classes[i].label = (int64_t)i;
    n->public.class_ = classes;
    n->public.classes = t->keys.count;
    n->public.classes_cut = t->overflow;
    return PST_OK;
}

/* ---- What the caller asked for by name ---- */

static pst_status check_feature(const struct inspection *n, const char *name, pst_kind first, pst_kind second, const char *role,
                                pst_error *reterr)
{
    const pst_inspection *p = &n->public;
    const pst_inspect_feature *found = NULL;
    if (!name || !p->parsed)
        return PST_OK;
    for (size_t i = 0; i < p->features; i++) {
        if (!n->names[i] || strcmp(n->names[i], name) != 0)
            continue;
        found = &p->feature[i];
        if (found->kind == first || found->kind == second)
            return PST_OK;
    }
    if (found)
        return pst_fail(reterr, PST_EINVAL, "the feature \"%s\" has %s values and cannot be the %s, which takes %s%s%s", name,
                        pst_kind_name(found->kind), role, pst_kind_name(first), first == second ? "" : " or ",
                        first == second ? "" : pst_kind_name(second));
    return pst_fail(reterr, PST_EINVAL, "no record has a feature \"%s\" to take as the %s; the records have %s%s%s", name,
                    role, p->features ? p->feature[0].name : "none", p->features > 1 ? ", " : "",
                    p->features > 2   ? "…"
                    : p->features > 1 ? p->feature[1].name
                                      : "");
}

/* ---- All of it ---- */

pst_inspection *pst_inspection_destroy(pst_inspection *inspection)
{
    struct inspection *n = (struct inspection *)inspection;
    if (!n)
        return NULL;
    choice_finish(&n->choice);
    pst_damage_log_destroy(n->damage);
    mem_free(n->cache_dir);
    arena_finish(&n->memory);
    mem_free(n);
    return NULL;
}

static pst_status list_shards(struct inspection *n, const char *const *paths, size_t count, bool allow_missing,
                              pst_error *reterr)
{
    char **found;
    size_t found_count;
    pst_status st = pst_shards_find(&found, &found_count, paths, count, reterr);
    if (st < 0)
        return st;
    if (!allow_missing)
        st = find_missing(&(struct path_list){.paths = found, .count = found_count}, paths, count,
                          "`penstock inspect --allow-missing` reads the others", reterr);
    if (st < 0) {
        pst_free(found);
        return st;
    }
    n->shards = keep_array(n, found_count, sizeof(*n->shards));
    st = n->shards ? PST_OK : fail_memory(reterr, "allocating the result of the inspection");
    for (size_t i = 0; i < found_count && st == PST_OK; i++) {
        n->shards[i].path = arena_strndup(&n->memory, found[i], strlen(found[i]));
        st = n->shards[i].path ? PST_OK : fail_memory(reterr, "allocating the result of the inspection");
    }
    pst_free(found);
    n->public.shard = n->shards;
    n->public.shards = found_count;
    return st;
}

static pst_status lay_out(struct inspection *n, struct findings *f, const pst_inspect_options *options, pst_error *reterr)
{
    pst_inspection *p = &n->public;
    for (size_t i = 0; i < p->shards; i++) {
        p->records += p->shard[i].records;
        p->bytes += p->shard[i].bytes;
        p->fingerprint = hash_combine(p->fingerprint, p->shard[i].fingerprint);
    }
    p->content = p->records ? n->choice.content : PST_CONTENT_EMPTY;
    p->parsed = f->parsed;
    p->images = image_stats_result(&f->images);
    p->image_feature = n->choice.image_feature;
    p->label_feature = n->choice.label_feature;
    pst_status st = findings_need_log(f, reterr);
    if (st < 0)
        return st;
    p->damage = n->damage = f->damage;
    f->damage = NULL; /* it is the inspection's now */
    st = lay_features(n, &f->features, reterr);
    if (st == PST_OK)
        st = check_feature(n, options->image_feature, PST_BYTES, PST_BYTES, "image", reterr);
    if (st == PST_OK)
        st = check_feature(n, options->label_feature, PST_INT64, PST_BYTES, "label", reterr);
    if (st == PST_OK)
        st = lay_schema(n, reterr);
    if (st == PST_OK)
        st = lay_classes(n, &f->classes, reterr);
    return st;
}

pst_status pst_inspect(const char *const *paths, size_t count, const pst_inspect_options *options, pst_inspection **ret,
                       pst_error *reterr)
{
    pst_inspect_options given = {0};
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st < 0)
        return st;
    given.sample = given.sample ? given.sample : DEFAULT_SAMPLE;
    struct inspection *n = mem_zalloc(sizeof(*n));
    if (!n)
        return fail_memory(reterr, "allocating the result of the inspection");
    struct findings found = {0};
    n->max_record_bytes = given.max_record_bytes;
    n->cache_dir = given.cache_dir ? mem_strdup(given.cache_dir) : NULL;
    st = given.cache_dir && !n->cache_dir ? fail_memory(reterr, "allocating the result of the inspection")
                                          : list_shards(n, paths, count, given.allow_missing, reterr);
    if (st == PST_OK)
        st = survey(n->shards, n->public.shards, &given, &n->choice, &found, reterr);
    if (st == PST_OK)
        st = lay_out(n, &found, &given, reterr);
    findings_finish(&found);
    if (st < 0) {
        pst_inspection_destroy(&n->public);
        return st;
    }
    *ret = &n->public;
    return PST_OK;
}
