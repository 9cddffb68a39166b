/* number.h: how values are stored: float32, or 16 bits where a step saves memory (mixed precision). They are computed in float32. */
#ifndef MODEL_NUMBER_H
#define MODEL_NUMBER_H

#include "base/half.h"

#include <penstock/op.h>
#include <stddef.h>

enum number { NUMBER_F32, NUMBER_F16, NUMBER_BF16 };

static inline size_t number_bytes(enum number n)
{
    return n == NUMBER_F32 ? sizeof(float) : sizeof(uint16_t);
}

static inline pst_dtype number_dtype(enum number n)
{
    return n == NUMBER_F32 ? PST_DTYPE_F32 : n == NUMBER_F16 ? PST_DTYPE_F16 : PST_DTYPE_BF16;
}

/* The address of value `i`. */
static inline void *number_at(void *p, enum number n, size_t i)
{
    return (char *)p + i * number_bytes(n);
}

static inline const void *number_from(const void *p, enum number n, size_t i)
{
    return (const char *)p + i * number_bytes(n);
}

static inline float number_load(const void *p, enum number n, size_t i)
{
    if (n == NUMBER_F32)
        return ((const float *)p)[i];
    uint16_t bits = ((const uint16_t *)p)[i];
    return n == NUMBER_F16 ? float_from_half(bits) : float_from_bfloat(bits);
}

static inline void number_store(void *p, enum number n, size_t i, float v)
{
    if (n == NUMBER_F32)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = n == NUMBER_F16 ? half_from_float(v) : bfloat_from_float(v);
}

#endif
