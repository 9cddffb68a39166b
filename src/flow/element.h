/* element.h: the fields of one element: their sizes, and an element as one block of memory that can be kept. */
#ifndef FLOW_ELEMENT_H
#define FLOW_ELEMENT_H

#include <penstock/op.h>

/* Applies to the field of one element, not of a batch. */
static inline bool field_is_fixed(const pst_field *f)
{
    for (uint32_t i = 0; i < f->rank; i++)
        if (f->shape[i] == PST_ANY)
            return false;
    return true;
}

static inline bool shape_equal(uint32_t rank, const uint64_t *a, const uint64_t *b)
{
    for (uint32_t i = 0; i < rank; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* Returns the bytes that `shape` takes without gaps (for bytes: the pst_bytes themselves); SIZE_MAX: overflow. */
size_t shape_bytes(pst_dtype dtype, uint32_t rank, const uint64_t *shape);
/* Returns the size of the data that the pst_bytes in `own` bytes of values point to; 0 for every other type. */
size_t payload_bytes(const pst_tensor *t, size_t own);
/* Returns the sum of both: the memory needed to store `t`. */
size_t tensor_bytes(const pst_tensor *t);
/* Returns the length of an element's field, as `bucket` counts it: the first dimension; of a single number its value, of a
 * single text its bytes. A negative number has length 0. */
uint64_t tensor_length(const pst_tensor *t);
/* Formats a shape as "[224,224,3]"; returns `buffer`. */
char *shape_text(uint32_t rank, const uint64_t *shape, char *buffer, size_t size);
#define SHAPE_TEXT_SIZE 96

/* Returns a tensor as its field declares it, without data. */
pst_tensor field_tensor(const pst_field *f);

/* Returns whether a tensor matches its field: the type, every planned dimension, and data where there are values. */
static inline bool tensor_keeps(const pst_field *planned, const pst_tensor *found)
{
    bool empty = false;
    if (found->rank != planned->rank || found->dtype != planned->dtype)
        return false;
    for (uint32_t i = 0; i < planned->rank; i++) {
        if ((planned->shape[i] != found->shape[i] && planned->shape[i] != PST_ANY) || found->shape[i] == PST_ANY)
            return false;
        empty |= found->shape[i] == 0;
    }
    return found->data || empty;
}
/* Fails with an error that names the mismatch. */
pst_status tensor_refuse(const pst_field *planned, const pst_tensor *found, pst_error *reterr);

/* Some fields of a spec, by number and in ascending order. */
struct field_list {
    uint16_t *number;
    size_t count;
};

/* Size of an element as one block that holds `fields` of `spec`. */
size_t element_size(const pst_spec *spec, const struct field_list *fields, const pst_tensor *tensors); /* SIZE_MAX: overflow */
/* Stores the element in `block`, which has element_size bytes, is 16-byte aligned and must not be moved afterwards. */
void element_pack(void *block, const pst_spec *spec, const struct field_list *fields, const pst_tensor *tensors);
/* Returns field number `k` of `fields` in the block. */
pst_tensor element_field(void *block, const pst_spec *spec, const struct field_list *fields, size_t k);
/* Points `tensors` into the block. Fields that are not in it are left alone. */
void element_view(void *block, const pst_spec *spec, const struct field_list *fields, pst_tensor *tensors);

#endif
