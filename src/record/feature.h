/* feature.h: the values of one tf.train.Feature, gathered from its wire format.
 *
 * A Feature is a oneof of three lists. Merging follows protobuf: a list of the same kind is appended, one of another kind
 * replaces what was there. Floats in one packed chunk stay in the input; everything else is stored in a buffer that is
 * reused and only grows. */
#ifndef RECORD_FEATURE_H
#define RECORD_FEATURE_H

#include "base/wire.h"
#include <penstock/example.h>

struct feature_values {
    pst_kind kind; /* PST_KIND_NONE: unset, which counts as missing */
    size_t count;
    const void *data; /* into the input, or `buffer`; NULL while there are no values */
    void *buffer;
    size_t capacity; /* of the buffer, in bytes */
};

static inline size_t kind_size(pst_kind kind)
{
    return kind == PST_BYTES ? sizeof(pst_bytes) : kind == PST_INT64 ? sizeof(int64_t) : sizeof(float);
}

/* Clears the values and keeps the buffer. */
static inline void feature_reset(struct feature_values *v)
{
    v->kind = PST_KIND_NONE;
    v->count = 0;
    v->data = NULL;
}

/* Merges the Feature message [p, end) into `v`. Returns false and fills `t` if it is malformed, has more than `max_values`
 * values or memory runs out; then `v` may only be reset or finished. */
bool feature_merge(struct feature_values *v, const uint8_t *p, const uint8_t *end, size_t max_values, struct wire_trouble *t);

/* Appends `count` values of `v`'s kind from memory. False when out of memory. */
bool feature_append(struct feature_values *v, const void *values, size_t count);

void feature_finish(struct feature_values *v);

/* Rows of values stored one after the other, with their splits. */

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
