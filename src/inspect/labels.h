/* labels.h: finds the feature that holds the class, counts the records of each class, and reads the names of classes. */
#ifndef INSPECT_LABELS_H
#define INSPECT_LABELS_H

#include "record/name_table.h"
#include <penstock/inspect.h>

#define CLASSES_MAX       100000u /* different labels; a feature with more is not a class label */
#define CLASS_NAME_LENGTH 1024u   /* bytes of a label; the same */

/* How often each label occurs. Tables merge in any order to the same counts. */
struct class_table {
    struct name_table keys; /* the 8 bytes of a number, or the text: all labels are of one kind */
    uint64_t *counts;       /* one per key */
    size_t capacity;
    bool overflow; /* more than CLASSES_MAX: the counts are not valid */
};

struct feature_table;
/* The feature that holds the class: "label"; else the only one with such a name that is a single whole number; else the only
 * such text. NAME_NONE: there is none, or it is ambiguous. */
size_t labels_choose(const struct feature_table *t);

/* Zero-initialise `t` first. Counts every value of one record's label; they must all be of one kind, int64 or bytes. */
pst_status class_table_add(struct class_table *t, const pst_value *value, pst_error *reterr);
pst_status class_table_merge(struct class_table *into, const struct class_table *from, pst_error *reterr);
void class_table_finish(struct class_table *t);
int64_t class_number(const struct class_table *t, size_t i); /* of a table of whole numbers */

#endif
