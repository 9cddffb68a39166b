/* cast.h: values of one type as values of another.
 *
 * Exact where the target can hold the value. Otherwise: to integers, rounded to the nearest (ties to even) and held at the
 * limits of the type, NaN becomes 0; to floating point, correctly rounded in one step, beyond the range infinite. */
#ifndef BASE_CAST_H
#define BASE_CAST_H

#include <penstock/op.h>

/* Neither type is bytes or none. The values do not overlap and have their types' alignment. */
void cast_values(void *to, pst_dtype to_type, const void *from, pst_dtype from_type, size_t count);

/* The same, by the wide types only: what the faster loops are checked against. */
void cast_values_reference(void *to, pst_dtype to_type, const void *from, pst_dtype from_type, size_t count);

#endif
