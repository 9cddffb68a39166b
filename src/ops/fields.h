/* fields.h: access to the fields of an element for operations. */
#ifndef OPS_FIELDS_H
#define OPS_FIELDS_H

#include <penstock/op.h>

/* Returns the number of the field `name`. PST_ENOTFOUND: there is none; the error suggests a similar name or lists the
 * fields. */
pst_status field_find(const pst_spec *in, const char *name, size_t *ret, pst_error *reterr);

/* The field's name for messages: names come from data, so control characters are written as \n or \x1b. */
#define FIELD_LABEL_SIZE (4 * PST_NAME_SIZE + 1)
char *field_label(const pst_field *f, char buffer[FIELD_LABEL_SIZE]);

/* Returns the number of values of an existing tensor: the product cannot overflow. */
static inline size_t tensor_values(const pst_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* Call before `run` writes a field: if the plan could not provide memory, sets this shape and allocates scratch memory. */
pst_status field_prepare(pst_ctx *ctx, pst_tensor *out, uint32_t rank, const uint64_t *shape, pst_error *reterr);

#endif
