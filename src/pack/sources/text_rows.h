/* text_rows.h: text files as numbered rows, for tables and lines. */
#ifndef PACK_SOURCES_TEXT_ROWS_H
#define PACK_SOURCES_TEXT_ROWS_H

#include "pack/sources/file_window.h"
#include "pack/sources/spool.h"

struct row_file {
    struct spool *spool;
    const char *name; /* keys: NAME#ROW, counted from 0 */
    uint64_t first;   /* its first row among all */
    size_t first_mark;
};

/* Only every ROWS_STRIDE-th row's place is kept: one byte per row. */
#define ROWS_STRIDE 16

struct row_mark {
    uint64_t offset, line; /* lines are counted from 1, as editors do */
};

struct rows {
    bool quoted; /* rows of a table: line breaks may be inside quotes, and blank rows do not count */
    struct row_file *files;
    size_t file_count, file_capacity;
    struct row_mark *marks;
    size_t mark_count, mark_capacity;
    uint64_t count, bytes;
    struct spools spools;
};

/* Callbacks for the rows of a file while they are found. */
struct rows_visitor {
    bool header; /* the first row is a header */
    /* Receives the file's first bytes after a byte order mark: enough for guesses and for a header. NULL ok. */
    pst_status (*begin)(void *user, const char *head, size_t length, pst_error *reterr);
    /* Each row without its line break. `number` counts in the file. NULL ok. */
    pst_status (*row)(void *user, const char *row, size_t length, uint64_t number, pst_error *reterr);
    void *user;
};

/* Opens a file and finds its rows. */
pst_status rows_add(struct rows *r, struct pack_source *s, const struct pack_opening *o, const char *path,
                    const struct rows_visitor *visitor, pst_error *reterr);
void rows_close(struct rows *r);

struct rows_worker {
    struct file_window window;
    size_t file;
    uint64_t next_row, next_offset; /* where reading continues without a search; next_row 0: nowhere */
};

/* Row `i`, without its line break; valid until the next call. Any thread, each with its own worker. */
pst_status rows_get(const struct rows *r, struct rows_worker *w, uint64_t i, const char **ret, size_t *ret_length,
                    pst_error *reterr);
const char *rows_key(const struct rows *r, uint64_t i, char buffer[PACK_KEY_BYTES]);
uint64_t rows_estimate(const struct rows *r); /* bytes per row, on average */
/* Names row `i` and its line in an error that came from its contents; it may be the row that a visitor is given. */
pst_status rows_blame(const struct rows *r, uint64_t i, pst_status status, pst_error *reterr);

#endif
