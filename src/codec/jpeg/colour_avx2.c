/* colour_avx2.c: upsampling and colours by 16 and 32 samples. */
#include "codec/jpeg/kernels.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- Upsampling: whole vectors, into the slack after the rows ---- */

INLINE __m256i load_16(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

INLINE __m256i thrice(__m256i a)
{
    return _mm256_add_epi16(a, _mm256_add_epi16(a, a));
}

INLINE void store_in_turn(uint8_t *out, __m256i even, __m256i odd)
{
    _mm256_storeu_si256((__m256i *)out, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

static void widen_avx2(const uint8_t *in, uint8_t *out, size_t n)
{
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);
    for (size_t i = 0; i < n; i += 16) {
        __m256i middle = thrice(load_16(in + i));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(middle, load_16(in + i - 1)), one);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(middle, load_16(in + i + 1)), two);
        store_in_turn(out + 2 * i, _mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2));
    }
}

INLINE __m256i between_rows(const uint8_t *near, const uint8_t *far)
{
    return _mm256_add_epi16(thrice(load_16(near)), load_16(far));
}

static void widen_between_avx2(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n)
{
    const __m256i eight = _mm256_set1_epi16(8), seven = _mm256_set1_epi16(7);
    for (size_t i = 0; i < n; i += 16) {
        __m256i here = thrice(between_rows(near + i, far + i));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(here, between_rows(near + i - 1, far + i - 1)), eight);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(here, between_rows(near + i + 1, far + i + 1)), seven);
        store_in_turn(out + 2 * i, _mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4));
    }
}

static void between_avx2(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n, int upper)
{
    const __m256i bias = _mm256_set1_epi16(upper ? 1 : 2);
    for (size_t i = 0; i < n; i += 16) {
        __m256i sum = _mm256_srli_epi16(_mm256_add_epi16(between_rows(near + i, far + i), bias), 2);
        sum = _mm256_permute4x64_epi64(_mm256_packus_epi16(sum, sum), 0x08);
        _mm_storeu_si128((__m128i *)(out + i), _mm256_castsi256_si128(sum));
    }
}

/* ---- Colours ---- */

struct rgb {
    __m256i red, green, blue;
};

/* (a × factor + 2^15) >> 16, exactly. */
INLINE __m256i scaled(__m256i a, int16_t factor)
{
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(a, a), _mm256_set1_epi16(factor));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

/* 16 pixels in 16 bits each, chroma around 0. Factors above 1 are split: the rest fits 16 bits. */
INLINE struct rgb convert_16(__m256i luma, __m256i cb, __m256i cr)
{
    const __m256i half = _mm256_set1_epi32(1 << 15),
                  weights = _mm256_set1_epi32((int)(0x492e0000u | (uint16_t)-22554)); /* 18734 */
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), weights);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), weights);
    __m256i green = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                       _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
    struct rgb out;
    out.red = _mm256_add_epi16(luma, _mm256_add_epi16(cr, scaled(cr, 91881 - 65536)));
    out.green = _mm256_add_epi16(luma, _mm256_sub_epi16(green, cr));
    out.blue = _mm256_add_epi16(luma, _mm256_add_epi16(_mm256_add_epi16(cb, cb), scaled(cb, 116130 - 131072)));
    return out;
}

/* 32 pixels. */
INLINE struct rgb convert_32(const uint8_t *y, const uint8_t *cb, const uint8_t *cr)
{
    const __m256i zero = _mm256_setzero_si256(), middle = _mm256_set1_epi16(128);
    __m256i luma = _mm256_loadu_si256((const __m256i *)y), blue = _mm256_loadu_si256((const __m256i *)cb);
    __m256i red = _mm256_loadu_si256((const __m256i *)cr);
    struct rgb low = convert_16(_mm256_unpacklo_epi8(luma, zero), _mm256_sub_epi16(_mm256_unpacklo_epi8(blue, zero), middle),
                                _mm256_sub_epi16(_mm256_unpacklo_epi8(red, zero), middle));
    struct rgb high = convert_16(_mm256_unpackhi_epi8(luma, zero), _mm256_sub_epi16(_mm256_unpackhi_epi8(blue, zero), middle),
                                 _mm256_sub_epi16(_mm256_unpackhi_epi8(red, zero), middle));
    return (struct rgb){_mm256_packus_epi16(low.red, high.red), _mm256_packus_epi16(low.green, high.green),
                        _mm256_packus_epi16(low.blue, high.blue)};
}

INLINE __m256i shuffled(__m256i v, const int8_t *order)
{
    return _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)order)));
}

INLINE void store_halves(uint8_t *out, size_t apart, __m256i v)
{
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(out + apart), _mm256_extracti128_si256(v, 1));
}

INLINE void store_rgb(uint8_t *out, struct rgb p)
{
    static const int8_t order[3][3][16] = {
        /* where red, green and blue of 16 pixels go in the first, second and third 16 bytes */
        {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
         {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
         {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
        {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
         {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
         {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
        {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
         {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
         {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}},
    };
    for (int i = 0; i < 3; i++) {
        __m256i third = _mm256_or_si256(shuffled(p.red, order[i][0]),
                                        _mm256_or_si256(shuffled(p.green, order[i][1]), shuffled(p.blue, order[i][2])));
        store_halves(out + 16 * i, 48, third);
    }
}

INLINE void store_rgba(uint8_t *out, struct rgb p)
{
    const __m256i alpha = _mm256_set1_epi8((char)0xff);
    __m256i rg[2] = {_mm256_unpacklo_epi8(p.red, p.green), _mm256_unpackhi_epi8(p.red, p.green)};
    __m256i ba[2] = {_mm256_unpacklo_epi8(p.blue, alpha), _mm256_unpackhi_epi8(p.blue, alpha)};
    for (int i = 0; i < 2; i++) {
        store_halves(out + 32 * i, 64, _mm256_unpacklo_epi16(rg[i], ba[i]));
        store_halves(out + 32 * i + 16, 64, _mm256_unpackhi_epi16(rg[i], ba[i]));
    }
}

/* The last vector overlaps the one before it. */
INLINE void colour(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n, size_t channels)
{
    for (size_t i = 0; i < n; i = i + 32 < n && i + 64 > n ? n - 32 : i + 32) {
        struct rgb p = convert_32(y + i, cb + i, cr + i);
        if (channels == 3)
            store_rgb(out + 3 * i, p);
        else
            store_rgba(out + 4 * i, p);
    }
}

static void colour_rgb_avx2(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n)
{
    if (n < 32)
        jpeg_colour_rgb_c(y, cb, cr, out, n);
    else
        colour(y, cb, cr, out, n, 3);
}

static void colour_rgba_avx2(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n)
{
    if (n < 32)
        jpeg_colour_rgba_c(y, cb, cr, out, n);
    else
        colour(y, cb, cr, out, n, 4);
}

void jpeg_kernels_init_colours_avx2(struct jpeg_kernels *k)
{
    k->widen = widen_avx2;
    k->widen_between = widen_between_avx2;
    k->between = between_avx2;
    k->colour[0] = colour_rgb_avx2;
    k->colour[1] = colour_rgba_avx2;
}
