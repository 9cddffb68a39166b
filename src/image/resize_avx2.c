/* resize_avx2.c: the resize kernels with AVX2. Exactly the sums of resize_c.c, in another order. Compiled a second time for
 * processors that multiply and add in one instruction (VNNI).
 *
 * pmaddwd multiplies two bytes with two weights; a weight has two parts, so there are two such sums: high × 256 + low. They
 * may wrap where there are thousands of taps; their total does not. The horizontal loops take four rows at once, two a
 * register, which share the weights. Near the end of a row loads stop at its last byte: it may be the last of the caller's
 * memory. */
#include "image/resize_kernels.h"

#include <immintrin.h>
#include <string.h>

#define HALVES (RESIZE_ROWS / 2) /* registers that hold two rows each */

RESIZE_INLINE void store4(uint8_t *p, int32_t v)
{
    memcpy(p, &v, sizeof(v));
}

/* A pair of 16-bit parts of weights in every dword. */
RESIZE_INLINE __m256i pair_of(const int16_t *w)
{
    int32_t v;
    memcpy(&v, w, sizeof(v));
    return _mm256_set1_epi32(v);
}

/* Puts two neighbours of four pixels in each lane, the first two or the last two, channel by channel as pairs of 16 bits. */
RESIZE_INLINE __m256i pair_order(unsigned channels, bool last)
{
    const char a = (char)(last ? 2 * channels : 0), b = (char)(a + (char)channels), none = -128;
    const char alpha = channels == 4 ? (char)(a + 3) : none, alpha_b = channels == 4 ? (char)(b + 3) : none;
    const __m128i order = _mm_setr_epi8(a, none, b, none, (char)(a + 1), none, (char)(b + 1), none, (char)(a + 2), none,
                                        (char)(b + 2), none, alpha, none, alpha_b, none);
    return _mm256_broadcastsi128_si256(order);
}

RESIZE_INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

RESIZE_INLINE __m256i join(__m128i one, __m128i two)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(one), two, 1);
}

/* Loads 16 bytes of a row of at least 16 bytes, from `at` on; zeros after its end. */
RESIZE_INLINE __m128i load_up_to(const uint8_t *row, size_t at, size_t length)
{
    static const uint8_t steps[32] = {0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
                                      128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};
    if (at + 16 <= length)
        return load16(row + at);
    if (at >= length)
        return _mm_setzero_si128();
    return _mm_shuffle_epi8(load16(row + length - 16), load16(steps + (at + 16 - length)));
}

/* How many outputs can be loaded without leaving the row; `last` is where their last load of `bytes` begins. */
RESIZE_INLINE uint32_t loadable(const struct resize_axis *a, unsigned channels, size_t last, size_t bytes)
{
    size_t row = (size_t)a->in * channels;
    uint32_t n = a->out;
    while (n > 0 && (size_t)a->first[n - 1] * channels + last + bytes > row)
        n--;
    return n;
}

/* All RESIZE_ROWS of them: where there are fewer, the last one is computed again. */
struct rows {
    const uint8_t *in[RESIZE_ROWS];
    uint8_t *out[RESIZE_ROWS];
};

RESIZE_INLINE struct rows rows_of(const uint8_t *const *in, uint8_t *const *out, unsigned rows)
{
    struct rows r;
    for (unsigned i = 0; i < RESIZE_ROWS; i++) {
        r.in[i] = in[i < rows ? i : rows - 1];
        r.out[i] = out[i < rows ? i : rows - 1];
    }
    return r;
}

/* Adds pairs of bytes times pairs of weights to both sums. */
RESIZE_INLINE void accumulate(__m256i *high, __m256i *low, __m256i pairs, __m256i upper, __m256i lower)
{
#ifdef __AVX512VNNI__
    *high = _mm256_dpwssd_epi32(*high, pairs, upper);
    *low = _mm256_dpwssd_epi32(*low, pairs, lower);
#else
    *high = _mm256_add_epi32(*high, _mm256_madd_epi16(pairs, upper));
    *low = _mm256_add_epi32(*low, _mm256_madd_epi16(pairs, lower));
#endif
}

/* Eight levels from their two sums; beyond 0…255 where weights are negative. */
RESIZE_INLINE __m256i levels_of(__m256i high, __m256i low)
{
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, 8), low), RESIZE_BITS);
}

/* Outputs `x` up to `n` of RGB or RGBA in `halves` registers. `near_end`: loads may extend past the row. `taps` may be a
 * constant that is not less than the axis's: weights up to the pitch are 0. */
