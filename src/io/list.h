/* list.h: text that names files, one per row, with a label after each or no labels. Rows are delimited like those of a
 * table, or by a single space; a header may name the columns. */
#ifndef IO_LIST_H
#define IO_LIST_H

#include "io/csv.h"

#define LIST_COLUMNS   64
#define LIST_NO_COLUMN SIZE_MAX

/* The form of the rows of a list. */
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

/* Recognises the form of a list from its first two rows; `delimiter` 0: it is guessed. `*ret_images`: one of them names an
 * image. Otherwise the first row is assumed to be a path, with or without a label. */
pst_status list_recognise(struct list_reader *r, const char *head, size_t length, char delimiter, struct list_form *ret,
                          bool *ret_images, pst_error *reterr);
/* Returns the path and the label (NULL: the list has none) of a row; valid until the next call. `list` and `number` are for
 * errors. */
pst_status list_read_row(struct list_reader *r, const struct list_form *form, const char *row, size_t length, const char *list,
                         uint64_t number, const struct csv_field **ret_path, const struct csv_field **ret_label,
                         pst_error *reterr);

/* What the labels of lists are: integers while all of them are, then numbers, then names of classes. Zeroed at first. */
enum list_labels_kind { LIST_INTEGERS, LIST_NUMBERS, LIST_NAMES };
struct list_labels {
    enum list_labels_kind kind;
    char large[32]; /* the first whole number beyond int64; "": none */
};
void list_labels_look(struct list_labels *l, const struct csv_field *label);
/* After all labels: fails if one of the numbers is a whole number beyond int64. */
pst_status list_labels_check(const struct list_labels *l, const char *list, pst_error *reterr);
/* Reads a label of lists of numbers. */
double list_label_number(const struct csv_field *label);

/* Returns true for "jpg" and other image extensions, in upper or lower case. */
bool list_is_image_extension(const char *extension, size_t length);

#endif
