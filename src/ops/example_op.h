/* example_op.h: the two halves of `example`: op_example.c plans and runs it, example_samples.c infers the schema from sample
 * records. */
#ifndef OPS_EXAMPLE_OP_H
#define OPS_EXAMPLE_OP_H

#include "base/arena.h"
#include <penstock/example.h>

struct example_config {
    const char *schema; /* "": to be inferred before the plan */
    const char *lists;  /* the feature lists of SequenceExamples; "": none, or inferred with the schema */
    const char *field;  /* field that holds the serialized Examples */
    size_t records;     /* number of records the schema was inferred from; 0: it was given */
    const bool *needed; /* features, then lists, that are used, by number; NULL: all */
    size_t features;    /* number of features, lists included; set by the plan */
    size_t number;      /* number of the field; set by the plan */
};

/* Sets the config's schema, and its lists unless they are given, from sample records (at least one; they should be spread
 * over the whole source) and stores their text in `strings`. */
pst_status example_infer(void *config, struct arena *strings, const pst_bytes *records, size_t count, pst_error *reterr);
/* Fails with PST_EINVAL if none of the sample records has a feature of the given schema, and suggests a similar name. An
 * optional feature is refused only if the records have one with a similar name. */
pst_status example_check(const void *config, const pst_bytes *records, size_t count, pst_error *reterr);

#endif
