/* list.c: a text file that names images, one per row, with a label after each or no labels.
 *
 * Paths are relative to the list. Rows are delimited like a table's, or by a single space; a header may name the columns.
 * Labels that are all numbers are taken as they are, as int64 or, if some have a fraction, as float; otherwise they are names,
 * numbered in byte order. */
#include "pack/sources/files.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/list.h"
#include "io/names.h"
#include "io/parse_number.h"
#include "pack/report.h"
#include "pack/sources/text_rows.h"

#include <string.h>

struct list_scan {
    struct pack_source *s;
    struct list_form *forms; /* by file */
    struct list_form *form;  /* of the current one */
    const char *list;        /* its path, for messages */
    struct names labels;
    struct list_labels kind;
    bool labelled, unlabelled;
    struct list_reader reader;
};

static pst_status list_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    static const char *const extensions[] = {".csv", ".tsv", ".txt", ".lst", ".list", NULL};
    struct list_reader reader = {0};
    struct list_form form;
    char head[4096];
    size_t got = 0;
    int fd = -1;
    if (!info || !info->is_regular || !pack_source_has_extension(path, extensions))
        return PST_OK;
    pst_status st = file_open_read(&fd, path, reterr);
    if (st == PST_OK)
        st = file_read_at(fd, path, head, sizeof(head), 0, &got, reterr);
    size_t mark = got >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (st == PST_OK)
        st = list_recognise(&reader, head + mark, got - mark, 0, &form, ret, reterr);
    file_close(fd);
    list_reader_finish(&reader);
    return st;
}

static pst_status begin_list(void *user, const char *head, size_t length, pst_error *reterr)
{
    struct list_scan *c = user;
    bool ok = true;
    pst_status st = PST_OK;
    if (length)
        st = list_recognise(&c->reader, head, length, c->s->config->options.delimiter, c->form, &ok, reterr);
    if (st == PST_OK && !ok)
        st = pst_fail_at(reterr, PST_EINVAL, c->list, PST_NOWHERE, PST_NOWHERE,
                         "neither of its first two rows names an image; expected path,label or path");
    return st;
}

static pst_status look_at_row(void *user, const char *row, size_t length, uint64_t number, pst_error *reterr)
{
    struct list_scan *c = user;
    const struct csv_field *path = NULL, *label = NULL;
    if (number == 0 && c->form->header)
        return PST_OK;
    pst_status st = list_read_row(&c->reader, c->form, row, length, c->list, number, &path, &label, reterr);
    if (st < 0)
        return st;
    c->labelled |= label != NULL;
    c->unlabelled |= label == NULL;
    if (!label)
        return PST_OK;
    list_labels_look(&c->kind, label);
    return names_add(&c->labels, &c->s->arena, label->data, label->length) < 0 ? fail_memory(reterr, "reading the list")
                                                                               : PST_OK;
}

static pst_status fail_float(const struct list_scan *c, const struct csv_field *label, uint64_t number, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ETYPE, c->list, number, PST_NOWHERE,
                       "label %.*s does not fit float32, the only float of tf.train.Example; scale the labels",
                       (int)(label->length < 40 ? label->length : 40), label->data);
}

static pst_status read_label(const struct list_scan *c, const struct csv_field *label, uint64_t number, union file_label *ret,
                             pst_error *reterr)
{
    if (c->kind.kind == LIST_NUMBERS) {
        double real = list_label_number(label);
        ret->real = (float)real;
        return pack_float_loses(real) ? fail_float(c, label, number, reterr) : PST_OK;
    }
    if (!(c->kind.kind == LIST_INTEGERS && number_int(label->data, label->length, &ret->number)))
        ret->number = names_find(&c->labels, label->data, label->length);
    return PST_OK;
}

