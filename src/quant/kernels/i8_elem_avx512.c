/* i8_elem_avx512.c: sums and conversions, 16 to 64 values at a time. What is left goes to the AVX2 kernels. */
#include "quant/kernels/i8_avx512.h"

#include <math.h>

static struct i8_kernels others(void)
{
    struct i8_kernels k;
    i8_kernels_avx2(&k);
    return k;
}

/* ---- Sums ---- */

#define MAGIC_BITS 0x4b00    /* the upper half of a float from 2²³ on, whose last bits are an integer */
#define MAGIC      8388608.f /* 2²³ */
#define LARGEST    (1 << 30) /* no sum is beyond, so that it may be rounded to 32 bits */

/* (in − zero) · factor of 64 values from number `i` of term `k` on, in the order in which i8_bytes512 packs them. */
static inline void scale_term(const struct i8_add *a, size_t k, size_t i, __m512 ret[4])
{
    const __m512i magic = _mm512_set1_epi16(MAGIC_BITS), none = _mm512_setzero_si512();
    const __m512 zero = _mm512_set1_ps(MAGIC + (float)a->zeros[k]), factor = _mm512_set1_ps(a->factors[k]);
    __m512i q = _mm512_loadu_si512(a->in[k] + i), low = _mm512_unpacklo_epi8(q, none), high = _mm512_unpackhi_epi8(q, none);
    __m512i x[4] = {_mm512_unpacklo_epi16(low, magic), _mm512_unpackhi_epi16(low, magic), _mm512_unpacklo_epi16(high, magic),
                    _mm512_unpackhi_epi16(high, magic)};
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) /* the difference is exact */
        ret[v] = _mm512_mul_ps(_mm512_sub_ps(_mm512_castsi512_ps(x[v]), zero), factor);
}

static bool is_moderate(const struct i8_add *a)
{
    double most = 0;
    for (size_t k = 0; k < a->terms; k++)
        most += 255. * fabs((double)a->factors[k]);
    return most < LARGEST;
}

static void add(const struct i8_add *a, size_t count, uint8_t *out)
{
    const struct i8_add own = *a; /* a copy: stores of bytes may change what is shared */
    const struct i8_range512 range = i8_range512_of(own.zero, own.low, own.high);
    size_t i = 0, whole = is_moderate(a) ? count / 64 * 64 : 0;
    for (; i < whole; i += 64) {
        __m512 sum[4], x[4];
        scale_term(&own, 0, i, sum);
        for (size_t k = 1; k < own.terms; k++) {
            scale_term(&own, k, i, x);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[v] = _mm512_add_ps(sum[v], x[v]);
        }
        __m512i q = i8_bytes512(&range, _mm512_cvtps_epi32(sum[0]), _mm512_cvtps_epi32(sum[1]), _mm512_cvtps_epi32(sum[2]),
                                _mm512_cvtps_epi32(sum[3]));
        _mm512_storeu_si512(out + i, q);
    }
    struct i8_add rest = *a;
    for (size_t k = 0; k < a->terms; k++)
        rest.in[k] += i;
    if (i < count)
        others().add(&rest, count - i, out + i);
}

/* ---- Conversions ---- */

#define FAR 1024.f

/* in / scale, rounded; NaN becomes 0, as in the reference. */
static inline __m512i round_16(const float *in, __m512 scale)
{
    __m512 x = _mm512_div_ps(_mm512_loadu_ps(in), scale);
    x = _mm512_maskz_max_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x, _mm512_set1_ps(-FAR));
    return _mm512_cvtps_epi32(_mm512_min_ps(x, _mm512_set1_ps(FAR)));
}

static void quantise(const float *in, size_t count, float scale, uint8_t zero, uint8_t *out)
{
    const __m512 s = _mm512_set1_ps(scale);
    const struct i8_range512 range = i8_range512_of(zero, 0, 255);
    size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        __m512i q = i8_bytes512(&range, round_16(in + i, s), round_16(in + i + 16, s), round_16(in + i + 32, s),
                                round_16(in + i + 48, s));
        _mm512_storeu_si512(out + i, i8_in_order(q));
    }
    if (i < count)
        others().quantise(in + i, count - i, scale, zero, out + i);
}

static void dequantise(const uint8_t *in, size_t count, float scale, uint8_t zero, float *out)
{
    const __m512i z = _mm512_set1_epi32(zero);
    const __m512 s = _mm512_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m512i q = _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(in + i))), z);
        _mm512_storeu_ps(out + i, _mm512_mul_ps(s, _mm512_cvtepi32_ps(q)));
    }
    if (i < count)
        others().dequantise(in + i, count - i, scale, zero, out + i);
}

void i8_kernels_avx512(struct i8_kernels *k)
{
    *k = others();
    k->add = add;
    k->quantise = quantise;
    k->dequantise = dequantise;
}
