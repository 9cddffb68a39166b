/* list.h: text that names files, one a row, with a label behind each or none at all. Rows are delimited like a table's, or
 * by a single space; a header may name the columns. */
#ifndef IO_LIST_H
#define IO_LIST_H

#include "io/csv.h"

#define LIST_COLUMNS   64
#define LIST_NO_COLUMN SIZE_MAX

/* How the rows of a list read. */
struct list_form {
    char delimiter;
    bool header;        /* the first row names the columns */
    size_t path, label; /* columns; label may be LIST_NO_COLUMN */
};

struct list_reader { /* zeroed at first */
    char *scratch;
    size_t scratch_size;
    struct csv_field fields[LIST_COLUMNS];
    size_t count;
};
void list_reader_finish(struct list_reader *r);

/* Learns how a list reads from its first two rows; `delimiter` 0: is guessed. `*ret_images`: one of them names an image.
 * Otherwise the first row is taken for a path, and perhaps a label. */
pst_status list_recognise(struct list_reader *r, const char *head, size_t length, char delimiter, struct list_form *ret,
                          bool *ret_images, pst_error *reterr);
/* The path and the label (NULL: the list has none) of a row; valid until the next call. `list` and `number` are for errors. */
pst_status list_read_row(struct list_reader *r, const struct list_form *form, const char *row, size_t length, const char *list,
                         uint64_t number, const struct csv_field **ret_path, const struct csv_field **ret_label,
                         pst_error *reterr);

/* "jpg" and the like, in any case. */
bool list_is_image_extension(const char *extension, size_t length);

#endif