/* Adds the file that a row names. */
static pst_status add_row(struct list_scan *c, const char *root, const char *row, size_t length, uint64_t number,
                          pst_error *reterr)
{
    const struct csv_field *path = NULL, *label = NULL;
    union file_label value = {.number = FILES_NO_LABEL};
    pst_status st = list_read_row(&c->reader, c->form, row, length, c->list, number, &path, &label, reterr);
    if (st < 0)
        return st;
    char *key = mem_strndup(path->data, path->length);
    char *full = !key ? NULL : *root && !file_is_anchored(key) ? file_join(root, key) : mem_strdup(key);
    if (!full)
        st = fail_memory(reterr, "reading the list");
    else if (label)
        st = read_label(c, label, number, &value, reterr);
    if (st == PST_OK)
        st = files_add(c->s, full, key, value, reterr);
    mem_free(key);
    mem_free(full);
    return st;
}

static pst_status add_list(struct list_scan *c, const struct rows *r, size_t file, const struct pack_opening *o,
                           pst_error *reterr)
{
    const struct row_file *f = &r->files[file];
    uint64_t end = file + 1 < r->file_count ? r->files[file + 1].first : r->count;
    struct rows_worker w = {0};
    c->form = &c->forms[file];
    c->list = f->spool->path;
    const char *path = strcmp(o->paths[file], "-") ? o->paths[file] : "";
    size_t folder = (size_t)(file_base(path) - path);
    char *root = mem_strndup(path, folder > 1 ? folder - 1 : folder); /* without its slash, unless it is the root */
    pst_status st = root ? files_add_root(c->s, root, 0, reterr) : fail_memory(reterr, "reading the list");
    for (uint64_t i = f->first + c->form->header; st == PST_OK && i < end; i++) {
        const char *row = NULL;
        size_t length = 0;
        st = rows_get(r, &w, i, &row, &length, reterr);
        if (st == PST_OK)
            st = add_row(c, root, row, length, i - f->first, reterr);
        if (st == PST_OK)
            st = pack_ticker_tell(o->ticker, "listing", c->s->count, r->count, c->s->bytes, false, reterr);
    }
    file_window_finish(&w.window);
    mem_free(root);
    return st;
}

static pst_status list_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct rows r = {.quoted = true};
    struct list_scan c = {.s = s, .forms = mem_array(o->path_count, sizeof(struct list_form))};
    struct rows_visitor v = {false, begin_list, look_at_row, &c};
    pst_status st = c.forms ? PST_OK : fail_memory(reterr, "reading the list");
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++) {
        c.form = &c.forms[i];
        c.list = o->paths[i];
        st = rows_add(&r, s, o, c.list, &v, reterr);
    }
    if (st == PST_OK && c.labelled && c.unlabelled)
        st = pst_fail(reterr, PST_EINVAL, "some of the lists have labels and some have none: pack them one kind at a time");
    if (st == PST_OK)
        st = list_labels_check(&c.kind, o->paths[0], reterr);
    names_number(&c.labels);
    if (st == PST_OK)
        st = files_create(s, c.labelled, c.kind.kind == LIST_NUMBERS, reterr);
    if (st == PST_OK && c.labelled && c.kind.kind == LIST_NAMES) {
        s->class_names = names_keep(&c.labels, &s->arena);
        s->class_count = c.labels.count;
        st = s->class_names ? PST_OK : fail_memory(reterr, "reading the list");
    }
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++)
        st = add_list(&c, &r, i, o, reterr);
    names_finish(&c.labels);
    mem_free(c.forms);
    list_reader_finish(&c.reader);
    rows_close(&r);
    return st;
}

const struct pack_source_class pack_source_list = {
    .name = "list",
    .doc = "a list of image paths, with labels or without",
    .images = true,
    .matches = list_matches,
    .open = list_open,
    .close = files_close,
    .key = files_key,
    .estimate = files_estimate,
    .worker_size = sizeof(struct files_worker),
    .load = files_load,
    .worker_finish = files_worker_finish,
};
