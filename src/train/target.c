/* target.c: see target.h. */
#include "train/target.h"

#include "base/cast.h"
#include "base/error.h"

#include <inttypes.h>

static uint64_t values_per_sample(const pst_tensor *x)
{
    uint64_t n = 1;
    for (uint32_t i = 1; i < x->rank; i++)
        if (__builtin_mul_overflow(n, x->shape[i], &n))
            return UINT64_MAX;
    return n;
}

static bool is_integer(pst_dtype d)
{
    return d == PST_DTYPE_U8 || d == PST_DTYPE_I32 || d == PST_DTYPE_I64;
}

static pst_status convert_labels(const struct target_room *room, const pst_tensor *x, size_t n, struct loss_target *ret, pst_error *reterr)
{
    uint64_t each = values_per_sample(x);
    if (!is_integer(x->dtype) || each != 1)
        return pst_fail(reterr, PST_ETYPE, "sparse categorical cross-entropy needs one integer label per sample; found %" PRIu64 " of type %s", each,
                        pst_dtype_name(x->dtype));
    cast_values(room->labels, PST_DTYPE_I64, x->data, x->dtype, n);
    size_t bad = loss_check_labels(room->labels, n, room->width);
    if (bad < n)
        return pst_fail_at(reterr, PST_EINVAL, NULL, bad, PST_NOWHERE,
                           "label %" PRId64 " is out of range; the model has %zu results: labels are 0 to %zu", room->labels[bad], room->width,
                           room->width - 1);
    ret->labels = room->labels;
    return PST_OK;
}

pst_status target_convert(const struct target_room *room, const pst_tensor *x, size_t n, struct loss_target *ret, pst_error *reterr)
{
    *ret = (struct loss_target){0};
    if (!x && room->loss == PST_LOSS_CUSTOM)
        return PST_OK;
    if (!x || x->rank < 1 || x->row_splits || x->dtype == PST_DTYPE_BYTES || x->dtype == PST_DTYPE_NONE)
        return pst_fail(reterr, PST_ETYPE, "the target is not numbers of a fixed shape");
    uint64_t each = values_per_sample(x);
    if (x->shape[0] != n)
        return pst_fail(reterr, PST_ETYPE, "%" PRIu64 " targets for %zu samples", x->shape[0], n);
    if (room->loss == PST_LOSS_CUSTOM)
        return PST_OK; /* the function reads the tensor itself */
    if (room->loss == PST_LOSS_SPARSE)
        return convert_labels(room, x, n, ret, reterr);
    if (each != room->width)
        return pst_fail(reterr, PST_ETYPE, "the target has %" PRIu64 " values per sample; the model has %zu results", each, room->width);
    cast_values(room->values, PST_DTYPE_F32, x->data, x->dtype, n * room->width);
    ret->values = room->values;
    return PST_OK;
}
