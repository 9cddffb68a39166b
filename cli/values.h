/* values.h: the values of a tensor, one by one and summed up. */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

#include <penstock/op.h>

/* Element `i` of a batch as a view: without the batch's dimension, and of a field whose shape varies, with its own rows. */
pst_tensor element_view(const pst_tensor *batch, size_t i);

/* Number of values in `t`; for a batch with row splits, in all of its `size` elements. */
uint64_t value_count(const pst_tensor *t, size_t size);

/* Any number as a double. Not for bytes. */
double value_number(const pst_tensor *t, uint64_t i);

/* A number as the shortest text that reads back as the same value of its type. Returns `buffer`. */
#define VALUE_SIZE 32
char *value_text(char buffer[VALUE_SIZE], const pst_tensor *t, uint64_t i);

/* Summary of a field that is too long to print. */
struct value_summary {
    double min, max, mean; /* of finite numbers; NaN where there are none */
    uint64_t nonfinite;
    uint64_t digest; /* of all bytes: equal data, equal digest */
};
struct value_summary values_summary(const pst_tensor *t, uint64_t count);
uint64_t bytes_digest(const void *data, size_t length);

#endif
