/* list_inference.h: infers the feature lists of SequenceExamples from data. pst_inference infers the context features. */
#ifndef RECORD_LIST_INFERENCE_H
#define RECORD_LIST_INFERENCE_H

#include "record/feature.h"

struct list_inference {
    struct inferred_list *lists;
    size_t count, capacity;
    uint64_t examples;          /* added */
    struct feature_values step; /* scratch */
};

/* Adds one serialized message; one without feature lists, as every Example is, counts too. A message that fails may have been
 * counted in part. */
pst_status list_inference_add(struct list_inference *inference, const void *data, size_t length, pst_error *reterr);
/* The lists as a schema, in the order of their first occurrence: fixed with the number of values of a step, variable where
 * that number varies; with an empty default where some message lacks the list. */
pst_status list_inference_schema(const struct list_inference *inference, pst_schema **ret, pst_error *reterr);
void list_inference_finish(struct list_inference *inference);

#endif
