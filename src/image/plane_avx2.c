/* plane_avx2.c: the plane kernels with AVX2. Exactly the sums of plane_c.c. Compiled a second time for processors that
 * multiply and add in one instruction (VNNI).
 *
 * Weights of 8 bits, which add up to at most 127 where they are positive: pmaddubsw neither wraps nor saturates, and sums stay
 * in 16 bits. pmulhrsw is the factor, the rounding and the shift at once. */
#include "image/plane_kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE void store32(uint8_t *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

/* ---- Down the columns ---- */

/* `pairs` registers of two weights each. */
INLINE __m256i filter_32(const uint8_t *const *rows, const __m256i *weights, uint32_t pairs, __m256i factor, size_t at)
{
    __m256i left = _mm256_setzero_si256(), right = left;
    for (uint32_t k = 0; k < pairs; k++) {
        __m256i a = load32(rows[2 * k] + at), b = load32(rows[2 * k + 1] + at);
        left = _mm256_add_epi16(left, _mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), weights[k]));
        right = _mm256_add_epi16(right, _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), weights[k]));
    }
    return _mm256_packus_epi16(_mm256_mulhrs_epi16(left, factor), _mm256_mulhrs_epi16(right, factor));
}

/* The last 32 bytes are computed by themselves: no load leaves the rows. */
INLINE void filter_columns(const uint8_t *const *table, const __m256i *weights, uint32_t pairs, __m256i factor, uint8_t *out,
                           size_t n)
{
    const uint8_t *rows[PLANE_NARROW];
    for (uint32_t k = 0; k < 2 * pairs; k++)
        rows[k] = table[k];
    for (size_t at = 0; at + 32 <= n; at += 32)
        store32(out + at, filter_32(rows, weights, pairs, factor, at));
    if (n % 32)
        store32(out + n - 32, filter_32(rows, weights, pairs, factor, n - 32));
}

static void columns(const uint8_t *const *rows, const int16_t *weights, uint32_t taps, uint32_t factor, uint8_t *out, size_t n)
{
    if (taps > PLANE_NARROW || n < 32) {
        plane_columns_c(rows, weights, taps, factor, out, n);
        return;
    }
    __m256i pairs[PLANE_NARROW / 2], by = _mm256_set1_epi16((short)factor);
    for (uint32_t t = 0; t < taps; t += 2) {
        int second = t + 1 < taps ? weights[t + 1] : 0;
        pairs[t / 2] = _mm256_set1_epi16((short)((weights[t] & 255) | (second & 255) << 8));
    }
    switch ((taps + 1) / 2) {
    case 1:
        filter_columns(rows, pairs, 1, by, out, n);
        break;
    case 2:
        filter_columns(rows, pairs, 2, by, out, n);
        break;
    default:
        filter_columns(rows, pairs, (taps + 1) / 2, by, out, n);
    }
}

/* ---- Along the rows ---- */

/* Two lanes: the samples that their outputs see, weighted, in sums of two, or of four where there are enough slots. */
INLINE __m256i weigh(const uint8_t *in, const struct plane_axis *a, size_t lane, uint32_t slots)
{
    __m128i one = _mm_loadu_si128((const __m128i *)(in + a->lanes[lane]));
    __m256i both =
        _mm256_inserti128_si256(_mm256_castsi128_si256(one), _mm_loadu_si128((const __m128i *)(in + a->lanes[lane + 1])), 1);
    __m256i seen = _mm256_shuffle_epi8(both, load32(a->picks + 16 * lane));
    __m256i weights = load32((const uint8_t *)a->factors + 16 * lane);
#ifdef __AVX512VNNI__
    if (slots > 2)
        return _mm256_dpbusd_epi32(_mm256_setzero_si256(), seen, weights);
#endif
    __m256i pairs = _mm256_maddubs_epi16(seen, weights);
    return slots > 2 ? _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)) : pairs;
}

/* 16 outputs as 16 bits, from `lane` on: halves of a register from lanes that lie apart. */
INLINE __m256i outputs_16(const uint8_t *in, const struct plane_axis *a, size_t lane, uint32_t slots)
{
    if (slots == 2)
        return weigh(in, a, lane, 2);
    if (slots == 4)
        return _mm256_packs_epi32(weigh(in, a, lane, 4), weigh(in, a, lane + 2, 4));
    __m256i sums[2];
    for (size_t k = 0; k < 2; k++) {
        size_t at = lane + k * slots / 2;
        if (slots == 8) {
            sums[k] = _mm256_hadd_epi32(weigh(in, a, at, 8), weigh(in, a, at + 2, 8));
        } else {
            __m256i low = _mm256_hadd_epi32(weigh(in, a, at, 16), weigh(in, a, at + 2, 16));
            __m256i high = _mm256_hadd_epi32(weigh(in, a, at + 4, 16), weigh(in, a, at + 6, 16));
            sums[k] = _mm256_hadd_epi32(low, high);
        }
    }
    return _mm256_packs_epi32(sums[0], sums[1]);
}

INLINE void filter_rows(const uint8_t *in, uint8_t *out, const struct plane_axis *axis, uint32_t slots)
{
    const struct plane_axis a = *axis; /* stores of bytes might change `*axis`, for all that the compiler knows */
    const __m256i factor = _mm256_set1_epi16((short)a.factor);
    size_t lane = 0;
    for (uint32_t x = 0; x < a.out; x += 32, lane += 2 * slots) {
        __m256i left = outputs_16(in, &a, lane, slots), right = outputs_16(in, &a, lane + slots, slots);
        store32(out + x, _mm256_packus_epi16(_mm256_mulhrs_epi16(left, factor), _mm256_mulhrs_epi16(right, factor)));
    }
}

