/* test_cast.c: values of one type as values of another: exact expectations, every half, and the shortcuts against the
 * reference. */
#include "harness.h"

#include "base/cpu.h"
#include "base/random.h"
#include "base/cast.h"
#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double wide(pst_dtype dtype, const void *p)
{
    switch (dtype) {
    case PST_DTYPE_U8:
        return *(const uint8_t *)p;
    case PST_DTYPE_I32:
        return *(const int32_t *)p;
    case PST_DTYPE_I64:
        return (double)*(const int64_t *)p;
    case PST_DTYPE_F16:
        return (double)float_from_half(*(const uint16_t *)p);
    case PST_DTYPE_BF16:
        return (double)float_from_bfloat(*(const uint16_t *)p);
    case PST_DTYPE_F32:
        return (double)*(const float *)p;
    default:
        return *(const double *)p;
    }
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* ---- float16 and bfloat16 ---- */

static void test_half_values(void)
{
    static const struct {
        float value;
        uint16_t half, bfloat;
    } known[] = {
        {0.0f, 0x0000, 0x0000},
        {-0.0f, 0x8000, 0x8000},
        {1.0f, 0x3c00, 0x3f80},
        {-2.0f, 0xc000, 0xc000},
        {65504.0f, 0x7bff, 0x4780},
        {65519.996f, 0x7bff, 0x4780},
        {65520.0f, 0x7c00, 0x4780},
        {-1e6f, 0xfc00, 0xc974},
        {0x1p-14f, 0x0400, 0x3880},
        {0x1p-24f, 0x0001, 0x3380},
        {0x1p-25f, 0x0000, 0x3300},
        {0x1.000002p-25f, 0x0001, 0x3300},
        {0x1.8p-24f, 0x0002, 0x33c0},
        {0x1p-149f, 0x0000, 0x0000},
        {1.0f + 0x1p-11f, 0x3c00, 0x3f80},
        {1.0f + 0x3p-11f, 0x3c02, 0x3f80},
        {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
        {1.0f + 0x3p-8f, 0x3c0c, 0x3f82},
        {INFINITY, 0x7c00, 0x7f80},
        {-INFINITY, 0xfc00, 0xff80},
        {0x1.fffffep127f, 0x7c00, 0x7f80},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        CHECK_MSG(half_from_float(known[i].value) == known[i].half, "%a: %04x", (double)known[i].value,
                  half_from_float(known[i].value));
        CHECK_MSG(bfloat_from_float(known[i].value) == known[i].bfloat, "%a: %04x", (double)known[i].value,
                  bfloat_from_float(known[i].value));
    }
    for (uint32_t payload = 1; payload < 0x800000; payload += 4097) { /* a NaN stays one, whatever its payload */
        CHECK(isnan(float_from_half(half_from_float(float_of_bits(0x7f800000u | payload)))));
        CHECK(isnan(float_from_bfloat(bfloat_from_float(float_of_bits(0xff800000u | payload)))));
    }
}

/* Every half is the half of its float; floats between two of them go to the nearer, from the middle to the even one. */
static void test_half_exhaustive(void)
{
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float low = float_from_half((uint16_t)h);
        float high = h == 0x7bff ? 65536.0f : float_from_half((uint16_t)(h + 1));
        float middle = (low + high) / 2;
        uint16_t even = (uint16_t)(h + (h & 1));
        bool right = half_from_float(low) == h && half_from_float(-low) == (h | 0x8000) && half_from_float(middle) == even &&
                     half_from_float(nextafterf(middle, 0)) == h && half_from_float(nextafterf(middle, INFINITY)) == h + 1;
        if (!CHECK_MSG(right, "around half %04x", h))
            return;
    }
}

static void test_bfloat_exhaustive(void)
{
    for (uint32_t b = 0; b < 0x7f80; b++) {
        float low = float_from_bfloat((uint16_t)b), middle = float_of_bits(b << 16 | 0x8000);
        bool right = bfloat_from_float(low) == b && bfloat_from_float(-low) == (b | 0x8000) &&
                     bfloat_from_float(middle) == b + (b & 1) && bfloat_from_float(float_of_bits(b << 16 | 0x7fff)) == b &&
                     bfloat_from_float(float_of_bits(b << 16 | 0x8001)) == b + 1;
        if (!CHECK_MSG(right, "around bfloat %04x", b))
            return;
    }
}

/* ---- Single values ---- */

static void check_value(pst_dtype from, const void *value, pst_dtype to, double want, int line)
{
    union {
        double f64;
        int64_t i64;
    } got, reference;
    cast_values(&got, to, value, from, 1);
    cast_values_reference(&reference, to, value, from, 1);
    test_report(same(wide(to, &got), want) && same(wide(to, &reference), want), __FILE__, line,
                "%.17g to %s is %.17g or %.17g, expected %.17g", wide(from, value), pst_dtype_name(to), wide(to, &got),
                wide(to, &reference), want);
}

#define FROM_F64(v, to, want) check_value(PST_DTYPE_F64, &(double){v}, to, want, __LINE__)
#define FROM_F32(v, to, want) check_value(PST_DTYPE_F32, &(float){v}, to, want, __LINE__)
#define FROM_I64(v, to, want) check_value(PST_DTYPE_I64, &(int64_t){v}, to, want, __LINE__)
#define FROM_I32(v, to, want) check_value(PST_DTYPE_I32, &(int32_t){v}, to, want, __LINE__)

static void test_to_integers(void)
{
    static const struct {
        double value, u8, i32;
    } known[] = {
        {0, 0, 0},
        {-0.5, 0, 0},
        {0.5, 0, 0},
        {1.5, 2, 2},
        {2.5, 2, 2},
        {-1.5, 0, -2},
        {254.5, 254, 254},
        {255.5, 255, 256},
        {255.49, 255, 255},
        {1e10, 255, INT32_MAX},
        {-1e10, 0, INT32_MIN},
        {INFINITY, 255, INT32_MAX},
        {-INFINITY, 0, INT32_MIN},
        {NAN, 0, 0},
        {-0.0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        FROM_F64(known[i].value, PST_DTYPE_U8, known[i].u8);
        FROM_F64(known[i].value, PST_DTYPE_I32, known[i].i32);
        FROM_F32((float)known[i].value, PST_DTYPE_U8, known[i].value == 255.49 ? 255 : known[i].u8);
    }
    FROM_F64(0x1p63, PST_DTYPE_I64, 0x1p63); /* held at 2^63 - 1, which prints as that double */
    FROM_F64(-0x1p63, PST_DTYPE_I64, -0x1p63);
    FROM_F64(-1e300, PST_DTYPE_I64, -0x1p63);
    FROM_F64(0x1.fffffffffffffp62, PST_DTYPE_I64, 0x1.fffffffffffffp62);
    FROM_F64(4503599627370497.5, PST_DTYPE_I64, 4503599627370498);
    FROM_F64(NAN, PST_DTYPE_I64, 0);
    FROM_I64(INT64_MAX, PST_DTYPE_I32, INT32_MAX);
    FROM_I64(INT64_MIN, PST_DTYPE_I32, INT32_MIN);
    FROM_I64(INT64_C(1) << 32, PST_DTYPE_U8, 255);
    FROM_I64(-1, PST_DTYPE_U8, 0);
    FROM_I32(-7, PST_DTYPE_I64, -7);
    FROM_I32(256, PST_DTYPE_U8, 255);
    check_value(PST_DTYPE_U8, &(uint8_t){200}, PST_DTYPE_I32, 200, __LINE__);
    check_value(PST_DTYPE_F16, &(uint16_t){0xfc00}, PST_DTYPE_I64, -0x1p63, __LINE__);
    check_value(PST_DTYPE_BF16, &(uint16_t){0x7fc0}, PST_DTYPE_U8, 0, __LINE__);
    int64_t limit;
    cast_values(&limit, PST_DTYPE_I64, &(double){1e19}, PST_DTYPE_F64, 1);
    CHECK(limit == INT64_MAX);
}

/* One rounding: on the way through float some of these would become a tie and go the wrong way. */
static void test_to_floats(void)
{
    FROM_F64(1 + 0x1p-11 + 0x1p-40, PST_DTYPE_F16, 1 + 0x1p-10);
    FROM_F64(1 + 0x1p-11 - 0x1p-40, PST_DTYPE_F16, 1);
    FROM_F64(-(1 + 0x1p-11 + 0x1p-52), PST_DTYPE_F16, -(1 + 0x1p-10));
    FROM_F64(1 + 0x1p-8 + 0x1p-50, PST_DTYPE_BF16, 1 + 0x1p-7);
    FROM_F64(1 + 0x3p-8 - 0x1p-50, PST_DTYPE_BF16, 1 + 0x1p-7);
    FROM_F64(0x1p-25 + 0x1p-70, PST_DTYPE_F16, 0x1p-24);
    FROM_F64(65520 - 0x1p-30, PST_DTYPE_F16, 65504);
    FROM_F64(65520, PST_DTYPE_F16, INFINITY);
    FROM_F64(1e300, PST_DTYPE_BF16, INFINITY);
    FROM_F64(-1e300, PST_DTYPE_F32, -INFINITY);
    FROM_F64(1e-300, PST_DTYPE_BF16, 0);
    FROM_F64(-1e-300, PST_DTYPE_F16, -0.0);
    FROM_F64(NAN, PST_DTYPE_F16, NAN);
    FROM_F64(NAN, PST_DTYPE_BF16, NAN);
    FROM_F64(0.1, PST_DTYPE_F32, (double)0.1f);
    FROM_F32(0.1f, PST_DTYPE_F64, (double)0.1f);
    FROM_I64((INT64_C(1) << 40) + (INT64_C(1) << 32) + 1, PST_DTYPE_BF16, 0x1p40 + 0x1p33);
    FROM_I64((INT64_C(1) << 40) + (INT64_C(1) << 32), PST_DTYPE_BF16, 0x1p40);
    FROM_I64(-((INT64_C(1) << 62) + (INT64_C(1) << 54) + 1), PST_DTYPE_BF16, -(0x1p62 + 0x1p55));
    FROM_I64((INT64_C(1) << 62) + (INT64_C(1) << 54) - 1, PST_DTYPE_BF16, 0x1p62);
    FROM_I64(INT64_MIN, PST_DTYPE_BF16, -0x1p63);
    FROM_I64(INT64_MAX, PST_DTYPE_BF16, 0x1p63);
    FROM_I64(16777217, PST_DTYPE_F32, 16777216);
    FROM_I64(16777219, PST_DTYPE_F32, 16777220);
    FROM_I64(65519, PST_DTYPE_F16, 65504);
    FROM_I64(-65520, PST_DTYPE_F16, -INFINITY);
    FROM_I64(2049, PST_DTYPE_F16, 2048);
    FROM_I64(INT64_MAX, PST_DTYPE_F64, 0x1p63);
    FROM_I32(INT32_MIN, PST_DTYPE_F32, -0x1p31);
    check_value(PST_DTYPE_BF16, &(uint16_t){0x3f80}, PST_DTYPE_F16, 1, __LINE__);
    check_value(PST_DTYPE_F16, &(uint16_t){0x3c01}, PST_DTYPE_BF16, 1, __LINE__);
}

/* ---- Loops ---- */

/* Random bits and values of every size as `dtype`. */
static void fill(pst_dtype dtype, void *to, size_t count, struct random *r)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_u64(r);
        double value = ldexp((double)(int64_t)random_u64(r), (int)(bits % 80) - 70);
        bool plain = bits & 1;
        if (plain)
            cast_values_reference((char *)to + i * pst_dtype_size(dtype), dtype, &value, PST_DTYPE_F64, 1);
        else
            memcpy((char *)to + i * pst_dtype_size(dtype), &bits, pst_dtype_size(dtype));
    }
}

