/* teacher_logits.h: rows of logits by the place of their sample in the data; in a file, whole or not at all.
 *
 * The file: magic, format, width, count, fingerprint, sorted keys, rows in their order, a hash of everything before. Another fingerprint or a
 * wrong hash: it is as if there were no file. Little-endian, as everything that writes it. */
#ifndef TRAIN_TEACHER_LOGITS_H
#define TRAIN_TEACHER_LOGITS_H

#include <penstock/pipeline.h>

struct logit_entry {
    uint64_t key;
    size_t row;
};

/* Zero-initialise, then set the width. */
struct logit_table {
    size_t width;
    struct logit_entry *entries;
    size_t count, capacity;
    float *rows;
    size_t row_count, row_capacity; /* values / width */
};

uint64_t logit_key(const pst_place *place);
/* The row of the sample; NULL: there is none. */
const float *logit_find(const struct logit_table *t, uint64_t key);
/* Adds a row; logit_sort before anything is found. */
pst_status logit_add(struct logit_table *t, uint64_t key, const float *row, pst_error *reterr);
/* Sorts, and leaves one row of each key. */
void logit_sort(struct logit_table *t);
pst_status logit_save(const struct logit_table *t, const char *path, uint64_t fingerprint, pst_error *reterr);
/* PST_ENOTFOUND: there is no such file, or it is of something else, or damaged. */
pst_status logit_load(struct logit_table *t, const char *path, uint64_t fingerprint, pst_error *reterr);
void logit_finish(struct logit_table *t);

#endif
