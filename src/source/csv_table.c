/* csv_table.c: what the columns of a table are called, and of which type they are.
 *
 * Columns come from `columns`, or from the first row. A type that is not given is inferred from the first rows: int64 if all
 * values are whole numbers, float64 if all are numbers or missing, else bytes. Whole numbers that neither holds stay text. */
#include "source/csv_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/parse_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_ROWS 1000 /* at most, for inference */

void csv_table_finish(struct csv_table *t)
{
    mem_free(t->columns);
    mem_free(t->of);
    mem_free(t->names);
    mem_free(t->fields);
    arena_finish(&t->memory);
}

/* ---- Declarations ---- */

static pst_status fail_text(const char *text, const char *at, const char *expected, pst_error *reterr)
{
    return pst_fail(reterr, PST_EINVAL, "columns, position %zu: expected %s, as in \"age:int64=0 height:float name\"",
                    (size_t)(at - text) + 1, expected);
}

/* A word up to one of `stops`, or a quoted string, in which \ takes the next byte as it is. */
static pst_status read_word(struct csv_table *t, const char *text, const char **at, const char *stops, const char **ret,
                            size_t *ret_length, pst_error *reterr)
{
    const char *p = *at;
    bool quoted = *p == '"';
    size_t n = 0;
    char *word = arena_alloc(&t->memory, strlen(p) + 1);
    if (!word)
        return fail_memory(reterr, "reading the columns");
    for (p += quoted; quoted ? *p && *p != '"' : *p && !strchr(stops, *p); p++) {
        if (quoted && *p == '\\' && p[1])
            p++;
        word[n++] = *p;
    }
    if (quoted && *p != '"')
        return fail_text(text, *at, "a closing quote after it", reterr);
    word[n] = '\0';
    *at = p + quoted;
    *ret = word;
    *ret_length = n;
    return PST_OK;
}

static pst_status read_type(struct csv_column *c, const char *word, const char *text, const char *at, pst_error *reterr)
{
    static const char *const names[] = {"int64", "int",   "int32", "float", "float32", "float64",
                                        "double", "bytes", "string", NULL};
    static const enum csv_type types[] = {CSV_INT64,   CSV_INT64,   CSV_INT32, CSV_FLOAT, CSV_FLOAT,
                                          CSV_FLOAT64, CSV_FLOAT64, CSV_BYTES, CSV_BYTES};
    char expected[120];
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0) {
            c->type = types[i];
            c->declared = true;
            return PST_OK;
        }
    const char *nearest = text_nearest(word, names);
    snprintf(expected, sizeof(expected), "a type: int64, int32, float, float64 or bytes%s%s%s", nearest ? "; did you mean " : "",
             nearest ? nearest : "", nearest ? "?" : "");
    return fail_text(text, at, expected, reterr);
}

static pst_status read_default(struct csv_column *c, const char *word, size_t length, const char *text, const char *at,
                               pst_error *reterr)
{
    bool ok = true;
    c->has_default = true;
    switch (c->type) {
    case CSV_INT64:
    case CSV_INT32:
        ok = number_int(word, length, &c->int_default) &&
             (c->type == CSV_INT64 || (c->int_default >= INT32_MIN && c->int_default <= INT32_MAX));
        break;
    case CSV_FLOAT:
    case CSV_FLOAT64:
        ok = number_float(word, length, &c->float_default) && (c->type == CSV_FLOAT64 || number_fits_float(c->float_default));
        break;
    case CSV_BYTES:
        c->text_default = (pst_bytes){(const uint8_t *)word, length};
        break;
    }
    return ok ? PST_OK : fail_text(text, at, "a default of the column's type", reterr);
}