static void rows(const uint8_t *in, uint8_t *out, const struct plane_axis *a)
{
    switch (a->slots) {
    case 2:
        filter_rows(in, out, a, 2);
        break;
    case 4:
        filter_rows(in, out, a, 4);
        break;
    case 8:
        filter_rows(in, out, a, 8);
        break;
    case 16:
        filter_rows(in, out, a, 16);
        break;
    default:
        plane_rows_c(in, out, a);
    }
}

/* ---- Colours ---- */

/* A product with a factor that has 16 fractional bits, rounded half up: floor((floor(2x × f / 2^16) + 1) / 2). */
INLINE __m256i times(__m256i x, int factor)
{
    __m256i product = _mm256_mulhi_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16((short)factor));
    return _mm256_srai_epi16(_mm256_add_epi16(product, _mm256_set1_epi16(1)), 1);
}

/* 16 pixels of 16 bits. Factors above a half are their distance from a whole one: they have to fit in 15 bits. */
INLINE void colour_16(__m256i *y_red, __m256i *cb_green, __m256i *cr_blue)
{
    const __m256i green_factors = _mm256_set1_epi32((int)((uint32_t)18734 << 16 | (uint16_t)-22554));
    const __m256i half = _mm256_set1_epi32(32768), middle = _mm256_set1_epi16(128);
    __m256i y = *y_red, cb = _mm256_sub_epi16(*cb_green, middle), cr = _mm256_sub_epi16(*cr_blue, middle);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), green_factors);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), green_factors);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    *cb_green = _mm256_add_epi16(y, _mm256_sub_epi16(_mm256_packs_epi32(low, high), cr));
    *y_red = _mm256_add_epi16(y, _mm256_add_epi16(cr, times(cr, 26345)));
    *cr_blue = _mm256_add_epi16(y, _mm256_add_epi16(_mm256_add_epi16(cb, cb), times(cb, -14942)));
}

static void colour(uint8_t *y_red, uint8_t *cb_green, uint8_t *cr_blue, size_t width)
{
    const __m256i zero = _mm256_setzero_si256();
    for (size_t x = 0; x < width; x += 32) {
        __m256i y = load32(y_red + x), cb = load32(cb_green + x), cr = load32(cr_blue + x);
        __m256i y_low = _mm256_unpacklo_epi8(y, zero), y_high = _mm256_unpackhi_epi8(y, zero);
        __m256i cb_low = _mm256_unpacklo_epi8(cb, zero), cb_high = _mm256_unpackhi_epi8(cb, zero);
        __m256i cr_low = _mm256_unpacklo_epi8(cr, zero), cr_high = _mm256_unpackhi_epi8(cr, zero);
        colour_16(&y_low, &cb_low, &cr_low);
        colour_16(&y_high, &cb_high, &cr_high);
        store32(y_red + x, _mm256_packus_epi16(y_low, y_high));
        store32(cb_green + x, _mm256_packus_epi16(cb_low, cb_high));
        store32(cr_blue + x, _mm256_packus_epi16(cr_low, cr_high));
    }
}

/* Which sample of a channel's 16 goes to each byte of the three registers that 16 pixels fill; 128: another channel's. */
static const uint8_t spread[3][3][16] = {
    {{0, 128, 128, 1, 128, 128, 2, 128, 128, 3, 128, 128, 4, 128, 128, 5},
     {128, 0, 128, 128, 1, 128, 128, 2, 128, 128, 3, 128, 128, 4, 128, 128},
     {128, 128, 0, 128, 128, 1, 128, 128, 2, 128, 128, 3, 128, 128, 4, 128}},
    {{128, 128, 6, 128, 128, 7, 128, 128, 8, 128, 128, 9, 128, 128, 10, 128},
     {5, 128, 128, 6, 128, 128, 7, 128, 128, 8, 128, 128, 9, 128, 128, 10},
     {128, 5, 128, 128, 6, 128, 128, 7, 128, 128, 8, 128, 128, 9, 128, 128}},
    {{128, 11, 128, 128, 12, 128, 128, 13, 128, 128, 14, 128, 128, 15, 128, 128},
     {128, 128, 11, 128, 128, 12, 128, 128, 13, 128, 128, 14, 128, 128, 15, 128},
     {10, 128, 128, 11, 128, 128, 12, 128, 128, 13, 128, 128, 14, 128, 128, 15}},
};

static void merge(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *out, size_t width)
{
    __m256i order[3][3];
    for (unsigned part = 0; part < 3; part++)
        for (unsigned c = 0; c < 3; c++)
            order[part][c] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)spread[part][c]));
    for (size_t x = 0; x < width; x += 32) {
        __m256i r = load32(red + x), g = load32(green + x), b = load32(blue + x), v[3];
        for (unsigned part = 0; part < 3; part++)
            v[part] =
                _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, order[part][0]), _mm256_shuffle_epi8(g, order[part][1])),
                                _mm256_shuffle_epi8(b, order[part][2]));
        uint8_t last[96], *to = width - x >= 32 ? out + 3 * x : last;
        store32(to, _mm256_permute2x128_si256(v[0], v[1], 0x20));
        store32(to + 32, _mm256_permute2x128_si256(v[2], v[0], 0x30));
        store32(to + 64, _mm256_permute2x128_si256(v[1], v[2], 0x31));
        if (to == last)
            memcpy(out + 3 * x, last, 3 * (width - x));
    }
}

#ifdef __AVX512VNNI__
#define INIT plane_kernels_init_vnni
#else
#define INIT plane_kernels_init_avx2
#endif

void INIT(struct plane_kernels *k)
{
    *k = (struct plane_kernels){columns, rows, colour, merge};
}
