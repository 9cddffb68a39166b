/* csv.c: tables. Every column is a feature; its type comes from the whole table, or from `columns`.
 *
 * A column is int when all of its values are, float when all are numbers, else string. Missing numbers: a float column holds
 * NaN, an int column an empty list. A missing string is the empty string. Texts in a column called label, class or target
 * are numbered as class folders are. A warning is given for large numbers that float32 rounds to another whole number. */
#include "pack/sources/text_rows.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/csv.h"
#include "io/file.h"
#include "io/names.h"
#include "io/parse_number.h"
#include "pack/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_COLUMNS 65536

#define MOST_LABELS 100000     /* different ones; a column with more is text */

enum column_type { COLUMN_INT, COLUMN_FLOAT, COLUMN_STRING, COLUMN_MICROS, COLUMN_LABEL };
/* Types that can be declared; the last is only inferred. */
static const char *const type_names[] = {"int", "float", "string", "micros", "label"};
#define DECLARED_TYPES 4

struct column {
    enum column_type type;
    bool declared;
    uint64_t values, missing;
    uint64_t rounded; /* numbers that float32 moves by one or more */
    char rounds[32];  /* the first of them */
};

struct table {
    struct rows rows;
    char delimiter;
    struct column *columns;
    size_t count;
    size_t label;        /* the column with the classes; SIZE_MAX: none */
    struct names labels; /* what is in it */
};

/* Buffers for parsing one row. */
struct row_fields {
    struct csv_field *fields;
    size_t count, capacity;
    char *scratch;
    size_t scratch_size;
};

struct csv_worker {
    struct rows_worker rows;
    struct row_fields row;
    int64_t *ints;
    float *floats;
};

struct csv_scan {
    struct pack_source *s;
    const struct pack_opening *o;
    const char *path;
    struct row_fields row;
};

static pst_status split(struct row_fields *f, const char *row, size_t length, char delimiter, size_t max_fields,
                        pst_error *reterr)
{
    void *fields = f->fields, *scratch = f->scratch;
    bool ok = mem_grow(&fields, &f->capacity, max_fields, sizeof(*f->fields)) == 0;
    f->fields = fields;
    ok = mem_grow(&scratch, &f->scratch_size, length + 1, 1) == 0 && ok;
    f->scratch = scratch;
    if (!ok)
        return fail_memory(reterr, "reading the table");
    return csv_split(row, length, delimiter, f->scratch, f->fields, max_fields, &f->count, reterr);
}

static void row_fields_finish(struct row_fields *f)
{
    mem_free(f->fields);
    mem_free(f->scratch);
}

static pst_status csv_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    static const char *const extensions[] = {".csv", ".tsv", NULL};
    (void)reterr;
    *ret = info && info->is_regular && pack_source_has_extension(path, extensions);
    return PST_OK;
}

/* ---- The header ---- */

static pst_status add_column(struct pack_source *s, const char *name, size_t length, pst_error *reterr)
{
    struct table *t = s->state;
    char number[24];
    snprintf(number, sizeof(number), "c%zu", t->count);
    char *copy = length ? arena_strndup(&s->arena, name, length) : arena_strndup(&s->arena, number, strlen(number));
    for (size_t i = 0; copy && i < s->field_count; i++)
        if (strcmp(s->fields[i].name, copy) == 0)
            return pst_fail(reterr, PST_EINVAL, "two columns are called \"%s\"; a feature needs a name of its own", copy);
    if (!copy || !pack_source_add_field(s, copy, PACK_PLAIN, PST_INT64, "int64"))
        return fail_memory(reterr, "reading the table");
    t->count++;
    return PST_OK;
}

/* The first of the columns that has such a name. */
static void find_label(struct pack_source *s)
{
    static const char *const known[] = {"label", "class", "target"};
    struct table *t = s->state;
    t->label = SIZE_MAX;
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
        for (size_t i = 0; t->label == SIZE_MAX && i < t->count; i++)
            if (strcasecmp(s->fields[i].name, known[k]) == 0)
                t->label = i;
}

