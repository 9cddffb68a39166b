/* example_op.h: `example` from the inside, for the engine: where no schema is given, one has to be inferred from records of
 * the source before the operation can be planned. */
#ifndef OPS_EXAMPLE_OP_H
#define OPS_EXAMPLE_OP_H

#include "base/arena.h"
#include "ops/sample_op.h"

struct example_config {
    const char *schema; /* "": to be inferred before the plan */
    const char *field;  /* which one holds the serialized Examples */
    size_t records;     /* that the schema was inferred from; 0: it was given */
    uint64_t unneeded;  /* features that nobody looks at */
    size_t number;      /* of the field; noted by the plan */
};

extern const struct sample_op op_example; /* its features are the first fields of its output, in the schema's order */

/* Sets the config's schema from sample records (at least one; they should be spread over the whole source) and leaves its
 * text in `strings`. */
pst_status op_example_infer(void *config, struct arena *strings, const pst_bytes *records, size_t count, pst_error *reterr);

#endif
