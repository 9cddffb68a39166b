/* pack_source.c: the list of sources, which of them a path belongs to, and what they share.
 *
 * Promises: all paths of one call belong to one class, and a source that opens has at least one item. Leaves to the
 * classes: everything about the formats themselves. */
#include "pack/pack_source.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/nearest.h"
#include "base/text.h"
#include "io/list.h"
#include "io/remote/remote.h"
#include "io/walk.h"
#include "pack/disk.h"
#include "pack/report.h"
#include "record/find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* In the order in which a path is offered to them: what is surer comes first. */
static const struct pack_source_class *const classes[] = {
    &pack_source_tfrecord, &pack_source_tar, &pack_source_npy,  &pack_source_hdf5,
    &pack_source_list,     &pack_source_csv, &pack_source_text, &pack_source_folder,
};
#define CLASSES (sizeof(classes) / sizeof(classes[0]))

static pst_status class_by_name(const struct pack_source_class **ret, const char *name, pst_error *reterr)
{
    const char *names[CLASSES + 1] = {0};
    struct text all = {0};
    for (size_t i = 0; i < CLASSES; i++) {
        if (strcmp(classes[i]->name, name) == 0) {
            *ret = classes[i];
            text_finish(&all);
            return PST_OK;
        }
        names[i] = classes[i]->name;
        text_addf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = text_nearest(name, names);
    pst_fail(reterr, PST_EINVAL, "from \"%s\": unknown%s%s; there are %s", name, nearest ? "; perhaps " : "",
             nearest ? nearest : "", all.data ? all.data : "others");
    text_finish(&all);
    return PST_EINVAL;
}

static pst_status class_of_path(const struct pack_source_class **ret, const char *path, pst_error *reterr)
{
    struct file_info info;
    if (strcmp(path, "-") == 0)
        return pst_fail(reterr, PST_EINVAL,
                        "standard input has no name to recognise it by; say what it is: from=csv, text, tar, …");
    pst_status found = file_stat(path, &info, reterr), st = found == PST_ENOTFOUND ? PST_OK : found;
    for (size_t i = 0; st == PST_OK && i < CLASSES; i++) {
        bool matches = false;
        pst_error error;
        st = classes[i]->matches(path, found == PST_OK ? &info : NULL, &matches, &error);
        if (st < 0)
            *reterr = error;
        *ret = classes[i];
        if (matches)
            return st;
    }
    if (st == PST_OK && found == PST_ENOTFOUND && !remote_is(path))
        return pst_fail_at(reterr, found, path, PST_NOWHERE, PST_NOWHERE, "no such file or folder; check the spelling");
    if (st < 0 || found < 0)
        return st < 0 ? st : found;
    return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                       "its name does not show its kind; name it: from=folder, list, csv, tar, npy, hdf5, text or tfrecord");
}

static pst_status find_class(struct pack_source *s, const struct path_list *paths, pst_error *reterr)
{
    if (s->config->options.from)
        return class_by_name(&s->class, s->config->options.from, reterr);
    for (size_t i = 0; i < paths->count; i++) {
        const struct pack_source_class *class = NULL;
        pst_status st = class_of_path(&class, paths->paths[i], reterr);
        if (st < 0)
            return st;
        if (s->class && s->class != class)
            return pst_fail_at(reterr, PST_EINVAL, paths->paths[i], PST_NOWHERE, PST_NOWHERE,
                               "is a %s source while %s is %s: pack sources of one kind at a time, or force one with from=",
                               class->name, paths->paths[0], s->class->name);
        s->class = class;
    }
    return PST_OK;
}

static pst_status expand(struct path_list *ret, const char *const *paths, size_t count, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < count; i++)
        st = strpbrk(paths[i], "*?[") ? walk_glob(ret, paths[i], reterr) : path_list_add(ret, paths[i], reterr);
    if (st == PST_OK && ret->count == 0)
        st = pst_fail(reterr, PST_EINVAL, "nothing to pack: no source is named");
    return st;
}

/* Shards that a pattern should match, as the numbers in the names of the others say. */
static pst_status check_sets(const char *const *paths, size_t count, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < count; i++) {
        struct path_list found = {0};
        if (!strpbrk(paths[i], "*?["))
            continue;
        st = walk_glob(&found, paths[i], reterr);
        if (st == PST_OK && found.count > 0)
            qsort(found.paths, found.count, sizeof(*found.paths), text_compare);
        if (st == PST_OK)
            st = find_missing(&found, &paths[i], 1, "name the files to pack the others", reterr);
        path_list_finish(&found);
    }
    return st;
}

/* The output folder is ours to replace: a source in it could be overwritten by what is made of it. */
static pst_status check_places(const struct pack_source *s, const struct path_list *paths, pst_error *reterr)
{
    for (size_t i = 0; i < paths->count; i++) {
        bool inside;
        pst_status st = disk_is_inside(paths->paths[i], s->config->whole, &inside, reterr);
        if (st < 0)
            return st;
        if (inside)
            return pst_fail_at(reterr, PST_EINVAL, paths->paths[i], PST_NOWHERE, PST_NOWHERE,
                               "the source lies inside the output folder %s; choose another place", s->config->whole);
    }
    return PST_OK;
}

