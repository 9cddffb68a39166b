/* segment_rows.h: views of single elements of a finished batch. */
#ifndef FLOW_SEGMENT_ROWS_H
#define FLOW_SEGMENT_ROWS_H

#include "flow/batch.h"
#include "flow/element.h"

#include <string.h>

/* Returns field `f` of element `at`, as a view. */
static inline pst_tensor rows_at(const pst_batch *b, size_t f, size_t at)
{
    const struct batch_column *c = &b->layout->column[f];
    pst_tensor t = field_tensor(&c->field);
    if (c->kind == COLUMN_FIXED) {
        t.data = batch_slot(b, f, at);
        return t;
    }
    if (c->kind == COLUMN_PADDED) {
        memcpy(t.shape, b->tensor[f].shape + 1, t.rank * sizeof(*t.shape));
        t.data = (uint8_t *)b->tensor[f].data + at * shape_bytes(t.dtype, t.rank, t.shape);
        return t;
    }
    return b->varying[f].elements[at];
}

/* Returns row `row` of an element's field. */
static inline pst_tensor rows_split(const pst_tensor *whole, uint64_t row)
{
    pst_tensor t = {.dtype = whole->dtype, .rank = whole->rank - 1};
    memcpy(t.shape, whole->shape + 1, t.rank * sizeof(*t.shape));
    t.data = (uint8_t *)whole->data + row * shape_bytes(t.dtype, t.rank, t.shape);
    return t;
}

#endif
