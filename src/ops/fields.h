/* fields.h: the fields of an element as operations ask for them. */
#ifndef OPS_FIELDS_H
#define OPS_FIELDS_H

#include <penstock/op.h>

/* The number of the field `name`. PST_ENOTFOUND: there is none, and the error says which one is meant, or which there are. */
pst_status field_find(const pst_spec *in, const char *name, size_t *ret, pst_error *reterr);

/* The field's name for people: names come from data, and control characters in them are written as \n or \x1b. */
#define FIELD_LABEL_SIZE (4 * PST_NAME_SIZE + 1)
char *field_label(const pst_field *f, char buffer[FIELD_LABEL_SIZE]);

/* Values of a tensor that exists: the product cannot overflow. */
static inline size_t tensor_values(const pst_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* Before `run` writes a field: where the plan could not provide memory, gives it this shape and memory from the scratch. */
pst_status field_prepare(pst_ctx *ctx, pst_tensor *out, uint32_t rank, const uint64_t *shape, pst_error *reterr);

#endif
