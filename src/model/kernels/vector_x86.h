/* vector_x86.h: vectors of floats as wide as the instruction set of the file that includes this: 8 with AVX2, 16 with AVX-512.
 *
 * One source, compiled twice, serves both: what it computes per value, and in which order, does not depend on the width. */
#ifndef MODEL_KERNELS_VECTOR_X86_H
#define MODEL_KERNELS_VECTOR_X86_H

#include "model/kernels/number_avx2.h"

#define VEC_INLINE static inline __attribute__((always_inline))

#ifdef __AVX512F__
#define VEC          16 /* floats */
#define VEC_NAME(of) of##_avx512

typedef __m512 vec;
typedef __mmask16 vec_lanes; /* some of a vector's */
typedef __mmask16 vec_test;  /* the outcome of a comparison per lane */
#define VEC_OF(operation) _mm512_##operation
#else
#define VEC               8
#define VEC_NAME(of)      of##_avx2

typedef __m256 vec;
typedef __m256i vec_lanes;
typedef __m256 vec_test;
#define VEC_OF(operation) _mm256_##operation
#endif

VEC_INLINE vec vec_zero(void)
{
    return VEC_OF(setzero_ps)();
}

VEC_INLINE vec vec_set(float v)
{
    return VEC_OF(set1_ps)(v);
}

VEC_INLINE vec vec_load(const float *p)
{
    return VEC_OF(loadu_ps)(p);
}

VEC_INLINE void vec_store(float *p, vec v)
{
    VEC_OF(storeu_ps)(p, v);
}

/* Whether a vector is a whole line of memory: only those are worth storing past the caches. */
#define VEC_IS_LINE (VEC == 16)

/* Stores a line past the caches: memory is not read before it is written. */
VEC_INLINE void vec_stream(float *p, vec v)
{
    VEC_OF(stream_ps)(p, v);
}

VEC_INLINE vec vec_add(vec a, vec b)
{
    return VEC_OF(add_ps)(a, b);
}

VEC_INLINE vec vec_sub(vec a, vec b)
{
    return VEC_OF(sub_ps)(a, b);
}

VEC_INLINE vec vec_mul(vec a, vec b)
{
    return VEC_OF(mul_ps)(a, b);
}

/* a · b + c */
VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return VEC_OF(fmadd_ps)(a, b, c);
}

/* c − a · b */
VEC_INLINE vec vec_fnma(vec a, vec b, vec c)
{
    return VEC_OF(fnmadd_ps)(a, b, c);
}

VEC_INLINE vec vec_max(vec a, vec b)
{
    return VEC_OF(max_ps)(a, b);
}

VEC_INLINE vec vec_min(vec a, vec b)
{
    return VEC_OF(min_ps)(a, b);
}

#ifdef __AVX512F__

/* The first `n` lanes; n may be 0 or more than there are. */
VEC_INLINE vec_lanes vec_first(size_t n)
{
    return (vec_lanes)(n < VEC ? (1u << n) - 1 : 0xffffu);
}

/* The lanes' values and zeros; all where `whole`. */
VEC_INLINE vec vec_load_lanes(const float *p, bool whole, vec_lanes lanes)
{
    return whole ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(lanes, p);
}

VEC_INLINE void vec_store_lanes(float *p, vec v, bool whole, vec_lanes lanes)
{
    if (whole)
        _mm512_storeu_ps(p, v);
    else
        _mm512_mask_storeu_ps(p, lanes, v);
}

