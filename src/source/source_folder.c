/* source_folder.c: `folder`: files in class folders, as Keras' image_dataset_from_directory sees them.
 *
 * Each direct subfolder is a class; classes are numbered in byte order of their names, empty ones too. A class has all files
 * below its folder that have one of the extensions, in byte order of their paths. The split for validation: all files are
 * put in a random order that depends on the seed and on their number alone, and the last share of them is for validation.
 * The remaining files keep the order of the folders: shuffling is a separate operation. */
#include "source/file_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/text.h"
#include "io/file.h"
#include "io/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LISTERS 8u

enum { LABELS_INFERRED, LABELS_NONE };
enum { SUBSET_ALL, SUBSET_TRAINING, SUBSET_VALIDATION };

struct config {
    const char *path;
    int labels;
    const char *extensions;
    double validation_split;
    int subset;
    uint64_t seed;
};

static const char *const labels_names[] = {"inferred", "none", NULL};
static const char *const subset_names[] = {"all", "training", "validation", NULL};

static const pst_param params[] = {
    {"path", PST_PARAM_STRING, offsetof(struct config, path), NULL, 0, 0, NULL, "the folder with the class folders"},
    {"labels", PST_PARAM_CHOICE, offsetof(struct config, labels), "inferred", 0, 0, labels_names,
     "inferred: the number of the class folder; none: no labels, and all files below the folder"},
    {"extensions", PST_PARAM_STRING, offsetof(struct config, extensions), "jpg,jpeg,png,bmp,gif,webp", 0, 0, NULL,
     "extensions of the files to read, in upper or lower case; * reads all files"},
    {"validation_split", PST_PARAM_FLOAT, offsetof(struct config, validation_split), "0", 0, 1, NULL,
     "share of the files for validation"},
    {"subset", PST_PARAM_CHOICE, offsetof(struct config, subset), "all", 0, 0, subset_names, "which part of the split"},
    {"seed", PST_PARAM_UINT, offsetof(struct config, seed), "0", 0, 0, NULL,
     "seed of the split; use the same seed for training and validation, so that they are disjoint"},
    {0},
};

struct folder {
    struct file_table table; /* first: FILE_TABLE_SOURCE */
    size_t classes;
    char names[96]; /* of the first classes */
    int subset;
};

/* ---- Listing ---- */

/* Whether the name ends in one of the extensions, which are separated by commas, with or without a dot. */
static bool has_extension(const char *name, const char *extensions)
{
    const char *dot = strrchr(name, '.');
    if (strcmp(extensions, "*") == 0)
        return true;
    for (const char *at = extensions; dot && *at;) {
        at += strspn(at, ", .");
        size_t n = strcspn(at, ", ");
        if (n && strlen(dot + 1) == n && strncasecmp(dot + 1, at, n) == 0)
            return true;
        at += n;
    }
    return false;
}

struct listing {
    const char *extensions;
    char **folders; /* to be listed, a task each */
    struct path_list *files;
};

static pst_status list_files(void *user, size_t i, pst_error *reterr)
{
    struct listing *l = user;
    struct path_list *files = &l->files[i];
    size_t kept = 0;
    pst_status st = walk_files(files, l->folders[i], true, reterr);
    for (size_t k = 0; k < files->count; k++) {
        if (has_extension(file_base(files->paths[k]), l->extensions))
            files->paths[kept++] = files->paths[k];
        else
            mem_free(files->paths[k]);
    }
    files->count = kept;
    return st;
}

/* Returns where the path after `root` begins. */
static size_t below(const char *root, const char *path)
{
    size_t n = strlen(root);
    while (path[n] == '/')
        n++;
    return n;
}

/* The files of `count` folders into the table, labelled by their folder's number. */
static pst_status take_folders(struct folder *f, const struct config *c, char **folders, size_t count, pst_error *reterr)
{
    struct listing l = {.extensions = c->extensions, .folders = folders, .files = mem_array(count, sizeof(*l.files))};
    if (!l.files)
        return fail_memory(reterr, "listing the folder");
    pst_status st = parallel_each(count, LISTERS, list_files, &l, reterr);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; st == PST_OK && k < l.files[i].count; k++) {
            char *path = l.files[i].paths[k];
            l.files[i].paths[k] = NULL; /* it is the table's from now on */
            st = file_table_add(&f->table, path, below(c->path, path), (union file_label){.number = (int64_t)i}, reterr);
        }
        path_list_finish(&l.files[i]);
    }
    mem_free(l.files);
    return st;
}

static void keep_names(struct folder *f, const struct path_list *folders)
{
    size_t n = 0;
    for (size_t i = 0; i < folders->count; i++) {
        const char *name = file_base(folders->paths[i]);
        if (n + strlen(name) + sizeof(", \xe2\x80\xa6") > sizeof(f->names)) {
            snprintf(f->names + n, sizeof(f->names) - n, "%s\xe2\x80\xa6", i ? ", " : "");
            return;
        }
        n += (size_t)snprintf(f->names + n, sizeof(f->names) - n, "%s%s", i ? ", " : "", name);
    }
}