static pst_status read_column(struct csv_table *t, struct csv_column *c, const char *text, const char **at, pst_error *reterr)
{
    size_t length = 0;
    const char *begin = *at, *word = NULL;
    c->type = CSV_INT64;
    pst_status st = read_word(t, text, at, " \t\n,:=", &c->name, &length, reterr);
    if (st == PST_OK && length == 0)
        return fail_text(text, begin, "a column's name", reterr);
    if (st == PST_OK && **at == ':') {
        begin = ++*at;
        st = read_word(t, text, at, " \t\n,:=", &word, &length, reterr);
        if (st == PST_OK)
            st = read_type(c, word, text, begin, reterr);
    }
    if (st == PST_OK && **at == '=') {
        begin = ++*at;
        if (!c->declared)
            return fail_text(text, begin, "a type before the default", reterr);
        st = read_word(t, text, at, " \t\n,", &word, &length, reterr);
        if (st == PST_OK)
            st = read_default(c, word, length, text, begin, reterr);
    }
    if (st == PST_OK && **at && !strchr(" \t\n,", **at))
        st = fail_text(text, *at, "a blank between columns", reterr);
    return st;
}

static pst_status check_name(const struct csv_table *t, size_t k, pst_error *reterr)
{
    const char *name = t->columns[k].name;
    if (strlen(name) >= PST_NAME_SIZE)
        return pst_fail(reterr, PST_EUNSUPPORTED, "column %.64s…: a field's name has at most %d bytes; columns= selects others",
                        name, PST_NAME_SIZE - 1);
    for (size_t i = 0; i < k; i++)
        if (strcmp(t->columns[i].name, name) == 0)
            return pst_fail(reterr, PST_EINVAL, "two columns are called \"%s\"; a field needs a name of its own", name);
    return PST_OK;
}

pst_status csv_table_declare(struct csv_table *t, const char *text, pst_error *reterr)
{
    size_t capacity = 0;
    pst_status st = PST_OK;
    for (const char *at = text; st == PST_OK; t->count++) {
        at += strspn(at, " \t\n,");
        if (!*at)
            break;
        if (t->count == PST_MAX_FIELDS)
            return pst_fail(reterr, PST_ELIMIT, "columns: more than %d", PST_MAX_FIELDS);
        if (mem_grow((void **)&t->columns, &capacity, t->count + 1, sizeof(*t->columns)) < 0)
            return fail_memory(reterr, "reading the columns");
        t->columns[t->count] = (struct csv_column){0};
        st = read_column(t, &t->columns[t->count], text, &at, reterr);
        if (st == PST_OK)
            st = check_name(t, t->count, reterr);
    }
    return st;
}

/* ---- The first row ---- */

/* The fields of a row; the caller frees both arrays. */
struct split_row {
    struct csv_field *fields;
    size_t count;
    char *scratch;
    size_t scratch_size;
};

static void split_row_finish(struct split_row *r)
{
    mem_free(r->fields);
    mem_free(r->scratch);
    *r = (struct split_row){0};
}

/* `r` is zeroed, or from an earlier row. */
static pst_status split_row(struct split_row *r, const char *row, size_t length, char delimiter, pst_error *reterr)
{
    if (!r->fields)
        r->fields = mem_array(PST_MAX_FIELDS, sizeof(*r->fields));
    if (!r->fields || mem_grow((void **)&r->scratch, &r->scratch_size, length + 1, 1) < 0)
        return fail_memory(reterr, "reading the first rows");
    return csv_split(row, length, delimiter, r->scratch, r->fields, PST_MAX_FIELDS, &r->count, reterr);
}

/* Names all positions: by the header, or c0, c1, …. */
static pst_status name_positions(struct csv_table *t, const struct split_row *first, pst_error *reterr)
{
    char number[24];
    t->width = first->count;
    t->names = mem_array(t->width, sizeof(*t->names));
    t->of = mem_array(t->width, sizeof(*t->of));
    for (size_t i = 0; t->names && t->of && i < t->width; i++) {
        const struct csv_field *f = &first->fields[i];
        snprintf(number, sizeof(number), "c%zu", i);
        bool named = t->header && f->length > 0;
        if (named && memchr(f->data, 0, f->length))
            return pst_fail(reterr, PST_ECORRUPT, "the name of column %zu has a NUL: is this a table of text?", i + 1);
        t->of[i] = -1;
        t->names[i] = named ? arena_strndup(&t->memory, f->data, f->length) : arena_strndup(&t->memory, number, strlen(number));
        if (!t->names[i])
            return fail_memory(reterr, "reading the first rows");
    }
    return t->names && t->of ? PST_OK : fail_memory(reterr, "reading the first rows");
}