static pst_status declare_columns(struct pack_source *s, pst_error *reterr)
{
    struct table *t = s->state;
    find_label(s);
    t->columns = mem_array(t->count, sizeof(*t->columns));
    if (!t->columns)
        return fail_memory(reterr, "reading the table");
    const char *at = s->config->options.columns;
    while (at && *at) {
        size_t n = strcspn(at, ","), name = 0, i, type;
        for (size_t k = 0; k < n; k++)
            name = at[k] == ':' ? k : name; /* the last colon: names may hold some */
        for (i = 0; i < t->count; i++)
            if (strlen(s->fields[i].name) == name && memcmp(s->fields[i].name, at, name) == 0)
                break;
        for (type = 0; type < DECLARED_TYPES; type++)
            if (strlen(type_names[type]) == n - name - 1 && memcmp(type_names[type], at + name + 1, n - name - 1) == 0)
                break;
        if (name == 0 || type == DECLARED_TYPES)
            return pst_fail(reterr, PST_EINVAL,
                            "columns: \"%.*s\" is not of the form name:kind with kind int, float, string or micros", (int)n,
                            at);
        if (i == t->count)
            return pst_fail(reterr, PST_EINVAL, "columns: the table has no column \"%.*s\"", (int)name, at);
        t->columns[i].type = (enum column_type)type;
        t->columns[i].declared = true;
        at += n + (at[n] == ',');
    }
    return PST_OK;
}

/* ---- Types ---- */

/* Timestamps and numbers of accounts: what float32 makes of them is another one. */
static void look_at_rounding(struct column *c, const struct csv_field *f, double real)
{
    if (!pack_float_loses(real))
        return;
    if (c->rounded++ == 0)
        snprintf(c->rounds, sizeof(c->rounds), "%.*s", (int)(f->length < 31 ? f->length : 31), f->data);
}

static void look_at_field(struct column *c, const struct csv_field *f)
{
    int64_t whole = 0;
    double real;
    if (c->type == COLUMN_STRING && c->declared)
        return;
    if (number_missing(f->data, f->length)) {
        c->missing++;
        return;
    }
    c->values++;
    if (c->type != COLUMN_STRING && c->type != COLUMN_MICROS && number_float(f->data, f->length, &real))
        look_at_rounding(c, f, real);
    if (c->declared)
        return;
    if (c->type == COLUMN_INT && !number_int(f->data, f->length, &whole))
        c->type = COLUMN_FLOAT;
    if (c->type == COLUMN_FLOAT && !number_float(f->data, f->length, &real))
        c->type = COLUMN_STRING;
    /* "007" is a float by its letters, but it is a name: keep its zeros. */
    if (c->type == COLUMN_FLOAT && f->length > 1 && f->data[0] == '0' && is_digit(f->data[1]))
        c->type = COLUMN_STRING;
}

static pst_status look_at_row(void *user, const char *row, size_t length, uint64_t number, pst_error *reterr)
{
    struct csv_scan *c = user;
    struct table *t = c->s->state;
    (void)number;
    pst_status st = split(&c->row, row, length, t->delimiter, t->count, reterr);
    if (st == PST_OK && c->row.count != t->count)
        st = pst_fail(reterr, PST_ECORRUPT, "%zu column%s, expected %zu as in the first row", c->row.count, c->row.count == 1 ? "" : "s", t->count);
    if (st == PST_ECORRUPT && c->s->config->bad.skip)
        return PST_OK; /* it fails again when it is loaded, and is counted there */
    if (st < 0)
        return rows_blame(&t->rows, t->rows.count, st, reterr);
    for (size_t i = 0; i < t->count; i++)
        look_at_field(&t->columns[i], &c->row.fields[i]);
    if (t->label == SIZE_MAX || t->columns[t->label].declared || t->labels.count > MOST_LABELS)
        return PST_OK;
    const struct csv_field *label = &c->row.fields[t->label];
    return names_add(&t->labels, &c->s->arena, label->data, label->length) < 0 ? fail_memory(reterr, "numbering the labels")
                                                                               : PST_OK;
}

/* The texts of the label column become classes. */
static pst_status settle_labels(struct pack_source *s, pst_error *reterr)
{
    struct table *t = s->state;
    struct column *c = t->label == SIZE_MAX ? NULL : &t->columns[t->label];
    names_number(&t->labels);
    if (!c || c->declared || c->type != COLUMN_STRING || t->labels.count > MOST_LABELS ||
        names_find(&t->labels, "", 0) >= 0)
        return PST_OK;
    s->class_names = names_keep(&t->labels, &s->arena);
    s->class_count = t->labels.count;
    c->type = COLUMN_LABEL;
    return s->class_names ? PST_OK : fail_memory(reterr, "numbering the labels");
}