RESIZE_INLINE void horizontal_part(const struct rows *rows, const struct resize_axis *a, uint32_t x, uint32_t n,
                                   unsigned channels, uint32_t taps, unsigned halves, bool near_end)
{
    const __m256i first_two = pair_order(channels, false), last_two = pair_order(channels, true);
    const struct resize_axis axis = *a; /* stores of bytes might change `*a`, for all that the compiler knows */
    const struct rows r = *rows;
    const size_t length = (size_t)axis.in * channels;
    for (; x < n; x++) {
        size_t at = (size_t)axis.first[x] * channels;
        const int16_t *w = resize_weights(&axis, x);
        __m256i high[HALVES], low[HALVES], both[HALVES];
        for (unsigned h = 0; h < halves; h++) {
            high[h] = _mm256_setzero_si256();
            low[h] = _mm256_set1_epi32(1 << (RESIZE_BITS - 1));
        }
        for (uint32_t t = 0; t < taps; t += 4, w += 8, at += 4 * channels) {
            __m256i upper = pair_of(w), lower = pair_of(w + 2);
            for (unsigned h = 0; h < halves; h++) {
                const uint8_t *one = r.in[2 * h], *two = r.in[2 * h + 1];
                both[h] = near_end ? join(load_up_to(one, at, length), load_up_to(two, at, length))
                                   : join(load16(one + at), load16(two + at));
                accumulate(&high[h], &low[h], _mm256_shuffle_epi8(both[h], first_two), upper, lower);
            }
            if (t + 2 >= taps)
                break;
            upper = pair_of(w + 4);
            lower = pair_of(w + 6);
            for (unsigned h = 0; h < halves; h++)
                accumulate(&high[h], &low[h], _mm256_shuffle_epi8(both[h], last_two), upper, lower);
        }
        __m256i levels = _mm256_packs_epi32(levels_of(high[0], low[0]), levels_of(high[halves - 1], low[halves - 1]));
        __m256i bytes = _mm256_packus_epi16(levels, levels);
        __m128i even = _mm256_castsi256_si128(bytes), odd = _mm256_extracti128_si256(bytes, 1);
        store4(r.out[0] + (size_t)x * channels, _mm_cvtsi128_si32(even)); /* RGB: the fourth byte is written over next */
        store4(r.out[1] + (size_t)x * channels, _mm_cvtsi128_si32(odd));
        if (halves > 1) {
            store4(r.out[2] + (size_t)x * channels, _mm_extract_epi32(even, 1));
            store4(r.out[3] + (size_t)x * channels, _mm_extract_epi32(odd, 1));
        }
    }
}

/* The loops over few taps are unrolled. */
RESIZE_INLINE void horizontal_bulk(const struct rows *r, const struct resize_axis *a, uint32_t n, unsigned channels)
{
    if (a->taps <= 2)
        horizontal_part(r, a, 0, n, channels, 2, HALVES, false);
    else if (a->taps <= 4)
        horizontal_part(r, a, 0, n, channels, 4, HALVES, false);
    else if (a->taps <= 6)
        horizontal_part(r, a, 0, n, channels, 6, HALVES, false);
    else
        horizontal_part(r, a, 0, n, channels, a->taps, HALVES, false);
}

RESIZE_INLINE void horizontal(const uint8_t *const *in, uint8_t *const *out, unsigned rows, const struct resize_axis *a,
                              unsigned channels)
{
    if ((size_t)a->in * channels < 16) {
        for (uint32_t x = 0; x < a->out; x++)
            for (unsigned row = 0; row < rows; row++)
                resize_pixel(in[row], out[row], a, x, channels);
        return;
    }
    struct rows r = rows_of(in, out, rows);
    uint32_t n = loadable(a, channels, (size_t)(a->taps - 1) / 4 * 4 * channels, 16);
    if (rows > 2)
        horizontal_bulk(&r, a, n, channels);
    else
        horizontal_part(&r, a, 0, n, channels, a->taps, 1, false);
    horizontal_part(&r, a, n, a->out, channels, a->taps, HALVES, true);
}

static void horizontal_3(const uint8_t *const *in, uint8_t *const *out, unsigned rows, const struct resize_axis *a)
{
    horizontal(in, out, rows, a, 3);
}

static void horizontal_4(const uint8_t *const *in, uint8_t *const *out, unsigned rows, const struct resize_axis *a)
{
    horizontal(in, out, rows, a, 4);
}

