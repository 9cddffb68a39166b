/* list.c: which column of a list is the path, which the label, what they are in each row, and whether labels
 * are numbers or names. Leaves to others: where rows begin, and where paths are relative to. */
#include "io/list.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/parse_number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void list_reader_finish(struct list_reader *r)
{
    mem_free(r->scratch);
    *r = (struct list_reader){0};
}

static pst_status split(struct list_reader *r, const char *row, size_t length, char delimiter, pst_error *reterr)
{
    if (mem_grow((void **)&r->scratch, &r->scratch_size, length + 1, 1) < 0)
        return fail_memory(reterr, "reading the list");
    return csv_split(row, length, delimiter, r->scratch, r->fields, LIST_COLUMNS, &r->count, reterr);
}

static bool is_one_of(const char *word, size_t length, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == length && strncasecmp(*words, word, length) == 0)
            return true;
    return false;
}

bool list_is_image_extension(const char *extension, size_t length)
{
    static const char *const known[] = {"jpeg", "jpg", "png", "bmp", "gif", "webp", NULL};
    return is_one_of(extension, length, known);
}

static bool names_an_image(const struct csv_field *f)
{
    bool web = f->length > 4 && memcmp(f->data, "http", 4) == 0;
    const char *query = web ? memchr(f->data, '?', f->length) : NULL; /* such as a signature */
    size_t length = query ? (size_t)(query - f->data) : f->length;
    const char *dot = memrchr(f->data, '.', length);
    return dot && dot != f->data && list_is_image_extension(dot + 1, (size_t)(f->data + length - dot - 1));
}

static void read_header(const struct list_reader *r, struct list_form *form)
{
    static const char *const paths[] = {"path",      "file",  "filename",   "file_name", "filepath",
                                        "file_path", "image", "image_path", "img",       NULL};
    static const char *const labels[] = {"label", "class", "target", "category", "class_name", "label_name", "labels", NULL};
    for (size_t i = r->count; i-- > 0;) {
        if (is_one_of(r->fields[i].data, r->fields[i].length, paths))
            form->path = i;
        else if (is_one_of(r->fields[i].data, r->fields[i].length, labels))
            form->label = i;
    }
}

/* Splits a row that may not belong to a list: `*ret` is true if it could. */
static pst_status try_split(struct list_reader *r, const char *row, size_t length, char delimiter, bool *ret, pst_error *reterr)
{
    pst_status st = split(r, row, length, delimiter, reterr);
    *ret = st == PST_OK;
    return st == PST_ECORRUPT ? PST_OK : st;
}

/* "image.jpg 3": a space separates what has neither comma, semicolon, tab nor bar in it. */
static pst_status find_delimiter(struct list_reader *r, const char *head, size_t length, size_t row, char *ret,
                                 pst_error *reterr)
{
    bool ok = false;
    char guess = csv_guess_delimiter(head, length);
    pst_status st = try_split(r, head, row, guess, &ok, reterr);
    *ret = guess;
    if (st == PST_OK && ok && r->count == 1) {
        st = try_split(r, head, row, ' ', &ok, reterr);
        if (st == PST_OK && ok && r->count == 2 && names_an_image(&r->fields[0]))
            *ret = ' ';
    }
    return st;
}

pst_status list_recognise(struct list_reader *r, const char *head, size_t length, char delimiter, struct list_form *ret,
                          bool *ret_images, pst_error *reterr)
{
    size_t first = csv_row_end(head, length, 0), second = csv_row_end(head, length, first);
    struct list_form form = {.delimiter = delimiter, .label = LIST_NO_COLUMN};
    bool ok = false;
    pst_status st = delimiter ? PST_OK : find_delimiter(r, head, length, first, &form.delimiter, reterr);
    if (st == PST_OK)
        st = try_split(r, head, first, form.delimiter, &ok, reterr);
    if (st < 0)
        return st;
    if (ok && r->count > 1)
        form.label = 1;
    *ret = form;
    *ret_images = ok && names_an_image(&r->fields[0]);
    if (!ok || *ret_images)
        return PST_OK;
    read_header(r, &form);
    form.header = true;
    st = try_split(r, head + first, second - first, form.delimiter, &ok, reterr);
    *ret_images = st == PST_OK && ok && form.path < r->count && names_an_image(&r->fields[form.path]);
    if (form.label == form.path)
        form.label = form.path > 0 ? 0 : r->count > 1 ? 1 : LIST_NO_COLUMN;
    if (*ret_images)
        *ret = form;
    return st;
}

