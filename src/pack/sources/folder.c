/* folder.c: images in class folders, as Keras' image_dataset_from_directory reads them.
 *
 * Each direct subfolder is a class, numbered in byte order; its images are all files below it with an image's extension.
 * Images without subfolders around them have no labels. Subfolders that are all called train, test, validation or the
 * like and hold folders themselves are splits; the classes lie within them. */
#include "pack/sources/files.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/names.h"
#include "io/walk.h"
#include "pack/disk.h"
#include "pack/report.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* A folder whose subfolders are classes. */
struct top {
    const char *source; /* keys are relative to it */
    const char *path;
    const char *split; /* NULL: the source does not say */
};

struct scan {
    struct pack_source *s;
    const struct pack_opening *o;
    struct top *tops;
    size_t top_count, top_capacity;
    struct names classes, splits;
    size_t unlabelled; /* tops without class folders */
    uint64_t others;   /* files whose names are not those of images */
    uint64_t stray;    /* images beside class folders */
    const char *some_other, *some_stray, *some_empty;
};

static pst_status folder_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    (void)path, (void)reterr;
    *ret = info && info->is_folder;
    return PST_OK;
}

static pst_status add_top(struct scan *c, const char *source, const char *path, const char *split, pst_error *reterr)
{
    void *tops = c->tops;
    struct top t = {.source = source, .path = arena_strndup(&c->s->arena, path, strlen(path))};
    if (!t.path || mem_grow(&tops, &c->top_capacity, c->top_count + 1, sizeof(*c->tops)) < 0)
        return fail_memory(reterr, "listing the folders");
    c->tops = tops;
    if (split) {
        t.split = file_base(t.path);
        if (names_add(&c->splits, &c->s->arena, split, strlen(split)) < 0)
            return fail_memory(reterr, "listing the folders");
    }
    c->tops[c->top_count++] = t;
    return PST_OK;
}

/* Finds the tops of one source, and the classes in them. */
static pst_status look_at(struct scan *c, const char *given, pst_error *reterr)
{
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    char *source = arena_strndup(&c->s->arena, given, n);
    if (!source)
        return fail_memory(reterr, "listing the folders");
    bool inside, splits = false;
    pst_status st = disk_is_inside(c->s->config->whole, source, &inside, reterr);
    if (st < 0)
        return st;
    if (inside)
        return pst_fail_at(reterr, PST_EINVAL, c->s->config->whole, PST_NOWHERE, PST_NOWHERE,
                           "the output folder lies inside the source %s; choose another place", source);
    struct path_list folders = {0};
    size_t first = c->top_count;
    st = walk_folders(&folders, source, reterr);
    if (st == PST_OK)
        st = splits_are(&folders, &splits, reterr);
    if (st == PST_OK && !splits)
        st = add_top(c, source, source, NULL, reterr);
    for (size_t i = 0; st == PST_OK && splits && i < folders.count; i++)
        st = add_top(c, source, folders.paths[i], file_base(folders.paths[i]), reterr);
    path_list_finish(&folders);
    for (size_t t = first; st == PST_OK && t < c->top_count; t++) {
        st = walk_folders(&folders, c->tops[t].path, reterr);
        c->unlabelled += st == PST_OK && folders.count == 0;
        for (size_t i = 0; st == PST_OK && i < folders.count; i++) {
            const char *name = file_base(folders.paths[i]);
            st = names_add(&c->classes, &c->s->arena, name, strlen(name)) < 0 ? fail_memory(reterr, "listing the folders")
                                                                              : PST_OK;
        }
        path_list_finish(&folders);
    }
    return st;
}

static const char *below(const char *source, const char *path)
{
    path += strlen(source);
    while (*path == '/')
        path++;
    return path;
}

/* Adds the images among the files of a folder. */
static pst_status take_files(struct scan *c, const char *source, const char *folder, bool recursive, int64_t label,
                             pst_error *reterr)
{
    struct pack_source *s = c->s;
    struct path_list files = {0};
    uint64_t before = s->count;
    pst_status st = walk_files(&files, folder, recursive, reterr);
    for (size_t i = 0; st == PST_OK && i < files.count; i++) {
        const char *path = files.paths[i], *key = below(source, path);
        if (pack_source_is_image_name(path)) {
            st = files_add(s, path, key, (union file_label){.number = label}, reterr);
        } else {
            if (!c->others++)
                c->some_other = arena_strndup(&s->arena, key, strlen(key));
        }
        if (st == PST_OK)
            st = pack_ticker_tell(c->o->ticker, "listing", s->count, 0, s->bytes, false, reterr);
    }
    path_list_finish(&files);
    if (st == PST_OK && s->count == before && label != FILES_NO_LABEL && !c->some_empty)
        c->some_empty = arena_strndup(&s->arena, folder, strlen(folder));
    return st;
}