static pst_status warn_of_rounding(const struct column *c, const char *name, const struct pack_opening *o, pst_error *reterr)
{
    if (c->type != COLUMN_FLOAT || c->rounded == 0)
        return PST_OK;
    return pack_report_note(
        o->report, reterr,
        "warning: column %s: %" PRIu64 " value%s, the first of them %s, %s rounded to float32, the only float of "
        "tf.train.Example; columns=%s:micros stores millionths as int64, columns=%s:string the text",
        name, c->rounded, c->rounded == 1 ? "" : "s", c->rounds, c->rounded == 1 ? "is" : "are", name, name);
}

static pst_status settle_types(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct table *t = s->state;
    pst_status st = settle_labels(s, reterr);
    for (size_t i = 0; st == PST_OK && i < t->count; i++) {
        struct column *c = &t->columns[i];
        struct pack_field *f = &s->fields[i];
        if (!c->declared && c->values == 0)
            c->type = COLUMN_STRING;
        f->kind = c->type == COLUMN_STRING ? PST_BYTES : c->type == COLUMN_FLOAT ? PST_FLOAT : PST_INT64;
        f->dtype = c->type == COLUMN_STRING ? "string" : c->type == COLUMN_FLOAT ? "float32" : "int64";
        f->role = c->type == COLUMN_STRING ? PACK_TEXT : c->type == COLUMN_LABEL ? PACK_LABEL : PACK_PLAIN;
        f->optional = (c->type == COLUMN_INT || c->type == COLUMN_MICROS) && c->missing;
        st = warn_of_rounding(c, f->name, o, reterr);
        if (st == PST_OK && f->optional)
            st = pack_report_note(o->report, reterr,
                                  "column %s lacks %" PRIu64 " of %" PRIu64
                                  " values: stored as empty lists; columns=%s:float stores NaN",
                                  f->name, c->missing, s->count, f->name);
    }
    return st;
}

/* ---- Opening ---- */

/* True when a later table's header repeats the first's. */
static bool same_header(const struct pack_source *s, const struct row_fields *row)
{
    const struct table *t = s->state;
    bool same = row->count == t->count;
    for (size_t i = 0; same && !s->config->options.no_header && i < t->count; i++)
        same = row->fields[i].length == 0 || (strlen(s->fields[i].name) == row->fields[i].length &&
                                              memcmp(s->fields[i].name, row->fields[i].data, row->fields[i].length) == 0);
    return same;
}

/* A table begins: the first one defines the delimiter and the columns, the others must have the same. */
static pst_status begin_table(void *user, const char *head, size_t length, pst_error *reterr)
{
    struct csv_scan *c = user;
    struct pack_source *s = c->s;
    struct table *t = s->state;
    bool no_header = s->config->options.no_header;
    size_t begin = 0;
    while (begin < length && (head[begin] == '\n' || head[begin] == '\r'))
        begin++;
    if (begin == length)
        return PST_OK; /* an empty file */
    if (!t->delimiter)
        t->delimiter = csv_guess_delimiter(head + begin, length - begin);
    pst_status st = split(&c->row, head + begin, csv_row_end(head, length, begin) - begin, t->delimiter, MAX_COLUMNS, reterr);
    bool first = t->count == 0;
    for (size_t i = 0; st == PST_OK && first && i < c->row.count; i++)
        st = add_column(s, c->row.fields[i].data, no_header ? 0 : c->row.fields[i].length, reterr);
    if (st == PST_OK && first)
        st = declare_columns(s, reterr);
    if (st == PST_OK && !same_header(s, &c->row))
        st = pst_fail(reterr, PST_EINVAL, "its columns are not those of the first table; pack tables of one form together");
    if (st < 0)
        return pst_fail_at(reterr, st, c->path, PST_NOWHERE, PST_NOWHERE, "first row: %s", reterr->message);
    return PST_OK;
}

static pst_status csv_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct csv_scan c = {.s = s, .o = o};
    struct rows_visitor v = {!s->config->options.no_header, begin_table, look_at_row, &c};
    struct table *t = s->state = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "reading the table");
    t->rows.quoted = true;
    t->label = SIZE_MAX;
    t->delimiter = s->config->options.delimiter;
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++) {
        c.path = o->paths[i];
        st = rows_add(&t->rows, s, o, c.path, &v, reterr);
    }
    row_fields_finish(&c.row);
    s->count = t->rows.count;
    return st == PST_OK ? settle_types(s, o, reterr) : st;
}