RESIZE_INLINE __m128i load8(const uint8_t *p, const uint8_t *p2)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), _mm_loadl_epi64((const __m128i *)p2));
}

/* Gray: eight taps of two rows at a time. */
RESIZE_INLINE void gray_rows(const uint8_t *in, const uint8_t *in2, uint8_t *out, uint8_t *out2, const struct resize_axis *a,
                             uint32_t n)
{
    const __m256i uppers = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6), lowers = _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7);
    const __m128i half = _mm_set1_epi32(1 << (RESIZE_BITS - 1));
    const struct resize_axis axis = *a;
    for (uint32_t x = 0; x < n; x++) {
        const uint8_t *p = in + axis.first[x], *p2 = in2 + axis.first[x];
        const int16_t *w = resize_weights(&axis, x);
        __m256i high = _mm256_setzero_si256(), low = high;
        for (uint32_t t = 0; t < axis.taps; t += 8, w += 16) {
            __m256i weights = _mm256_loadu_si256((const __m256i *)w);
            accumulate(&high, &low, _mm256_cvtepu8_epi16(load8(p + t, p2 + t)), _mm256_permutevar8x32_epi32(weights, uppers),
                       _mm256_permutevar8x32_epi32(weights, lowers));
        }
        __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, 8), low); /* four parts per row */
        __m128i halves = _mm_hadd_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        __m128i level = _mm_srai_epi32(_mm_add_epi32(_mm_hadd_epi32(halves, halves), half), RESIZE_BITS);
        level = _mm_packus_epi16(_mm_packs_epi32(level, level), level);
        out[x] = (uint8_t)_mm_extract_epi8(level, 0);
        out2[x] = (uint8_t)_mm_extract_epi8(level, 1);
    }
}

static void horizontal_1(const uint8_t *const *in, uint8_t *const *out, unsigned rows, const struct resize_axis *a)
{
    struct rows r = rows_of(in, out, rows);
    uint32_t n = loadable(a, 1, a->pitch - 8, 8);
    for (unsigned row = 0; row < rows; row += 2)
        gray_rows(r.in[row], r.in[row + 1], r.out[row], r.out[row + 1], a, n);
    for (uint32_t x = n; x < a->out; x++)
        for (unsigned row = 0; row < rows; row++)
            resize_pixel(in[row], out[row], a, x, 1);
}

static void vertical(const uint8_t *const *rows, const int16_t *weights, uint32_t taps, uint8_t *out, size_t n)
{
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(1 << (RESIZE_BITS - 1));
    for (size_t at = 0; at < n; at += 32) {
        __m256i high[4] = {zero, zero, zero, zero}, low[4] = {half, half, half, half};
        const int16_t *w = weights;
        for (uint32_t t = 0; t < taps; t += 2, w += 4) {
            __m256i upper = pair_of(w), lower = pair_of(w + 2);
            __m256i a = _mm256_loadu_si256((const __m256i *)(rows[t] + at));
            __m256i b = _mm256_loadu_si256((const __m256i *)(rows[t + 1] + at));
            __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b);
            accumulate(&high[0], &low[0], _mm256_unpacklo_epi8(left, zero), upper, lower);
            accumulate(&high[1], &low[1], _mm256_unpackhi_epi8(left, zero), upper, lower);
            accumulate(&high[2], &low[2], _mm256_unpacklo_epi8(right, zero), upper, lower);
            accumulate(&high[3], &low[3], _mm256_unpackhi_epi8(right, zero), upper, lower);
        }
        __m256i left = _mm256_packs_epi32(levels_of(high[0], low[0]), levels_of(high[1], low[1]));
        __m256i right = _mm256_packs_epi32(levels_of(high[2], low[2]), levels_of(high[3], low[3]));
        __m256i bytes = _mm256_packus_epi16(left, right);
        if (n - at >= 32) {
            _mm256_storeu_si256((__m256i *)(out + at), bytes);
        } else {
            uint8_t last[32];
            _mm256_storeu_si256((__m256i *)last, bytes);
            memcpy(out + at, last, n - at);
        }
    }
}

#ifdef __AVX512VNNI__
#define INIT resize_kernels_init_vnni
#else
#define INIT resize_kernels_init_avx2
#endif

void INIT(struct resize_kernels *k)
{
    k->horizontal[1] = horizontal_1;
    k->horizontal[3] = horizontal_3;
    k->horizontal[4] = horizontal_4;
    k->vertical = vertical;
}
