/* source_csv.c: `csv`: tables as text, one element per row, one field per column. Files and indexes are span_set.c's, columns
 * and rows csv_table.c's and csv_row.c's. */
#include "source/csv_table.h"
#include "source/span_set.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

struct config {
    pst_strings paths;
    const char *columns, *delimiter, *na;
    bool header;
    int io; /* enum span_io */
    uint64_t max_record;
};

static const pst_param params[] = {
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL,
     "files, folders (their .csv and .tsv files) or patterns; - is standard input"},
    {"columns", PST_PARAM_STRING, offsetof(struct config, columns), "", 0, 0, NULL,
     "the columns to read, as name, name:type or name:type=default, separated by blanks; types are int64, int32, float, "
     "float64 and bytes. Empty: all columns. A type that is not given is inferred from the first rows"},
    {"delimiter", PST_PARAM_STRING, offsetof(struct config, delimiter), "auto", 0, 0, NULL,
     "one character, or tab; auto: comma, semicolon, tab or bar, whichever splits the first rows evenly"},
    {"header", PST_PARAM_BOOL, offsetof(struct config, header), "true", 0, 0, NULL,
     "the first row of every file names the columns; without it they are c0, c1, …, or what columns= calls them"},
    {"na", PST_PARAM_STRING, offsetof(struct config, na), "", 0, 0, NULL,
     "a text that marks a missing value, such as ?; an empty field always does, and NA, NaN, null and None in numbers"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, span_io_names, SPAN_IO_DOC},
    {"max_record", PST_PARAM_BYTES, offsetof(struct config, max_record), "64MiB", 0, 0, NULL, "a longer row is an error"},
    {0},
};

struct csv {
    struct span_set set; /* first */
    struct csv_table table;
};

static size_t skip_empty(const struct span_window *w, size_t at)
{
    while (at < w->length && (w->data[at] == '\n' || (w->data[at] == '\r' && (at + 1 == w->length || w->data[at + 1] == '\n'))))
        at++;
    return at;
}

/* The first row of the file: after a byte order mark and empty lines. */
static size_t first_row(const struct span_window *w)
{
    bool mark = w->length >= 3 && memcmp(w->data, "\xef\xbb\xbf", 3) == 0;
    return skip_empty(w, mark ? 3 : 0);
}

static pst_status csv_look(void *source, const struct span_window *head, enum span_found *ret, pst_error *reterr)
{
    struct csv *c = source;
    size_t begin = first_row(head);
    bool known = false;
    pst_status st = csv_table_learn(&c->table, (const char *)head->data + begin, head->length - begin, head->ended, &known, reterr);
    *ret = known ? SPAN_FOUND : head->ended ? SPAN_END : SPAN_MORE;
    return st < 0 ? pst_fail_at(reterr, st, head->path, PST_NOWHERE, begin, "%s", reterr->message) : PST_OK;
}

static pst_status csv_cut(void *source, void *room, const struct span_window *w, size_t *ret_begin, size_t *ret_end,
                          enum span_found *ret, pst_error *reterr)
{
    const struct csv *c = source;
    const char *data = (const char *)w->data;
    size_t at = w->offset == 0 ? first_row(w) : skip_empty(w, 0), end;
    (void)room;
    if (w->offset == 0 && c->table.header && at < w->length) {
        bool whole = csv_find_row_end(data, w->length, at, &end);
        if (!whole && !w->ended) {
            *ret = SPAN_MORE;
            return PST_OK;
        }
        pst_status st = csv_table_check_header(&c->table, data + at, end - at, reterr);
        if (st < 0)
            return pst_fail_at(reterr, st, w->path, PST_NOWHERE, at, "%s", reterr->message);
        struct span_window rest = {.data = w->data, .length = w->length};
        at = skip_empty(&rest, end);
    }
    *ret_begin = at;
    *ret = SPAN_FOUND;
    if (at == w->length)
        *ret = w->ended ? SPAN_END : SPAN_MORE;
    else if (!csv_find_row_end(data, w->length, at, ret_end) && !w->ended)
        *ret = SPAN_MORE;
    return PST_OK;
}

static pst_status csv_parse(const void *source, void *room, const struct span_window *w, pst_tensor *out, pst_error *reterr)
{
    const struct csv *c = source;
    if (w->length == 0 || (w->data[w->length - 1] != '\n' && !w->ended))
        return pst_fail(reterr, PST_ESTALE, "the file changed after its index was made; delete the index (….rows.pidx)");
    return csv_table_parse(&c->table, room, (const char *)w->data, w->length, out, reterr);
}