static void csv_close(struct pack_source *s)
{
    struct table *t = s->state;
    if (!t)
        return;
    rows_close(&t->rows);
    names_finish(&t->labels);
    mem_free(t->columns);
    mem_free(t);
}

/* ---- Loading ---- */

static const char *csv_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    return rows_key(&((const struct table *)s->state)->rows, i, buffer);
}

static uint64_t csv_estimate(const struct pack_source *s, uint64_t i)
{
    (void)i;
    return rows_estimate(&((const struct table *)s->state)->rows) + 16 * s->field_count;
}

static pst_status load_field(const struct pack_source *s, struct csv_worker *w, size_t i, struct pack_value *v,
                             pst_error *reterr)
{
    const struct table *t = s->state;
    const struct csv_field *f = &w->row.fields[i];
    double real = NAN;
    bool missing =
             t->columns[i].type != COLUMN_STRING && t->columns[i].type != COLUMN_LABEL && number_missing(f->data, f->length),
         ok = true;
    switch (t->columns[i].type) {
    case COLUMN_INT:
        ok = missing || number_int(f->data, f->length, &w->ints[i]);
        *v = (struct pack_value){.present = true, .count = missing ? 0 : 1, .data = &w->ints[i]};
        break;
    case COLUMN_FLOAT:
        ok = missing || (number_float(f->data, f->length, &real) && number_fits_float(real));
        w->floats[i] = (float)real;
        *v = (struct pack_value){.present = true, .count = 1, .data = &w->floats[i]};
        break;
    case COLUMN_STRING:
        *v = (struct pack_value){.present = true, .count = f->length, .data = f->data};
        break;
    case COLUMN_MICROS:
        ok = missing || (number_float(f->data, f->length, &real) && fabs(real) < 9.2e12);
        w->ints[i] = ok && !missing ? llround(real * 1e6) : 0;
        *v = (struct pack_value){.present = true, .count = missing ? 0 : 1, .data = &w->ints[i]};
        break;
    case COLUMN_LABEL:
        w->ints[i] = names_find(&t->labels, f->data, f->length);
        ok = w->ints[i] >= 0; /* otherwise the file was changed meanwhile */
        *v = (struct pack_value){.present = true, .count = 1, .data = &w->ints[i]};
        break;
    }
    if (!ok)
        return pst_fail(reterr, PST_ETYPE, "column %s is \"%.*s\", expected %s%s", s->fields[i].name,
                        (int)(f->length < 40 ? f->length : 40), f->data, type_names[t->columns[i].type],
                        t->columns[i].type == COLUMN_FLOAT ? " within float32" : "");
    return PST_OK;
}

static pst_status csv_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr)
{
    const struct table *t = s->state;
    struct csv_worker *w = worker;
    if (!w->ints)
        w->ints = mem_array(t->count, sizeof(*w->ints));
    if (!w->floats)
        w->floats = mem_array(t->count, sizeof(*w->floats));
    if (!w->ints || !w->floats)
        return fail_memory(reterr, "reading the table");
    const char *row = NULL;
    size_t length = 0;
    pst_status st = rows_get(&t->rows, &w->rows, i, &row, &length, reterr);
    if (st < 0)
        return st;
    st = split(&w->row, row, length, t->delimiter, t->count, reterr);
    if (st == PST_OK && w->row.count != t->count)
        st = pst_fail(reterr, PST_ECORRUPT, "%zu column%s, expected %zu as in the first row", w->row.count, w->row.count == 1 ? "" : "s", t->count);
    for (size_t k = 0; st == PST_OK && k < t->count; k++)
        st = load_field(s, w, k, &values[k], reterr);
    return st < 0 ? rows_blame(&t->rows, i, st, reterr) : PST_OK;
}

static void csv_worker_finish(void *worker)
{
    struct csv_worker *w = worker;
    file_window_finish(&w->rows.window);
    row_fields_finish(&w->row);
    mem_free(w->ints);
    mem_free(w->floats);
}

const struct pack_source_class pack_source_csv = {
    .name = "csv",
    .doc = "tables: one record per row, one feature per column",
    .matches = csv_matches,
    .open = csv_open,
    .close = csv_close,
    .key = csv_key,
    .estimate = csv_estimate,
    .worker_size = sizeof(struct csv_worker),
    .load = csv_load,
    .worker_finish = csv_worker_finish,
};
