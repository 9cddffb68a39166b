/* csv_table.h: the columns of a table: their names and types, and a row of text turned into values. */
#ifndef SOURCE_CSV_TABLE_H
#define SOURCE_CSV_TABLE_H

#include "base/arena.h"
#include "io/csv.h"
#include <penstock/op.h>

/* Inference gives int64, float64 or bytes. */
enum csv_type { CSV_INT64, CSV_FLOAT, CSV_BYTES, CSV_INT32, CSV_FLOAT64 };

struct csv_column {
    const char *name;
    enum csv_type type;
    bool declared; /* its type is given */
    bool has_default;
    int64_t int_default;
    double float_default;
    pst_bytes text_default;
    size_t position; /* in the rows */
};

struct csv_table { /* zeroed at first */
    struct csv_column *columns; /* the fields, in their order */
    size_t count;
    size_t width; /* columns of a row; 0: not known yet */
    int *of;      /* the field at a position of a row; -1: none */
    const char **names; /* of all positions, where there is a header */
    pst_field *fields;
    char delimiter; /* 0: not known yet */
    bool header;
    const char *na;   /* this text is a missing value, too; "": none */
    const bool *need; /* fields that are used; NULL: all */
    struct arena memory;
};

void csv_table_finish(struct csv_table *t);
/* Reads `columns`: "age:int64=0 height:float name"; empty: all columns. */
pst_status csv_table_declare(struct csv_table *t, const char *text, pst_error *reterr);
/* Settles columns and types by the beginning of a table, of `rows` bytes. `ended`: that is all of it. Returns false in
 * `*ret_known` if more of it is needed. */
pst_status csv_table_learn(struct csv_table *t, const char *rows, size_t length, bool ended, bool *ret_known, pst_error *reterr);
/* Makes the fields; after everything is settled. */
pst_status csv_table_settle(struct csv_table *t, pst_error *reterr);
/* Fails if the first row of another file does not name the same columns. */
pst_status csv_table_check_header(const struct csv_table *t, const char *row, size_t length, pst_error *reterr);

/* Values of one row; zeroed at first. */
struct csv_values {
    union csv_value {
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
        pst_bytes bytes;
    } *at; /* one per field */
    char *scratch;
    size_t scratch_size;
};
void csv_values_finish(struct csv_values *v);
/* Parses a row, whose line break may be there or not. Fields that are not needed are not set. */
pst_status csv_table_parse(const struct csv_table *t, struct csv_values *v, const char *row, size_t length, pst_tensor *out,
                           pst_error *reterr);

#endif
