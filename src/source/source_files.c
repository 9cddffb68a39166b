/* source_files.c: `files`: the files that a list names, one path per row, with or without a label after it.
 *
 * Labels that are all numbers are taken as they are: int64 if all are whole, otherwise float64. Other labels are names,
 * numbered in byte order. */
#include "source/file_table.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/list.h"
#include "io/names.h"
#include "io/parse_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_LIST ((size_t)16 << 30)

static const pst_param params[] = {
    {"list", PST_PARAM_STRING, offsetof(struct files_config, list), NULL, 0, 0, NULL,
     "a text or CSV file: one path per row, optionally followed by a label; a header may name the columns"},
    {"root", PST_PARAM_STRING, offsetof(struct files_config, root), "", 0, 0, NULL,
     "folder that the paths are relative to; empty: the folder of the list"},
    {0},
};

struct files {
    struct file_table table; /* first: FILE_TABLE_SOURCE */
    size_t classes;          /* labels that are names; 0: they are numbers */
};

/* The list while it is read: twice, as the numbers of labels follow from all of them. */
struct reading {
    const char *path; /* of the list */
    const char *text;
    size_t length;
    struct list_reader reader;
    struct list_form form;
    struct names labels;
    struct list_labels kind;
    struct arena arena;
};

static bool is_blank(const char *row, size_t length)
{
    while (length && (row[length - 1] == '\n' || row[length - 1] == '\r' || row[length - 1] == ' '))
        length--;
    return length == 0;
}

typedef pst_status (*row_fn)(struct reading *r, void *user, const struct csv_field *path, const struct csv_field *label,
                             pst_error *reterr);

static pst_status each_row(struct reading *r, row_fn fn, void *user, pst_error *reterr)
{
    uint64_t number = 0;
    pst_status st = PST_OK;
    for (size_t at = 0, end; st == PST_OK && at < r->length; at = end, number++) {
        const struct csv_field *path, *label;
        end = csv_row_end(r->text, r->length, at);
        if ((number == 0 && r->form.header) || is_blank(r->text + at, end - at))
            continue;
        st = list_read_row(&r->reader, &r->form, r->text + at, end - at, r->path, number, &path, &label, reterr);
        if (st == PST_OK)
            st = fn(r, user, path, label, reterr);
    }
    return st;
}

static pst_status collect_label(struct reading *r, void *user, const struct csv_field *path, const struct csv_field *label,
                                pst_error *reterr)
{
    (void)user, (void)path;
    if (!label)
        return PST_OK;
    list_labels_look(&r->kind, label);
    return names_add(&r->labels, &r->arena, label->data, label->length) < 0 ? fail_memory(reterr, "reading the list") : PST_OK;
}

struct target {
    struct files *files;
    const char *root; /* "": paths are as they are */
};

static union file_label read_label(const struct reading *r, const struct csv_field *label)
{
    union file_label ret = {0};
    if (label && r->kind.kind == LIST_NUMBERS)
        ret.real = list_label_number(label);
    else if (label && !(r->kind.kind == LIST_INTEGERS && number_int(label->data, label->length, &ret.number)))
        ret.number = names_find(&r->labels, label->data, label->length);
    return ret;
}

static pst_status add_file(struct reading *r, void *user, const struct csv_field *path, const struct csv_field *label,
                           pst_error *reterr)
{
    struct target *t = user;
    union file_label value = read_label(r, label);
    char *name = mem_strndup(path->data, path->length);
    if (!name)
        return fail_memory(reterr, "reading the list");
    if (*t->root == '\0' || file_is_anchored(name))
        return file_table_add(&t->files->table, name, 0, value, reterr);
    char *full = file_join(t->root, name);
    pst_status st = file_table_add(&t->files->table, full, full ? strlen(full) - strlen(name) : 0, value, reterr);
    mem_free(name);
    return st;
}

/* The folder of a file, without its slash unless it is the root; "" for the current one. */
static char *folder_of(const char *path)
{
    size_t n = (size_t)(file_base(path) - path);
    return mem_strndup(path, n > 1 ? n - 1 : n);
}

/* Labels that are not numbers are the names of classes. */
static pst_status keep_classes(struct files *f, const struct reading *r, pst_error *reterr)
{
    pst_status st = PST_OK;
    f->table.real_labels = r->kind.kind == LIST_NUMBERS;
    f->classes = f->table.labelled && r->kind.kind == LIST_NAMES ? r->labels.count : 0;
    for (size_t i = 0; i < f->classes && st == PST_OK; i++)
        st = path_list_add(&f->table.classes, r->labels.names[i], reterr);
    return st;
}