static pst_status fail_no_column(const struct csv_table *t, const char *name, pst_error *reterr)
{
    const char **list = mem_array(t->width + 1, sizeof(*list)); /* ends with NULL */
    if (list)
        memcpy(list, t->names, t->width * sizeof(*list));
    const char *nearest = list ? text_nearest(name, list) : NULL;
    pst_fail(reterr, PST_EINVAL, "columns: the table has no column \"%s\"%s%s%s", name, nearest ? "; did you mean " : "",
             nearest ? nearest : "", nearest ? "?" : "");
    mem_free(list);
    return PST_EINVAL;
}

static pst_status place_columns(struct csv_table *t, pst_error *reterr)
{
    pst_status st = PST_OK;
    bool all = t->count == 0, in_order = !t->header && t->count == t->width;
    if (all) {
        t->columns = mem_array(t->width, sizeof(*t->columns));
        if (!t->columns)
            return fail_memory(reterr, "reading the first rows");
    }
    for (size_t k = 0; k < (all ? t->width : t->count) && st == PST_OK; k++) {
        size_t p = all || in_order ? k : 0;
        while (!all && !in_order && p < t->width && strcmp(t->names[p], t->columns[k].name) != 0)
            p++;
        if (p == t->width)
            return fail_no_column(t, t->columns[k].name, reterr);
        if (all) {
            t->columns[k] = (struct csv_column){.name = t->names[p]};
            st = check_name(t, k, reterr);
        }
        t->columns[k].position = p;
        t->of[p] = (int)k;
    }
    if (all && st == PST_OK)
        t->count = t->width;
    return st;
}

/* ---- Types ---- */

/* What the first rows of a column hold. */
struct seen {
    bool missing, value;
    bool fraction; /* a number that is not written as a whole one */
    bool large;    /* a whole number beyond 2^53, which float64 may round */
    bool beyond;   /* a whole number beyond int64 */
};

#define EXACT_WHOLE ((int64_t)1 << 53)

static bool is_whole(const struct csv_field *f)
{
    for (size_t i = 0; i < f->length; i++)
        if (!is_digit(f->data[i]) && !strchr("+- \t", f->data[i]))
            return false;
    return true;
}

static void look_at_field(struct csv_column *c, const struct csv_field *f, struct seen *s)
{
    int64_t whole;
    double real;
    if (c->declared || c->type == CSV_BYTES)
        return;
    if (f->length == 0 || number_missing(f->data, f->length)) {
        s->missing = true;
        return;
    }
    s->value = true;
    if (number_int(f->data, f->length, &whole)) {
        s->large |= whole > EXACT_WHOLE || whole < -EXACT_WHOLE;
        return;
    }
    bool name = f->length > 1 && f->data[0] == '0' && is_digit(f->data[1]); /* "007" keeps its zeros */
    c->type = name || !number_float(f->data, f->length, &real) ? CSV_BYTES : CSV_FLOAT64;
    s->beyond |= is_whole(f);
    s->fraction |= !is_whole(f);
}

/* Whole numbers are not rounded: where some are missing, they stay int64 if float64 would round one of them. */
static void settle_type(struct csv_column *c, const struct seen *s)
{
    if (c->declared)
        return;
    if (!s->value || (c->type == CSV_FLOAT64 && s->beyond && !s->fraction))
        c->type = CSV_BYTES;
    else if (c->type == CSV_INT64 && s->missing && !s->large)
        c->type = CSV_FLOAT64; /* NaN where it is missing */
}