/* Images that lie beside the class folders belong to no class. */
static pst_status count_strays(struct scan *c, const struct top *t, pst_error *reterr)
{
    struct path_list files = {0};
    pst_status st = walk_files(&files, t->path, false, reterr);
    for (size_t i = 0; st == PST_OK && i < files.count; i++) {
        const char *key = below(t->source, files.paths[i]);
        if (!pack_source_is_image_name(key))
            continue;
        if (!c->stray++)
            c->some_stray = arena_strndup(&c->s->arena, key, strlen(key));
    }
    path_list_finish(&files);
    return st;
}

static pst_status take_top(struct scan *c, const struct top *t, bool labelled, pst_error *reterr)
{
    int64_t split = t->split && c->s->split_count ? names_find(&c->splits, t->split, strlen(t->split)) : 0;
    pst_status st = files_add_root(c->s, t->source, (unsigned)split, reterr);
    if (st < 0)
        return st;
    if (!labelled)
        return take_files(c, t->source, t->path, false, FILES_NO_LABEL, reterr);
    struct path_list folders = {0};
    st = walk_folders(&folders, t->path, reterr);
    for (size_t i = 0; st == PST_OK && i < folders.count; i++) {
        const char *name = file_base(folders.paths[i]);
        st = take_files(c, t->source, folders.paths[i], true, names_find(&c->classes, name, strlen(name)), reterr);
    }
    path_list_finish(&folders);
    return st < 0 ? st : count_strays(c, t, reterr);
}

static pst_status tell(struct scan *c, pst_error *reterr)
{
    struct pack_report *r = c->o->report;
    pst_status st = PST_OK;
    if (c->others)
        st = pack_report_note(r, reterr, "left out: %" PRIu64 " file%s without an image's extension, such as %s", c->others,
                              c->others == 1 ? "" : "s", c->some_other ? c->some_other : "?");
    if (st == PST_OK && c->stray)
        st = pack_report_note(r, reterr, "left out: %" PRIu64 " image%s beside the class folders, such as %s", c->stray,
                              c->stray == 1 ? "" : "s", c->some_stray ? c->some_stray : "?");
    if (st == PST_OK && c->some_empty)
        st = pack_report_note(r, reterr, "class folders without images keep their number, such as %s", c->some_empty);
    if (st == PST_OK && c->splits.count && c->s->config->options.split)
        st = pack_report_note(r, reterr, "the folders %s, … are split again, as split= requests", c->splits.names[0]);
    return st;
}

static pst_status keep(const struct names *n, struct pack_source *s, const char *const **ret, size_t *ret_count,
                       pst_error *reterr)
{
    *ret = names_keep(n, &s->arena);
    *ret_count = *ret ? n->count : 0;
    return *ret ? PST_OK : fail_memory(reterr, "listing the folders");
}

static pst_status folder_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct scan c = {.s = s, .o = o};
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++)
        st = look_at(&c, o->paths[i], reterr);
    names_number(&c.classes);
    names_number(&c.splits);
    bool labelled = c.unlabelled == 0;
    if (st == PST_OK && c.unlabelled && c.unlabelled < c.top_count)
        st = pst_fail(reterr, PST_EINVAL,
                      "some of the folders hold class folders and some hold images: pack them one kind at a time");
    if (st == PST_OK)
        st = files_create(s, labelled, false, reterr);
    if (st == PST_OK && labelled)
        st = keep(&c.classes, s, &s->class_names, &s->class_count, reterr);
    if (st == PST_OK && c.splits.count && !s->config->options.split)
        st = keep(&c.splits, s, &s->split_names, &s->split_count, reterr);
    for (size_t i = 0; st == PST_OK && s->split_count && i < c.top_count; i++)
        if (!c.tops[i].split)
            st = pst_fail_at(reterr, PST_EINVAL, c.tops[i].path, PST_NOWHERE, PST_NOWHERE,
                             "has no train, test, … folders while another source has; say how to divide with split=");
    for (size_t i = 0; i < s->class_count; i++) /* an empty class shows in the labels alone */
        pack_source_mix(s, s->class_names[i], strlen(s->class_names[i]) + 1);
    for (size_t i = 0; st == PST_OK && i < c.top_count; i++)
        st = take_top(&c, &c.tops[i], labelled, reterr);
    if (st == PST_OK)
        st = tell(&c, reterr);
    names_finish(&c.classes);
    names_finish(&c.splits);
    mem_free(c.tops);
    return st;
}

const struct pack_source_class pack_source_folder = {
    .name = "folder",
    .doc = "images in class folders, or images alone",
    .images = true,
    .matches = folder_matches,
    .open = folder_open,
    .close = files_close,
    .key = files_key,
    .estimate = files_estimate,
    .split = files_split,
    .worker_size = sizeof(struct files_worker),
    .load = files_load,
    .worker_finish = files_worker_finish,
};
