/* dtype.c: the number types of tensors: names as in NumPy, and sizes. */
#include <penstock/op.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [PST_DTYPE_NONE] = {"none", 0},     [PST_DTYPE_BYTES] = {"bytes", sizeof(pst_bytes)},
    [PST_DTYPE_U8] = {"uint8", 1},      [PST_DTYPE_I32] = {"int32", 4},
    [PST_DTYPE_I64] = {"int64", 8},     [PST_DTYPE_F16] = {"float16", 2},
    [PST_DTYPE_BF16] = {"bfloat16", 2}, [PST_DTYPE_F32] = {"float32", 4},
    [PST_DTYPE_F64] = {"float64", 8},
};

static size_t known(pst_dtype dtype)
{
    return (size_t)dtype < sizeof(dtypes) / sizeof(dtypes[0]) ? (size_t)dtype : PST_DTYPE_NONE;
}

const char *pst_dtype_name(pst_dtype dtype)
{
    return dtypes[known(dtype)].name;
}

size_t pst_dtype_size(pst_dtype dtype)
{
    return dtypes[known(dtype)].size;
}
