/* cast.c: conversions in blocks: every integer goes through int64, every float through double, which hold all of them
 * exactly; from there one rounding leads to the target. The pairs that pipelines live on have loops of their own. */
#include "base/cast.h"

#include "base/cpu.h"
#include "base/cast_kernels.h"
#include "base/half.h"

#include <math.h>

#define BLOCK 256 /* values; two of them stay in the first-level cache */

/* ---- Single values ---- */

static inline uint8_t u8_of_i64(int64_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > UINT8_MAX ? UINT8_MAX : v);
}

static inline int32_t i32_of_i64(int64_t v)
{
    return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

static inline int64_t i64_of_f64(double v)
{
    if (v >= 0x1p63)
        return INT64_MAX;
    if (v <= -0x1p63)
        return INT64_MIN;
    return v == v ? (int64_t)rint(v) : 0;
}

/* A float that rounds on to anything shorter as the double itself would: inexact results are cut, with their last bit set. */
static inline float sticky_float(double v)
{
    float f = (float)v;
    if ((double)f == v || v != v)
        return f;
    uint32_t bits = float_bits(f) - (fabs((double)f) > fabs(v));
    return float_of_bits(bits | 1);
}

/* The same for integers. A double has room for all but the last eleven bits: whether there were any goes into the twelfth. */
static inline double sticky_double(int64_t v)
{
    int64_t low = v & 0x7ff;
    if (v > -(INT64_C(1) << 53) && v < INT64_C(1) << 53)
        return (double)v;
    return (double)((v - low) | (low ? 0x800 : 0));
}

/* ---- Loops ---- */

#define LOOP(name, to_type, from_type, expression)                                                                             \
    static void name(void *restrict to, const void *restrict from, size_t count)                                               \
    {                                                                                                                          \
        to_type *restrict t = to;                                                                                              \
        const from_type *restrict f = from;                                                                                    \
        for (size_t i = 0; i < count; i++) {                                                                                   \
            from_type x = f[i];                                                                                                \
            t[i] = (expression);                                                                                               \
        }                                                                                                                      \
    }

LOOP(i64_from_u8, int64_t, uint8_t, x)
LOOP(i64_from_i32, int64_t, int32_t, x)
LOOP(i64_from_i64, int64_t, int64_t, x)
LOOP(f64_from_f16, double, uint16_t, (double)float_from_half(x))
LOOP(f64_from_bf16, double, uint16_t, (double)float_from_bfloat(x))
LOOP(f64_from_f32, double, float, (double)x)
LOOP(f64_from_f64, double, double, x)

LOOP(u8_from_i64, uint8_t, int64_t, u8_of_i64(x))
LOOP(i32_from_i64, int32_t, int64_t, i32_of_i64(x))
LOOP(f16_from_i64, uint16_t, int64_t, half_from_float((float)x)) /* exact as a float as far as float16 goes */
LOOP(bf16_from_i64, uint16_t, int64_t, bfloat_from_float(sticky_float(sticky_double(x))))
LOOP(f32_from_i64, float, int64_t, (float)x)
LOOP(f64_from_i64, double, int64_t, (double)x)

LOOP(u8_from_f64, uint8_t, double, u8_of_i64(i64_of_f64(x)))
LOOP(i32_from_f64, int32_t, double, i32_of_i64(i64_of_f64(x)))
LOOP(i64_from_f64, int64_t, double, i64_of_f64(x))
LOOP(f16_from_f64, uint16_t, double, half_from_float(sticky_float(x)))
LOOP(bf16_from_f64, uint16_t, double, bfloat_from_float(sticky_float(x)))
LOOP(f32_from_f64, float, double, (float)x)

static const struct {
    bool integer;
    cast_fn widen;              /* to int64_t for integers, to double for the others */
    cast_fn from_i64, from_f64; /* from either */
} types[] = {
    [PST_DTYPE_U8] = {true, i64_from_u8, u8_from_i64, u8_from_f64},
    [PST_DTYPE_I32] = {true, i64_from_i32, i32_from_i64, i32_from_f64},
    [PST_DTYPE_I64] = {true, i64_from_i64, i64_from_i64, i64_from_f64},
    [PST_DTYPE_F16] = {false, f64_from_f16, f16_from_i64, f16_from_f64},
    [PST_DTYPE_BF16] = {false, f64_from_bf16, bf16_from_i64, bf16_from_f64},
    [PST_DTYPE_F32] = {false, f64_from_f32, f32_from_i64, f32_from_f64},
    [PST_DTYPE_F64] = {false, f64_from_f64, f64_from_i64, f64_from_f64},
};

void cast_values_reference(void *to, pst_dtype to_type, const void *from, pst_dtype from_type, size_t count)
{
    union {
        int64_t i64[BLOCK];
        double f64[BLOCK];
    } wide;
    size_t to_size = pst_dtype_size(to_type), from_size = pst_dtype_size(from_type);
    cast_fn narrow = types[from_type].integer ? types[to_type].from_i64 : types[to_type].from_f64;
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t n = count - done < BLOCK ? count - done : BLOCK;
        types[from_type].widen(&wide, (const char *)from + done * from_size, n);
        narrow((char *)to + done * to_size, &wide, n);
    }
}

