/* convert_avx2.c: the conversions with AVX2. Bytes are moved by shuffles; where a row is too short for one, byte by byte. */
#include "image/convert_kernels.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

INLINE void store16(uint8_t *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

/* The last `left` pixels of the output: the first of the input. */
INLINE void flip_rest(const uint8_t *in, uint8_t *out, size_t width, size_t left, size_t channels)
{
    for (size_t x = width - left; x < width; x++)
        for (size_t c = 0; c < channels; c++)
            out[x * channels + c] = in[(width - 1 - x) * channels + c];
}

static void flip_1(const uint8_t *in, uint8_t *out, size_t width)
{
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    size_t left = width;
    for (; left >= 32; left -= 32) {
        __m256i v = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(in + left - 32)), order);
        _mm256_storeu_si256((__m256i *)(out + width - left), _mm256_permute4x64_epi64(v, 0x4e));
    }
    flip_rest(in, out, width, left, 1);
}

/* Five pixels at a time; the sixteenth byte of a store is written over by the next one. */
static void flip_3(const uint8_t *in, uint8_t *out, size_t width)
{
    const __m128i order = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    size_t left = width;
    for (; left >= 6; left -= 5)
        store16(out + 3 * (width - left), _mm_shuffle_epi8(load16(in + 3 * (left - 5) - 1), order));
    flip_rest(in, out, width, left, 3);
}

static void flip_4(const uint8_t *in, uint8_t *out, size_t width)
{
    const __m256i order = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    size_t left = width;
    for (; left >= 8; left -= 8) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(in + 4 * (left - 8)));
        _mm256_storeu_si256((__m256i *)(out + 4 * (width - left)), _mm256_permutevar8x32_epi32(v, order));
    }
    flip_rest(in, out, width, left, 4);
}

INLINE void split_rest(const uint8_t *in, uint8_t *out, size_t plane, size_t width, size_t x, size_t channels)
{
    for (; x < width; x++)
        for (size_t c = 0; c < channels; c++)
            out[c * plane + x] = in[x * channels + c];
}

/* One channel of 16 pixels in three registers. */
INLINE __m128i gather_3(const __m128i *v, __m128i a, __m128i b, __m128i c)
{
    return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(v[0], a), _mm_shuffle_epi8(v[1], b)), _mm_shuffle_epi8(v[2], c));
}

static void split_3(const uint8_t *in, uint8_t *out, size_t plane, size_t width)
{
    const __m128i r0 = _mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i r1 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1);
    const __m128i r2 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13);
    const __m128i g0 = _mm_setr_epi8(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i g1 = _mm_setr_epi8(-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1);
    const __m128i g2 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14);
    const __m128i b0 = _mm_setr_epi8(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i b1 = _mm_setr_epi8(-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1);
    const __m128i b2 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15);
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const __m128i v[3] = {load16(in + 3 * x), load16(in + 3 * x + 16), load16(in + 3 * x + 32)};
        store16(out + x, gather_3(v, r0, r1, r2));
        store16(out + plane + x, gather_3(v, g0, g1, g2));
        store16(out + 2 * plane + x, gather_3(v, b0, b1, b2));
    }
    split_rest(in, out, plane, width, x, 3);
}

static void split_4(const uint8_t *in, uint8_t *out, size_t plane, size_t width)
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        __m128i v[4];
        for (int i = 0; i < 4; i++)
            v[i] = _mm_shuffle_epi8(load16(in + 4 * x + 16 * (size_t)i), order); /* four bytes of each channel */
        __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpacklo_epi32(v[2], v[3]);
        __m128i c = _mm_unpackhi_epi32(v[0], v[1]), d = _mm_unpackhi_epi32(v[2], v[3]);
        store16(out + x, _mm_unpacklo_epi64(a, b));
        store16(out + plane + x, _mm_unpackhi_epi64(a, b));
        store16(out + 2 * plane + x, _mm_unpacklo_epi64(c, d));
        store16(out + 3 * plane + x, _mm_unpackhi_epi64(c, d));
    }
    split_rest(in, out, plane, width, x, 4);
}

/* No fused multiplication: the product is rounded, as in C. */
INLINE __m256 scale_8(const uint8_t *in, __m256 scale, __m256 bias)
{
    __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)in)));
    return _mm256_add_ps(_mm256_mul_ps(x, scale), bias);
}

INLINE void store_8(float *out, __m256 v, bool streams)
{
    if (streams)
        _mm256_stream_ps(out, v);
    else
        _mm256_storeu_ps(out, v);
}

INLINE void scale_any(const uint8_t *in, float *out, size_t n, const float *scale, const float *bias, bool streams)
{
    __m256 s[3], b[3];
    size_t at = 0, i = 0;
    for (int k = 0; k < 3; k++) {
        s[k] = _mm256_loadu_ps(scale + 8 * k);
        b[k] = _mm256_loadu_ps(bias + 8 * k);
    }
    for (; at + CONVERT_PERIOD <= n; at += CONVERT_PERIOD)
        for (size_t k = 0; k < 3; k++)
            store_8(out + at + 8 * k, scale_8(in + at + 8 * k, s[k], b[k]), streams);
    for (; at + i + 8 <= n; i += 8) /* a line is written in one way only: half a line past the caches would cost a read */
        store_8(out + at + i, scale_8(in + at + i, s[i / 8], b[i / 8]), streams);
    for (; at + i < n; i++)
        out[at + i] = (float)in[at + i] * scale[i] + bias[i];
}

static void scale_values(const uint8_t *in, float *out, size_t n, const float *scale, const float *bias)
{
    scale_any(in, out, n, scale, bias, false);
}

static void stream_values(const uint8_t *in, float *out, size_t n, const float *scale, const float *bias)
{
    if ((uintptr_t)out % sizeof(__m256))
        scale_any(in, out, n, scale, bias, false);
    else
        scale_any(in, out, n, scale, bias, true);
}

static void fence(void)
{
    _mm_sfence();
}

void convert_kernels_init_avx2(struct convert_kernels *k)
{
    k->flip[1] = flip_1;
    k->flip[3] = flip_3;
    k->flip[4] = flip_4;
    k->split[3] = split_3;
    k->split[4] = split_4;
    k->scale = scale_values;
    k->stream = stream_values;
    k->fence = fence;
}