static pst_status infer(struct csv_table *t, const char *rows, size_t length, bool ended, pst_error *reterr)
{
    struct split_row row = {0};
    struct seen *seen = mem_array(t->count + 1, sizeof(*seen));
    pst_status st = seen ? PST_OK : fail_memory(reterr, "inferring types");
    size_t end = 0;
    for (size_t begin = 0, n = 0; st == PST_OK && begin < length && n < SAMPLE_ROWS; begin = end, n++) {
        if (!csv_find_row_end(rows, length, begin, &end) && !ended)
            break;
        if (rows[begin] == '\n' || rows[begin] == '\r') /* an empty line */
            continue;
        st = split_row(&row, rows + begin, end - begin, t->delimiter, reterr);
        for (size_t k = 0; st == PST_OK && k < t->count; k++)
            if (t->columns[k].position < row.count)
                look_at_field(&t->columns[k], &row.fields[t->columns[k].position], &seen[k]);
        st = st == PST_ECORRUPT ? PST_OK : st; /* it fails again when it is loaded, and is counted there */
    }
    for (size_t k = 0; st == PST_OK && k < t->count; k++)
        settle_type(&t->columns[k], &seen[k]);
    split_row_finish(&row);
    mem_free(seen);
    return st;
}

pst_status csv_table_learn(struct csv_table *t, const char *rows, size_t length, bool ended, bool *ret_known, pst_error *reterr)
{
    struct split_row first = {0};
    size_t end = 0;
    *ret_known = length > 0 && (csv_find_row_end(rows, length, 0, &end) || ended);
    if (!*ret_known)
        return PST_OK;
    if (!t->delimiter)
        t->delimiter = csv_guess_delimiter(rows, length);
    pst_status st = split_row(&first, rows, end, t->delimiter, reterr);
    if (st < 0)
        st = pst_fail(reterr, st, "first row: %s", reterr ? reterr->message : "");
    if (st == PST_OK)
        st = name_positions(t, &first, reterr);
    if (st == PST_OK)
        st = place_columns(t, reterr);
    size_t begin = t->header ? end : 0;
    if (st == PST_OK)
        st = infer(t, rows + begin, length - begin, ended, reterr);
    split_row_finish(&first);
    return st;
}

pst_status csv_table_settle(struct csv_table *t, pst_error *reterr)
{
    static const pst_dtype dtypes[] = {[CSV_INT64] = PST_DTYPE_I64,
                                       [CSV_FLOAT] = PST_DTYPE_F32,
                                       [CSV_BYTES] = PST_DTYPE_BYTES,
                                       [CSV_INT32] = PST_DTYPE_I32,
                                       [CSV_FLOAT64] = PST_DTYPE_F64};
    if (t->count == 0)
        return pst_fail(reterr, PST_EINVAL, "the files are empty: columns= declares what they would have");
    t->fields = mem_array(t->count, sizeof(*t->fields));
    if (!t->fields)
        return fail_memory(reterr, "opening the table");
    for (size_t k = 0; k < t->count; k++) {
        struct csv_column *c = &t->columns[k];
        if (!t->width && !c->declared)
            c->type = CSV_BYTES;
        t->fields[k] = (pst_field){.dtype = dtypes[c->type], .alias = -1};
        memcpy(t->fields[k].name, c->name, strlen(c->name)); /* its length was checked; the rest is zeros */
    }
    return PST_OK;
}

pst_status csv_table_check_header(const struct csv_table *t, const char *row, size_t length, pst_error *reterr)
{
    struct split_row r = {0};
    pst_status st = split_row(&r, row, length, t->delimiter, reterr);
    if (st == PST_OK && r.count != t->width)
        st = pst_fail(reterr, PST_EINVAL, "has %zu columns, the first file has %zu; read tables of one form together", r.count,
                      t->width);
    for (size_t i = 0; st == PST_OK && i < r.count; i++)
        if (r.fields[i].length && (strlen(t->names[i]) != r.fields[i].length ||
                                   memcmp(t->names[i], r.fields[i].data, r.fields[i].length) != 0))
            st = pst_fail(reterr, PST_EINVAL, "column %zu is \"%.*s\", in the first file \"%s\"; read tables of one form together",
                          i + 1, (int)(r.fields[i].length < 40 ? r.fields[i].length : 40), r.fields[i].data, t->names[i]);
    split_row_finish(&r);
    return st;
}
