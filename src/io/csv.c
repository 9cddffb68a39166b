/* csv.c: delimited text, a row at a time, without copying but where a quote was doubled.
 *
 * Promises: RFC 4180 to the letter, any delimiter; what is not well-formed is an error, never a guess. Leaves to others:
 * types, headers, and where the text comes from. */
#include "io/csv.h"

#include <string.h>

bool csv_find_row_end(const char *data, size_t length, size_t begin, size_t *ret_end)
{
    /* A row ends at the first line break after an even number of quotes: doubled ones count twice and cancel out. */
    const char *at = data + begin, *end = data + length, *line = at;
    *ret_end = length;
    while (at < end) {
        if (line <= at) { /* not sought again while it lies ahead: rows of many quoted fields stay linear */
            line = memchr(at, '\n', (size_t)(end - at));
            line = line ? line + 1 : end;
        }
        const char *quote = memchr(at, '"', (size_t)(line - at));
        if (!quote) {
            *ret_end = (size_t)(line - data);
            return line[-1] == '\n';
        }
        const char *closing = memchr(quote + 1, '"', (size_t)(end - quote - 1));
        if (!closing)
            return false;
        at = closing + 1;
    }
    return false;
}

size_t csv_row_end(const char *data, size_t length, size_t begin)
{
    size_t end;
    csv_find_row_end(data, length, begin, &end);
    return end;
}

static pst_status bad_column(size_t column, const char *what, pst_error *reterr)
{
    return pst_fail(reterr, PST_ECORRUPT, "column %zu: %s", column + 1, what);
}

/* Reads the quoted field that starts at `at`. Returns the position after its closing quote; NULL: it is never closed. */
static const char *unquote(const char *at, const char *end, char *scratch, struct csv_field *ret)
{
    const char *from = at + 1, *close = memchr(from, '"', (size_t)(end - from));
    size_t n = 0;
    *ret = (struct csv_field){.data = from, .quoted = true};
    while (close && close + 1 < end && close[1] == '"') {
        size_t piece = (size_t)(close + 1 - from); /* with one of the two quotes */
        memcpy(scratch + n, from, piece);
        n += piece;
        from = close + 2;
        close = memchr(from, '"', (size_t)(end - from));
    }
    if (!close)
        return NULL;
    ret->length = n + (size_t)(close - from);
    if (n) {
        memcpy(scratch + n, from, (size_t)(close - from));
        ret->data = scratch;
    }
    return close + 1;
}

pst_status csv_next_field(const char **at, const char *end, char delimiter, char **scratch, struct csv_field *ret,
                          size_t column, pst_error *reterr)
{
    const char *from = *at;
    if (from < end && *from == '"') {
        const char *after = unquote(from, end, *scratch, ret);
        if (!after)
            return bad_column(column, "a quote that is never closed", reterr);
        if (after < end && *after != delimiter)
            return bad_column(column, "text after the closing quote; a quote inside quotes is written twice", reterr);
        *scratch += ret->length;
        *at = after;
        return PST_OK;
    }
    const char *stop = memchr(from, delimiter, (size_t)(end - from));
    *ret = (struct csv_field){.data = from, .length = (size_t)((stop ? stop : end) - from)};
    if (memchr(from, '"', ret->length))
        return bad_column(column, "a quote inside unquoted text; quote the whole field and write the quote twice", reterr);
    *at = from + ret->length;
    return PST_OK;
}

pst_status csv_split(const char *row, size_t length, char delimiter, char *scratch, struct csv_field *fields, size_t max_fields,
                     size_t *ret_count, pst_error *reterr)
{
    if (length && row[length - 1] == '\n')
        length -= length > 1 && row[length - 2] == '\r' ? 2 : 1;
    const char *at = row, *end = row + length;
    for (size_t count = 0;; count++) {
        if (count == max_fields)
            return pst_fail(reterr, PST_ECORRUPT, "more than %zu columns", max_fields);
        pst_status st = csv_next_field(&at, end, delimiter, &scratch, &fields[count], count, reterr);
        if (st < 0)
            return st;
        if (at == end) {
            *ret_count = count + 1;
            return PST_OK;
        }
        at++; /* the delimiter */
    }
}

/* How often `delimiter` stands outside quotes in the row [begin, end). */
static size_t count_delimiters(const char *data, size_t begin, size_t end, char delimiter)
{
    size_t count = 0;
    bool quoted = false;
    for (size_t i = begin; i < end; i++) {
        quoted ^= data[i] == '"';
        count += !quoted && data[i] == delimiter;
    }
    return count;
}

#define GUESS_ROWS 32

char csv_guess_delimiter(const char *data, size_t length)
{
    static const char candidates[] = {',', ';', '\t', '|'};
    char best = ',';
    size_t best_rows = 0, best_columns = 0;
    for (size_t c = 0; c < sizeof(candidates); c++) {
        size_t columns = 0, rows = 0, seen = 0;
        for (size_t begin = 0, end; begin < length && seen < GUESS_ROWS; begin = end) {
            end = csv_row_end(data, length, begin);
            if (end == length && seen && data[end - 1] != '\n')
                break; /* perhaps cut off by the caller's buffer */
            size_t n = count_delimiters(data, begin, end, candidates[c]);
            columns = seen++ ? columns : n;
            rows += n && n == columns;
        }
        /* Most rows that agree with the first; then most columns. */
        if (rows > best_rows || (rows == best_rows && columns > best_columns)) {
            best = candidates[c];
            best_rows = rows;
            best_columns = columns;
        }
    }
    return best;
}