static void room_stop(void *room)
{
    csv_values_finish(room);
}

static const char *const extensions[] = {".csv", ".tsv", NULL};

static const struct span_class class = {.kind = "rows",
                                        .extensions = extensions,
                                        .look = csv_look,
                                        .look_bytes = (size_t)256 << 10,
                                        .cut = csv_cut,
                                        .parse = csv_parse,
                                        .in_lines = true,
                                        .room_stop = room_stop,
                                        .room_size = sizeof(struct csv_values)};

static void csv_close(void *source)
{
    struct csv *c = source;
    if (!c)
        return;
    span_set_finish(&c->set);
    csv_table_finish(&c->table);
    mem_free(c);
}

static pst_status read_delimiter(const char *text, char *ret, pst_error *reterr)
{
    bool tab = strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0;
    if (strcmp(text, "auto") == 0)
        return PST_OK;
    if (!tab && (strlen(text) != 1 || strchr("\"\r\n", text[0])))
        return pst_fail(reterr, PST_EINVAL, "delimiter: \"%s\"; expected one character that is not a quote, tab, or auto", text);
    *ret = tab ? '\t' : text[0];
    return PST_OK;
}

/* An index that was found says nothing about the header: files that were indexed before may have other columns. */
static pst_status check_headers(struct csv *c, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t k = 0; k < c->set.paths.count && st == PST_OK && c->table.header && !c->set.streamed; k++) {
        struct span_pass *p = NULL;
        struct span_window w;
        size_t begin = 0, end = 0;
        enum span_found found = SPAN_MORE;
        if (c->set.files[k].bytes == 0 || c->set.files[k].index.built)
            continue;
        st = span_pass_open(&p, &c->set, c->set.paths.paths[k], -1, reterr);
        for (size_t want = 4096; st == PST_OK && found == SPAN_MORE; want *= 2) {
            st = span_pass_head(p, want, &w, reterr);
            if (st == PST_OK)
                st = csv_cut(c, NULL, &w, &begin, &end, &found, reterr);
        }
        span_pass_close(p);
    }
    return st;
}

static pst_status open_table(struct csv *c, const struct config *config, const struct source_env *env, pst_error *reterr)
{
    pst_status st = read_delimiter(config->delimiter, &c->table.delimiter, reterr);
    if (st == PST_OK)
        st = csv_table_declare(&c->table, config->columns, reterr);
    if (st == PST_OK)
        st = span_set_open(&c->set, &config->paths, env, reterr);
    if (st == PST_OK)
        st = check_headers(c, reterr);
    return st == PST_OK ? csv_table_settle(&c->table, reterr) : st;
}

static pst_status csv_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *given = config;
    struct csv *c = mem_zalloc(sizeof(*c));
    pst_error own = {0};
    if (!c)
        return fail_memory(reterr, "opening the table");
    arena_init(&c->table.memory);
    c->table.header = given->header;
    c->table.na = given->na;
    c->set.class = &class;
    c->set.io = (enum span_io)given->io;
    c->set.max_bytes = given->max_record;
    c->set.form = given->header;
    pst_status st = open_table(c, given, env, reterr ? reterr : &own);
    if (st < 0) {
        csv_close(c);
        return st;
    }
    *ret = c;
    return PST_OK;
}

static void csv_spec(const void *source, pst_spec *ret)
{
    const struct csv_table *t = &((const struct csv *)source)->table;
    *ret = (pst_spec){.count = t->count, .field = t->fields};
}

static void csv_need(void *source, const bool *fields)
{
    ((struct csv *)source)->table.need = fields;
}

const struct source_class source_csv = {
    .op = {.size = sizeof(pst_op_class),
           .name = "csv",
           .doc = "The rows of tables as text, one field per column. Quoted fields may hold delimiters, doubled quotes and line "
                  "breaks; empty lines are left out. A missing number is its column's default, or NaN; a missing whole number "
                  "without a default is an error. An index of the rows is made on first use, so they can be read in any order; if "
                  "one file is compressed or a pipe, all files are a stream.",
           .example = "csv houses.csv columns='rooms:int64=0 area:float price:float' | shuffle | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = csv_open,
    .close = csv_close,
    .spec = csv_spec,
    .need = csv_need,
    SPAN_SET_SOURCE(sizeof(struct csv_values)),
};
