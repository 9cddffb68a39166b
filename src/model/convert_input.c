/* convert_input.c: see convert_input.h. */
#include "model/convert_input.h"

#include "base/cast.h"

#include <string.h>

bool convert_takes(pst_dtype dtype)
{
    return dtype != PST_DTYPE_NONE && dtype != PST_DTYPE_BYTES;
}

void convert_to_real(void *to, size_t real_size, const void *from, pst_dtype dtype, size_t count)
{
    cast_values(to, real_size == sizeof(double) ? PST_DTYPE_F64 : PST_DTYPE_F32, from, dtype, count);
}