/* Whatever the length, only the asked values are written, and every shortcut agrees with the reference. */
static void check_loops(void)
{
    enum { MOST = 600 };
    static double from[MOST], got[MOST + 8], want[MOST + 8];
    struct random r;
    random_init(&r, 7, 0, 0, 0);
    for (int f = PST_DTYPE_U8; f <= PST_DTYPE_F64; f++) {
        for (int t = PST_DTYPE_U8; t <= PST_DTYPE_F64; t++) {
            for (size_t count = 0; count < MOST; count += count < 70 ? 1 : 97) {
                size_t size = pst_dtype_size((pst_dtype)t);
                fill((pst_dtype)f, from, count, &r);
                memset(got, 0xa5, sizeof(got));
                memset(want, 0xa5, sizeof(want));
                cast_values(got, (pst_dtype)t, from, (pst_dtype)f, count);
                cast_values_reference(want, (pst_dtype)t, from, (pst_dtype)f, count);
                bool equal = memcmp((char *)got + count * size, (char *)want + count * size, 8) == 0;
                for (size_t i = 0; i < count && equal; i++)
                    equal = same(wide((pst_dtype)t, (char *)got + i * size), wide((pst_dtype)t, (char *)want + i * size));
                CHECK_MSG(equal, "%s to %s, %zu values", pst_dtype_name((pst_dtype)f), pst_dtype_name((pst_dtype)t), count);
            }
        }
    }
}