VEC_INLINE vec_test vec_more(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

VEC_INLINE vec_test test_both(vec_test a, vec_test b)
{
    return a & b;
}

/* `yes` where `which`, `no` elsewhere. */
VEC_INLINE vec_test test_choose(vec_test which, vec_test yes, vec_test no)
{
    return (vec_test)((which & yes) | (~which & no));
}

/* Values where the test passed, zeros elsewhere. */
VEC_INLINE vec vec_keep(vec v, vec_test t)
{
    return _mm512_maskz_mov_ps(t, v);
}

/* Where the maximum of a window of 2 × 2 lies, for the first `count` lanes: 2 · below + right, or 255 where it does not pass.
 */
VEC_INLINE void vec_store_place(uint8_t *to, vec_test right, vec_test below, vec_test passes, bool whole, size_t count)
{
    __m512i at = _mm512_or_epi32(_mm512_maskz_set1_epi32(right, 1), _mm512_maskz_set1_epi32(below, 2));
    __m128i bytes = _mm512_cvtepi32_epi8(_mm512_mask_mov_epi32(_mm512_set1_epi32(255), passes, at));
    if (whole)
        _mm_storeu_si128((__m128i *)(void *)to, bytes);
    else
        _mm_mask_storeu_epi8(to, vec_first(count), bytes);
}

VEC_INLINE vec vec_widen(__m256i bits, enum number n)
{
    return n == NUMBER_F16 ? _mm512_cvtph_ps(bits) : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* Rounds to the nearest, ties to even; NaN stays NaN. */
VEC_INLINE __m256i vec_narrow(vec v, enum number n)
{
    if (n == NUMBER_F16)
        return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16),
            odd = _mm512_and_epi32(high, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(rounded);
}

/* Values from `i` on: a vector (`whole`), or the first `count`, and zeros. */
VEC_INLINE vec vec_load_number(const void *p, enum number n, size_t i, bool whole, size_t count)
{
    const uint16_t *bits = (const uint16_t *)p + i;
    if (n == NUMBER_F32)
        return vec_load_lanes((const float *)p + i, whole, vec_first(count));
    return vec_widen(
        whole ? _mm256_loadu_si256((const __m256i *)(const void *)bits) : _mm256_maskz_loadu_epi16(vec_first(count), bits), n);
}

VEC_INLINE void vec_store_number(void *p, enum number n, size_t i, vec v, bool whole, size_t count)
{
    uint16_t *bits = (uint16_t *)p + i;
    if (n == NUMBER_F32)
        vec_store_lanes((float *)p + i, v, whole, vec_first(count));
    else if (whole)
        _mm256_storeu_si256((__m256i *)(void *)bits, vec_narrow(v, n));
    else
        _mm256_mask_storeu_epi16(bits, vec_first(count), vec_narrow(v, n));
}

#else

VEC_INLINE vec_lanes vec_first(size_t n)
{
    return gemm_lanes(n);
}

VEC_INLINE vec vec_load_lanes(const float *p, bool whole, vec_lanes lanes)
{
    return whole ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes);
}

VEC_INLINE void vec_store_lanes(float *p, vec v, bool whole, vec_lanes lanes)
{
    if (whole)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, lanes, v);
}

VEC_INLINE vec_test vec_more(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

VEC_INLINE vec_test test_both(vec_test a, vec_test b)
{
    return _mm256_and_ps(a, b);
}

VEC_INLINE vec_test test_choose(vec_test which, vec_test yes, vec_test no)
{
    return _mm256_blendv_ps(no, yes, which);
}

VEC_INLINE vec vec_keep(vec v, vec_test t)
{
    return _mm256_and_ps(v, t);
}

VEC_INLINE void vec_store_place(uint8_t *to, vec_test right, vec_test below, vec_test passes, bool whole, size_t count)
{
    const __m256i one = _mm256_set1_epi32(1), two = _mm256_set1_epi32(2), none = _mm256_set1_epi32(255);
    __m256i at =
        _mm256_or_si256(_mm256_and_si256(_mm256_castps_si256(right), one), _mm256_and_si256(_mm256_castps_si256(below), two));
    at = _mm256_blendv_epi8(none, at, _mm256_castps_si256(passes));
    __m128i bytes = _mm_packs_epi32(_mm256_castsi256_si128(at), _mm256_extracti128_si256(at, 1));
    bytes = _mm_packus_epi16(bytes, bytes);
    if (whole) {
        _mm_storel_epi64((__m128i *)(void *)to, bytes);
    } else {
        uint64_t v = (uint64_t)_mm_cvtsi128_si64(bytes);
        memcpy(to, &v, count < VEC ? count : VEC);
    }
}

VEC_INLINE vec vec_load_number(const void *p, enum number n, size_t i, bool whole, size_t count)
{
    return number_load8(p, n, i, whole, count);
}

VEC_INLINE void vec_store_number(void *p, enum number n, size_t i, vec v, bool whole, size_t count)
{
    number_store8(p, n, i, v, whole, count);
}

#endif
#endif