static pst_status read_rows(struct files *f, const struct files_config *c, struct reading *r, pst_error *reterr)
{
    bool images;
    char *root = *c->root ? mem_strdup(c->root) : folder_of(c->list);
    struct target target = {.files = f, .root = root};
    pst_status st = root ? list_recognise(&r->reader, r->text, r->length, 0, &r->form, &images, reterr)
                         : fail_memory(reterr, "reading the list");
    if (st == PST_OK)
        st = each_row(r, collect_label, NULL, reterr);
    if (st == PST_OK)
        st = list_labels_check(&r->kind, c->list, reterr);
    names_number(&r->labels);
    if (st == PST_OK)
        st = each_row(r, add_file, &target, reterr);
    f->table.labelled = r->form.label != LIST_NO_COLUMN;
    mem_free(root);
    return st < 0 ? st : keep_classes(f, r, reterr);
}

/* The rows of a list in memory: nothing has to be guessed. */
static pst_status take_rows(struct files *f, const struct files_config *c, struct reading *r, pst_error *reterr)
{
    struct target target = {.files = f, .root = c->root};
    pst_status st = PST_OK;
    for (int pass = 0; pass < 2 && st == PST_OK; pass++) {
        for (size_t i = 0; i < c->count && st == PST_OK; i++) {
            const char *name = c->paths[i], *text = c->labels ? c->labels[i] : "";
            const struct csv_field path = {.data = name, .length = strlen(name)},
                                   label = {.data = text, .length = strlen(text)};
            st = (pass ? add_file : collect_label)(r, &target, &path, c->labels ? &label : NULL, reterr);
        }
        if (st == PST_OK && pass == 0)
            st = list_labels_check(&r->kind, c->list, reterr);
        if (pass == 0)
            names_number(&r->labels);
    }
    f->table.labelled = c->labels != NULL;
    return st < 0 ? st : keep_classes(f, r, reterr);
}

static pst_status read_list(struct files *f, const struct files_config *c, pst_error *reterr)
{
    uint8_t *text = NULL;
    size_t length = 0;
    struct reading r = {.path = c->list};
    arena_init(&r.arena);
    pst_status st = c->paths ? take_rows(f, c, &r, reterr) : file_read_all(&text, &length, c->list, MAX_LIST, reterr);
    if (st == PST_OK && !c->paths) {
        size_t mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
        r.text = (const char *)text + mark;
        r.length = length - mark;
        st = read_rows(f, c, &r, reterr);
    }
    names_finish(&r.labels);
    arena_finish(&r.arena);
    list_reader_finish(&r.reader);
    mem_free(text);
    return st;
}

static pst_status files_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct files_config *c = config;
    struct files *f = mem_zalloc(sizeof(*f));
    if (!f)
        return fail_memory(reterr, "reading the list");
    pst_status st = read_list(f, c, reterr);
    if (st == PST_OK && f->table.paths.count == 0)
        st = pst_fail_at(reterr, PST_ENOTFOUND, c->list, PST_NOWHERE, PST_NOWHERE, "the list names no files");
    if (st == PST_OK)
        st = file_table_look(&f->table, env, reterr);
    if (st < 0) {
        file_table_close(f);
        return st;
    }
    *ret = f;
    return PST_OK;
}

static void files_describe(const void *source, char *buffer, size_t size)
{
    const struct files *f = source;
    char bytes[32], labels[48] = "no labels";
    if (f->classes)
        snprintf(labels, sizeof(labels), "labels by name, %zu class%s", f->classes, f->classes == 1 ? "" : "es");
    else if (f->table.labelled)
        snprintf(labels, sizeof(labels), "labels as they are");
    snprintf(buffer, size, "%zu file%s, %s; %s", f->table.paths.count, f->table.paths.count == 1 ? "" : "s",
             text_bytes(f->table.bytes, bytes, sizeof(bytes)), labels);
}

const struct source_class source_files = {
    .op = {.size = sizeof(pst_op_class),
           .name = "files",
           .doc = "The files named in a list, one element per file. Fields: image (the file's bytes), label (if the "
                  "list has labels; numbers are used as they are, as int64, or float64 if some have a fraction; names are numbered in byte order) and key (the path "
                  "as written in the list).",
           .example = "files train.csv | shuffle | decode | resize 224 | batch 64",
           .params = params,
           .config_size = sizeof(struct files_config)},
    .open = files_open,
    .describe = files_describe,
    FILE_TABLE_SOURCE,
};