static void test_loops(void)
{
    check_loops();
    cpu_set_mask(0);
    check_loops();
    cpu_set_mask(~0u);
}

/* A type that can hold every value of another gives each back. */
static void test_round_trips(void)
{
    static const pst_dtype pairs[][2] = {
        {PST_DTYPE_U8, PST_DTYPE_I32},  {PST_DTYPE_U8, PST_DTYPE_F16},  {PST_DTYPE_U8, PST_DTYPE_BF16},
        {PST_DTYPE_U8, PST_DTYPE_F32},  {PST_DTYPE_I32, PST_DTYPE_I64}, {PST_DTYPE_I32, PST_DTYPE_F64},
        {PST_DTYPE_F16, PST_DTYPE_F32}, {PST_DTYPE_F16, PST_DTYPE_F64}, {PST_DTYPE_BF16, PST_DTYPE_F32},
        {PST_DTYPE_F32, PST_DTYPE_F64},
    };
    static double values[1000], there[1000], back[1000];
    struct random r;
    random_init(&r, 8, 0, 0, 0);
    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) {
        size_t size = pst_dtype_size(pairs[p][0]);
        fill(pairs[p][0], values, 1000, &r);
        cast_values(there, pairs[p][1], values, pairs[p][0], 1000);
        cast_values(back, pairs[p][0], there, pairs[p][1], 1000);
        for (size_t i = 0; i < 1000; i++)
            CHECK(same(wide(pairs[p][0], (char *)back + i * size), wide(pairs[p][0], (char *)values + i * size)));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"half_values", test_half_values},
        {"half_exhaustive", test_half_exhaustive},
        {"bfloat_exhaustive", test_bfloat_exhaustive},
        {"to_integers", test_to_integers},
        {"to_floats", test_to_floats},
        {"loops", test_loops},
        {"round_trips", test_round_trips},
        {0},
    };
    return test_main(argc, argv, tests);
}