/* Splits are not classes: their numbers would be taken for labels. */
static pst_status refuse_splits(const struct path_list *folders, const char *path, pst_error *reterr)
{
    bool splits = false;
    pst_status st = splits_are(folders, &splits, reterr);
    if (st < 0 || !splits)
        return st;
    const char *first = file_base(folders->paths[0]);
    return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                       "its folders (%s, \xe2\x80\xa6) are splits with the classes inside; read one of them: folder %.100s%s%s",
                       first, path, path[0] && path[strlen(path) - 1] == '/' ? "" : "/", first);
}

static pst_status list_folder(struct folder *f, const struct config *c, pst_error *reterr)
{
    struct path_list folders = {0};
    char *root = (char *)(uintptr_t)c->path;
    pst_status st;
    if (c->labels == LABELS_NONE)
        return take_folders(f, c, &root, 1, reterr);
    st = walk_folders(&folders, c->path, reterr);
    if (st == PST_OK && folders.count == 0)
        st = pst_fail_at(reterr, PST_ENOTFOUND, c->path, PST_NOWHERE, PST_NOWHERE,
                         "there are no class folders in it; labels=none takes the files of a folder without classes");
    if (st == PST_OK)
        st = refuse_splits(&folders, c->path, reterr);
    if (st == PST_OK)
        st = take_folders(f, c, folders.paths, folders.count, reterr);
    for (size_t i = 0; i < folders.count && st == PST_OK; i++)
        st = path_list_add(&f->table.classes, file_base(folders.paths[i]), reterr);
    f->table.labelled = true;
    f->classes = folders.count;
    keep_names(f, &folders);
    path_list_finish(&folders);
    return st;
}

/* ---- The split ---- */

static pst_status split(struct folder *f, const struct config *c, pst_error *reterr)
{
    size_t count = f->table.paths.count, validation = (size_t)(c->validation_split * (double)count);
    struct permutation order;
    if (c->subset == SUBSET_ALL)
        return PST_OK;
    if (c->validation_split <= 0 || c->validation_split >= 1)
        return pst_fail(reterr, PST_EINVAL, "subset=%s needs a validation_split between 0 and 1, such as 0.2",
                        subset_names[c->subset]);
    bool *kept = mem_array(count, sizeof(*kept));
    if (!kept)
        return fail_memory(reterr, "listing the folder");
    permutation_init(&order, count, c->seed, 0);
    for (size_t i = 0; i < count; i++)
        kept[permutation_at(&order, i)] = (i >= count - validation) == (c->subset == SUBSET_VALIDATION);
    file_table_filter(&f->table, kept);
    mem_free(kept);
    if (f->table.paths.count == 0)
        return pst_fail_at(reterr, PST_ENOTFOUND, c->path, PST_NOWHERE, PST_NOWHERE,
                           "a share of %g of its %zu files leaves none for %s", c->validation_split, count,
                           subset_names[c->subset]);
    return PST_OK;
}

static pst_status folder_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct folder *f = mem_zalloc(sizeof(*f));
    if (!f)
        return fail_memory(reterr, "listing the folder");
    f->subset = c->subset;
    struct file_info info;
    pst_status st = list_folder(f, c, reterr);
    if (st < 0 && st != PST_ENOMEM && file_stat(c->path, &info, NULL) == PST_OK && info.is_regular)
        st = pst_fail_at(reterr, PST_EINVAL, c->path, PST_NOWHERE, PST_NOWHERE,
                         "is a file, not a folder; `tar` reads archives, `tfrecord` shards, `files` lists of files");
    if (st == PST_OK && f->table.paths.count == 0)
        st = pst_fail_at(reterr, PST_ENOTFOUND, c->path, PST_NOWHERE, PST_NOWHERE, "there are no files in it that end in %s",
                         c->extensions);
    if (st == PST_OK)
        st = split(f, c, reterr);
    if (st == PST_OK)
        st = file_table_look(&f->table, env, reterr);
    if (st < 0) {
        file_table_close(f);
        return st;
    }
    *ret = f;
    return PST_OK;
}

static void folder_describe(const void *source, char *buffer, size_t size)
{
    const struct folder *f = source;
    char bytes[32];
    int n = snprintf(buffer, size, "%zu file%s, %s", f->table.paths.count, f->table.paths.count == 1 ? "" : "s",
                     text_bytes(f->table.bytes, bytes, sizeof(bytes)));
    if (n > 0 && (size_t)n < size && f->table.labelled)
        n += snprintf(buffer + n, size - (size_t)n, " in %zu class%s (%s)", f->classes, f->classes == 1 ? "" : "es", f->names);
    if (n > 0 && (size_t)n < size && f->subset != SUBSET_ALL)
        snprintf(buffer + n, size - (size_t)n, ", the %s part", subset_names[f->subset]);
}

const struct source_class source_folder = {
    .op = {.size = sizeof(pst_op_class),
           .name = "folder",
           .doc = "The files in class folders, one element per file. Fields: image (the file's bytes), label (the "
                  "number of its class folder; folders are numbered in byte order of their names) and key (its path "
                  "below the folder). With validation_split, the files are shuffled by the seed, and the last part is "
                  "the validation subset.",
           .example = "folder photos/ validation_split=0.2 subset=training | shuffle | decode | resize 224 | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = folder_open,
    .describe = folder_describe,
    FILE_TABLE_SOURCE,
};