/* ---- Shortcuts: equal to the bit, except for the payload of a NaN ---- */

/* Floats from 0 on are ordered as their bits are. Adding 1.5 × 2^23 leaves the number, rounded, in the lower bits. */
static inline uint8_t u8_of_f32(float v)
{
    uint32_t bits = float_bits(v), limit = 0x437f0000; /* 255 */
    bits &= (bits >> 31) - 1;                          /* below 0: 0 */
    bits = bits_pick(bits, limit, bits, bits_pick(bits, 0x7f800001u, limit, 0));
    return (uint8_t)float_bits(float_of_bits(bits) + 0x1.8p23f);
}

LOOP(f32_from_u8, float, uint8_t, (float)x)
LOOP(f16_from_u8, uint16_t, uint8_t, half_from_float((float)x))
LOOP(bf16_from_u8, uint16_t, uint8_t, bfloat_from_float((float)x))
LOOP(u8_from_f32, uint8_t, float, u8_of_f32(x))
LOOP(f16_from_f32, uint16_t, float, half_from_float(x))
LOOP(bf16_from_f32, uint16_t, float, bfloat_from_float(x))
LOOP(f32_from_f16, float, uint16_t, float_from_half(x))
LOOP(f32_from_bf16, float, uint16_t, float_from_bfloat(x))
LOOP(f32_from_i32, float, int32_t, (float)x)

static const cast_fn shortcuts[PST_DTYPE_F64 + 1][PST_DTYPE_F64 + 1] = {
    /* [to][from] */
    [PST_DTYPE_F32][PST_DTYPE_U8] = f32_from_u8,   [PST_DTYPE_F16][PST_DTYPE_U8] = f16_from_u8,
    [PST_DTYPE_BF16][PST_DTYPE_U8] = bf16_from_u8, [PST_DTYPE_U8][PST_DTYPE_F32] = u8_from_f32,
    [PST_DTYPE_F16][PST_DTYPE_F32] = f16_from_f32, [PST_DTYPE_BF16][PST_DTYPE_F32] = bf16_from_f32,
    [PST_DTYPE_F32][PST_DTYPE_F16] = f32_from_f16, [PST_DTYPE_F32][PST_DTYPE_BF16] = f32_from_bf16,
    [PST_DTYPE_F32][PST_DTYPE_I32] = f32_from_i32, [PST_DTYPE_F32][PST_DTYPE_I64] = f32_from_i64,
    [PST_DTYPE_I32][PST_DTYPE_I64] = i32_from_i64, [PST_DTYPE_I64][PST_DTYPE_I32] = i64_from_i32,
    [PST_DTYPE_I64][PST_DTYPE_U8] = i64_from_u8,   [PST_DTYPE_F64][PST_DTYPE_F32] = f64_from_f32,
    [PST_DTYPE_F32][PST_DTYPE_F64] = f32_from_f64,
};

#if defined(__x86_64__)
static const cast_fn shortcuts_avx2[PST_DTYPE_F64 + 1][PST_DTYPE_F64 + 1] = {
    [PST_DTYPE_F16][PST_DTYPE_F32] = cast_f16_from_f32_avx2,
    [PST_DTYPE_F16][PST_DTYPE_U8] = cast_f16_from_u8_avx2,
    [PST_DTYPE_F32][PST_DTYPE_F16] = cast_f32_from_f16_avx2,
};
#endif

/* NULL: the pair has none. */
static cast_fn find_shortcut(pst_dtype to, pst_dtype from)
{
#if defined(__x86_64__)
    if (shortcuts_avx2[to][from] && (cpu_features() & CPU_AVX2))
        return shortcuts_avx2[to][from];
#endif
    return shortcuts[to][from];
}

void cast_values(void *to, pst_dtype to_type, const void *from, pst_dtype from_type, size_t count)
{
    cast_fn shortcut = find_shortcut(to_type, from_type);
    if (shortcut)
        shortcut(to, from, count);
    else
        cast_values_reference(to, to_type, from, from_type, count);
}
