/* sample_op.h: what an operation on single elements may tell the engine besides its public class. */
#ifndef OPS_SAMPLE_OP_H
#define OPS_SAMPLE_OP_H

#include <penstock/op.h>

struct sample_op {
    pst_op_class op;
    /* Of the fields that `plan` announced, only these are ever looked at: bit i for field i of its output. Called once the
     * whole chain is planned and before any `start`; `run` need not write the others. Without the call all are wanted. */
    void (*need)(void *config, uint64_t fields);
    /* What the engine chose for it when the whole chain was known, for the plan to show: "quality fast". NULL: nothing. */
    const char *(*choice)(const void *config, const char **ret_reason);
};

/* The extension of a built-in class; NULL: it has none. */
const struct sample_op *sample_op_of(const pst_op_class *op);

#endif