/* ---- Labels ---- */

/* The number of characters of `f` before its digits: spaces and a sign. */
static size_t before_digits(const struct csv_field *f)
{
    size_t n = 0;
    while (n < f->length && (f->data[n] == ' ' || f->data[n] == '\t'))
        n++;
    return n + (n < f->length && (f->data[n] == '-' || f->data[n] == '+'));
}

/* "007" is a name, as are inf and nan. */
static bool is_number(const struct csv_field *f, double *ret)
{
    size_t n = before_digits(f);
    bool zeros = n + 1 < f->length && f->data[n] == '0' && is_digit(f->data[n + 1]);
    return !zeros && number_float(f->data, f->length, ret) && isfinite(*ret);
}

static bool is_whole_number(const struct csv_field *f)
{
    for (size_t i = before_digits(f); i < f->length; i++)
        if (!is_digit(f->data[i]) && f->data[i] != ' ' && f->data[i] != '\t')
            return false;
    return true;
}

void list_labels_look(struct list_labels *l, const struct csv_field *label)
{
    int64_t whole;
    double real;
    if (l->kind == LIST_NAMES || number_int(label->data, label->length, &whole))
        return;
    if (!is_number(label, &real)) {
        l->kind = LIST_NAMES;
        return;
    }
    l->kind = LIST_NUMBERS;
    if (!l->large[0] && is_whole_number(label))
        snprintf(l->large, sizeof(l->large), "%.*s", (int)label->length, label->data);
}

pst_status list_labels_check(const struct list_labels *l, const char *list, pst_error *reterr)
{
    if (l->kind != LIST_NUMBERS || !l->large[0])
        return PST_OK;
    return pst_fail_at(reterr, PST_ETYPE, list, PST_NOWHERE, PST_NOWHERE,
                       "label %s is beyond int64; use smaller numbers, or names, such as c%s, that are numbered", l->large,
                       l->large);
}

double list_label_number(const struct csv_field *label)
{
    double real = 0;
    return is_number(label, &real) ? real : 0;
}

/* ---- Rows ---- */

/* A NUL would end a path or a label before its end. */
static bool is_whole(const struct csv_field *f)
{
    return f->length && !memchr(f->data, 0, f->length);
}

pst_status list_read_row(struct list_reader *r, const struct list_form *form, const char *row, size_t length, const char *list,
                         uint64_t number, const struct csv_field **ret_path, const struct csv_field **ret_label,
                         pst_error *reterr)
{
    pst_error error = {0};
    pst_status st = split(r, row, length, form->delimiter, &error);
    if (st < 0)
        return pst_fail_at(reterr, st, list, number, PST_NOWHERE, "%s", error.message);
    const struct csv_field *path = form->path < r->count ? &r->fields[form->path] : NULL;
    bool whole = path && is_whole(path);
    if (!whole || (form->label != LIST_NO_COLUMN && (form->label >= r->count || !is_whole(&r->fields[form->label]))))
        return pst_fail_at(reterr, PST_EINVAL, list, number, PST_NOWHERE, "the row has no %s, or one with a NUL in it",
                           whole ? "label" : "path");
    *ret_path = path;
    *ret_label = form->label == LIST_NO_COLUMN ? NULL : &r->fields[form->label];
    return PST_OK;
}
