/* recipe.c: the source's fields, what follows from an item, and the caller's renames, put together.
 *
 * Promises: every feature has a name of its own. Leaves to others: the values. */
#include "pack/recipe.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/nearest.h"

#include <string.h>

bool recipe_is_image_shape(const struct pack_field *f)
{
    return f->role == PACK_PIXELS && (f->rank == 2 || (f->rank == 3 && (f->shape[2] == 1 || f->shape[2] == 3))) &&
           f->shape[0] > 0 && f->shape[1] > 0 && f->shape[0] <= UINT16_MAX && f->shape[1] <= UINT16_MAX;
}

/* An encoded image if there is one; among arrays, when image options ask for it, the one called so, or the first. */
static int find_image(const struct pack_source *s, bool touched)
{
    static const char *const usual[] = {"image", "images", "x"};
    int found = -1;
    for (size_t i = 0; i < s->field_count; i++) {
        const struct pack_field *f = &s->fields[i];
        if (f->role == PACK_IMAGE)
            return (int)i;
        if (!touched || !recipe_is_image_shape(f))
            continue;
        for (size_t k = 0; k < sizeof(usual) / sizeof(usual[0]); k++)
            if (strcmp(f->name, usual[k]) == 0)
                return (int)i;
        found = found < 0 ? (int)i : found;
    }
    return found;
}

static const struct pack_rename *rename_of(const struct pack_config *c, const char *name)
{
    for (size_t i = 0; i < c->rename_count; i++)
        if (strcmp(c->renames[i].from, name) == 0)
            return &c->renames[i];
    return NULL;
}

static pst_status add(struct recipe *r, enum ingredient from, size_t field, const char *name, pst_kind kind, pst_error *reterr)
{
    void *features = r->features;
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->features[i].name, name) == 0)
            return pst_fail(reterr, PST_EINVAL, "two features are called \"%s\"; rename one with features=old=new", name);
    if (!text_is_utf8(name, strlen(name)))
        return pst_fail(reterr, PST_EINVAL,
                        "the feature \"%s\" is not UTF-8, as protobuf requires; rename it with features=", name);
    if (mem_grow(&features, &r->capacity, r->count + 1, sizeof(*r->features)) < 0)
        return fail_memory(reterr, "naming the features");
    r->features = features;
    r->features[r->count++] = (struct feature_spec){from, field, name, strlen(name), kind};
    return PST_OK;
}

/* Adds what follows from an item, by default or because it is named. */
static pst_status add_derived(struct recipe *r, enum ingredient from, const char *name, bool by_default, pst_error *reterr)
{
    const struct pack_rename *rename = rename_of(r->source->config, name);
    if (rename ? !*rename->to : !by_default)
        return PST_OK;
    return add(r, from, 0, rename ? rename->to : name, from == FROM_KEY ? PST_BYTES : PST_INT64, reterr);
}

/* A name in features= that nothing goes by. */
static pst_status check_renames(const struct pack_source *s, bool image, pst_error *reterr)
{
    const struct pack_config *c = s->config;
    const char **known = mem_array(s->field_count + 5, sizeof(*known));
    if (!known)
        return fail_memory(reterr, "naming the features");
    size_t n = 0;
    for (; n < s->field_count; n++)
        known[n] = s->fields[n].name;
    known[n++] = "key";
    if (image) {
        known[n++] = "width";
        known[n++] = "height";
        known[n++] = "channels";
    }
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < c->rename_count; i++) {
        const char *name = c->renames[i].from, *nearest;
        size_t k = 0;
        while (k < n && strcmp(known[k], name))
            k++;
        if (k < n)
            continue;
        nearest = text_nearest(name, known);
        st = pst_fail(reterr, PST_EINVAL, "features: the source has no \"%s\"%s%s", name, nearest ? "; perhaps " : "",
                      nearest ? nearest : "");
    }
    mem_free(known);
    return st;
}

pst_status recipe_init(struct recipe *r, const struct pack_source *s, pst_error *reterr)
{
    const struct pack_config *c = s->config;
    r->source = s;
    r->transforms = pack_config_touches_images(c);
    r->image = find_image(s, r->transforms);
    r->whole = s->fields[0].role == PACK_RECORD;
    if (r->whole)
        return PST_OK;
    if (r->transforms && r->image < 0)
        return pst_fail(reterr, PST_EINVAL,
                        "image options were given, but no feature is an image (arrays: uint8 of shape H×W, H×W×1 or H×W×3)");
    pst_status st = check_renames(s, r->image >= 0, reterr);
    for (size_t i = 0; st == PST_OK && i < s->field_count; i++) {
        const struct pack_rename *rename = rename_of(c, s->fields[i].name);
        if (!rename || *rename->to)
            st = add(r, FROM_FIELD, i, rename ? rename->to : s->fields[i].name, s->fields[i].kind, reterr);
        r->stores_image |= (int)i == r->image && !(rename && !*rename->to);
    }
    bool sizes = r->image >= 0,
         raw = sizes && (c->options.format == PST_IMAGE_RAW ||
                         (c->options.format == PST_IMAGE_UNKNOWN && s->fields[r->image].role == PACK_PIXELS));
    if (st == PST_OK)
        st = add_derived(r, FROM_KEY, "key", s->stores_key, reterr);
    if (st == PST_OK && sizes)
        st = add_derived(r, FROM_WIDTH, "width", true, reterr);
    if (st == PST_OK && sizes)
        st = add_derived(r, FROM_HEIGHT, "height", true, reterr);
    if (st == PST_OK && sizes)
        st = add_derived(r, FROM_CHANNELS, "channels", raw, reterr);
    if (st == PST_OK && r->count == 0)
        st = pst_fail(reterr, PST_EINVAL, "features: everything is left out, nothing would be stored");
    return st;
}

void recipe_finish(struct recipe *r)
{
    mem_free(r->features);
    *r = (struct recipe){0};
}
