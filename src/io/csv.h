/* csv.h: rows and fields of delimited text (RFC 4180: quotes, doubled quotes, line breaks inside quotes, LF or CRLF). */
#ifndef IO_CSV_H
#define IO_CSV_H

#include <penstock/base.h>

/* Returns the end of the row that starts at `begin` (just after its line break), or `length`. */
size_t csv_row_end(const char *data, size_t length, size_t begin);
/* The same, and returns whether the row ends there: false if the data ends before the row's line break. */
bool csv_find_row_end(const char *data, size_t length, size_t begin, size_t *ret_end);

struct csv_field {
    const char *data; /* quotes removed; points into the row, or into `scratch` where a quote was doubled */
    size_t length;
    bool quoted; /* "" quoted is an empty string, unquoted is missing */
};

/* Reads the field at `*at`, number `column` of its row, and moves `*at` to the delimiter after it or to `end`. `*scratch` must
 * have room for what is left of the row, and is moved, too. */
pst_status csv_next_field(const char **at, const char *end, char delimiter, char **scratch, struct csv_field *ret,
                          size_t column, pst_error *reterr);

/* Splits one row. `scratch` must have room for the row. A stray quote is PST_ECORRUPT naming the column. */
pst_status csv_split(const char *row, size_t length, char delimiter, char *scratch, struct csv_field *fields, size_t max_fields,
                     size_t *ret_count, pst_error *reterr);

/* Comma, semicolon, tab or bar: the one that splits the first rows evenly. */
char csv_guess_delimiter(const char *data, size_t length);

#endif