static pst_status check_options(const struct pack_source *s, pst_error *reterr)
{
    const struct pack_config *c = s->config;
    if (!s->class->images && pack_config_touches_images(c))
        return pst_fail(reterr, PST_EINVAL,
                        "resize, format, quality, channels and augment apply to images; a %s source has none", s->class->name);
    if ((c->options.columns || c->options.no_header) && s->class != &pack_source_csv)
        return pst_fail(reterr, PST_EINVAL, "columns= is for csv, as are tables without a header; the source is %s", s->class->name);
    return PST_OK;
}

pst_status pack_source_open(struct pack_source *ret, const struct pack_config *config, const char *const *paths, size_t count,
                            const char *spool_folder, struct pack_report *report, struct pack_ticker *ticker, pst_error *reterr)
{
    struct pack_source s = {.config = config};
    struct path_list expanded = {0};
    arena_init(&s.arena);
    pst_status st = expand(&expanded, paths, count, reterr);
    if (st == PST_OK)
        st = find_class(&s, &expanded, reterr);
    if (st == PST_OK)
        st = check_options(&s, reterr);
    if (st == PST_OK)
        st = check_places(&s, &expanded, reterr);
    if (st == PST_OK && s.class == &pack_source_tfrecord)
        st = check_sets(paths, count, reterr);
    if (st == PST_OK) {
        struct pack_opening o = {(const char *const *)expanded.paths, expanded.count, spool_folder, report, ticker};
        st = s.class->open(&s, &o, reterr);
    }
    if (st == PST_OK && s.count == 0)
        st = pst_fail_at(reterr, PST_ENOTFOUND, expanded.paths[0], PST_NOWHERE, PST_NOWHERE,
                         "nothing to pack: there is no %s in it", s.class->images ? "image" : "record");
    path_list_finish(&expanded);
    if (st < 0) {
        pack_source_close(&s);
        return st;
    }
    *ret = s;
    return PST_OK;
}

void pack_source_close(struct pack_source *s)
{
    if (s->class && s->class->close)
        s->class->close(s);
    mem_free(s->fields);
    mem_free(s->carried);
    arena_finish(&s->arena);
    memset(s, 0, sizeof(*s));
}

struct pack_field *pack_source_add_field(struct pack_source *s, const char *name, enum pack_role role, pst_kind kind,
                                         const char *dtype)
{
    void *fields = s->fields;
    char *copy = arena_strndup(&s->arena, name, strlen(name));
    if (!copy || mem_grow(&fields, &s->field_capacity, s->field_count + 1, sizeof(*s->fields)) < 0)
        return NULL;
    s->fields = fields;
    struct pack_field *f = &s->fields[s->field_count++];
    *f = (struct pack_field){.name = copy, .role = role, .kind = kind, .dtype = dtype};
    return f;
}

void pack_source_mix(struct pack_source *s, const void *data, size_t length)
{
    s->fingerprint = hash_bytes(data, length, s->fingerprint);
}

void pack_source_mix_file(struct pack_source *s, const char *path, bool base, uint64_t size, int64_t mtime_ns)
{
    uint64_t numbers[2] = {size, (uint64_t)mtime_ns};
    size_t n = secret_free_length(path); /* the signature of an address differs from day to day */
    const char *slash = base ? memrchr(path, '/', n) : NULL, *name = slash ? slash + 1 : path, *end = path + n;
    pack_source_mix(s, name, (size_t)(end - name) + (*end == 0));
    pack_source_mix(s, numbers, sizeof(numbers));
    s->bytes += size;
}

static pst_status read_extent(const struct pack_value *v, void *buffer, pst_error *reterr)
{
    size_t got = 0;
    pst_status st = file_read_at(v->fd, v->path, buffer, v->length, v->offset, &got, reterr);
    if (st == PST_OK && got != v->length)
        st = pst_fail_at(reterr, PST_ESTALE, v->path, PST_NOWHERE, v->offset,
                         "ends after %zu of %zu bytes: it was changed while it was packed; run again", got, v->length);
    return st;
}

void pack_value_in_file(struct pack_value *v, int fd, const char *path, uint64_t offset, size_t length)
{
    *v = (struct pack_value){
        .present = true, .count = length, .length = length, .read = read_extent, .path = path, .fd = fd, .offset = offset};
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n > m && strncasecmp(s + n - m, end, m) == 0;
}

#define EXACT_WHOLE 16777216.0 /* 2^24: below, float32 rounds by less than one */

bool pack_float_loses(double value)
{
    return isfinite(value) && fabs(value) >= EXACT_WHOLE && (double)(float)value != value;
}

bool pack_source_is_image_extension(const char *extension)
{
    return list_is_image_extension(extension, strlen(extension));
}

bool pack_source_is_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot != name && pack_source_is_image_extension(dot + 1);
}

bool pack_source_has_extension(const char *path, const char *const *extensions)
{
    static const char *const compressed[] = {".gz", ".zst", ".zlib", ".zz"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof(compressed) / sizeof(compressed[0]); i++) {
        if (ends_with(path, n, compressed[i])) {
            n -= strlen(compressed[i]);
            break;
        }
    }
    for (; *extensions; extensions++)
        if (ends_with(path, n, *extensions))
            return true;
    return false;
}
