/* column.h: rows of values stored one after the other, with their splits. */
#ifndef RECORD_COLUMN_H
#define RECORD_COLUMN_H

#include "record/feature.h"

struct column {
    struct feature_values values;
    int64_t *splits; /* rows + 1 values */
    size_t splits_capacity;
    size_t rows;
};

/* Empties it for values of `kind`. False when out of memory. */
bool column_reset(struct column *c, pst_kind kind);
/* Appends a row of `count` values; splits count in units of `inner` values. False when out of memory. */
bool column_add_row(struct column *c, const void *values, size_t count, uint64_t inner);
pst_column column_view(const struct column *c, bool present);
void column_finish(struct column *c);

#endif
