/* cast.h: converts values from one type to another.
 *
 * Exact where the target can hold the value. Otherwise: to integers, rounded to the nearest (ties to even) and clamped to
 * the limits of the type, NaN becomes 0; to floating point, correctly rounded in one step, values beyond the range become
 * infinite. */
#ifndef BASE_CAST_H
#define BASE_CAST_H

#include <penstock/op.h>

/* Neither type is bytes or none. The values do not overlap and have their types' alignment. */
void cast_values(void *to, pst_dtype to_type, const void *from, pst_dtype from_type, size_t count);

/* The same, using the wide types only: the reference for the faster loops. */
void cast_values_reference(void *to, pst_dtype to_type, const void *from, pst_dtype from_type, size_t count);

#endif
