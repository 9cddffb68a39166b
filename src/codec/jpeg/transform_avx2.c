/* transform_avx2.c: the 8 × 8 transform of two blocks at once: one in each half of the registers, as no step crosses halves. */
#include "codec/jpeg/kernels.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

typedef __m256i v16; /* 16 bits each: 8 of the one block, 8 of the other */

/* Factors of two neighbours. */
INLINE v16 factors(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}

struct sums { /* 32 bits each: the lower and the upper half of a v16 */
    __m256i low, high;
};

INLINE struct sums add(struct sums a, struct sums b)
{
    return (struct sums){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

INLINE struct sums subtract(struct sums a, struct sums b)
{
    return (struct sums){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

struct pairs { /* neighbours of two vectors */
    v16 low, high;
};

INLINE struct pairs pair(v16 a, v16 b)
{
    return (struct pairs){_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
}

INLINE struct sums weigh(struct pairs p, v16 by)
{
    return (struct sums){_mm256_madd_epi16(p.low, by), _mm256_madd_epi16(p.high, by)};
}

INLINE struct sums times_8192(v16 a)
{
    const v16 zero = _mm256_setzero_si256();
    return (struct sums){_mm256_srai_epi32(_mm256_unpacklo_epi16(zero, a), 3),
                         _mm256_srai_epi32(_mm256_unpackhi_epi16(zero, a), 3)};
}

INLINE v16 descale(struct sums s, int bits)
{
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(s.low, half), bits),
                              _mm256_srai_epi32(_mm256_add_epi32(s.high, half), bits));
}

/* One pass over eight vectors; see `eight` of transform_c.c for the arithmetic. */
INLINE void pass(v16 x[8], int bits)
{
    struct pairs even = pair(x[2], x[6]);
    struct sums even3 = weigh(even, factors(4433 + 6270, 4433)), even2 = weigh(even, factors(4433, 4433 - 15137));
    struct sums even0 = times_8192(_mm256_add_epi16(x[0], x[4])), even1 = times_8192(_mm256_sub_epi16(x[0], x[4]));
    struct sums sum0 = add(even0, even3), sum3 = subtract(even0, even3);
    struct sums sum1 = add(even1, even2), sum2 = subtract(even1, even2);
    struct pairs z = pair(_mm256_add_epi16(x[7], x[3]), _mm256_add_epi16(x[5], x[1]));
    struct sums s3 = weigh(z, factors(9633 - 16069, 9633)), s4 = weigh(z, factors(9633, 9633 - 3196));
    struct pairs outer = pair(x[7], x[1]), inner = pair(x[5], x[3]);
    struct sums odd0 = add(weigh(outer, factors(2446 - 7373, -7373)), s3);
    struct sums odd3 = add(weigh(outer, factors(-7373, 12299 - 7373)), s4);
    struct sums odd1 = add(weigh(inner, factors(16819 - 20995, -20995)), s4);
    struct sums odd2 = add(weigh(inner, factors(-20995, 25172 - 20995)), s3);
    x[0] = descale(add(sum0, odd3), bits);
    x[7] = descale(subtract(sum0, odd3), bits);
    x[1] = descale(add(sum1, odd2), bits);
    x[6] = descale(subtract(sum1, odd2), bits);
    x[2] = descale(add(sum2, odd1), bits);
    x[5] = descale(subtract(sum2, odd1), bits);
    x[3] = descale(add(sum3, odd0), bits);
    x[4] = descale(subtract(sum3, odd0), bits);
}

INLINE void transpose(v16 x[8])
{
    v16 a[8], b[8];
    for (int i = 0; i < 4; i++) { /* words of rows i and i + 4, then of those 2 apart, then 1 */
        a[2 * i] = _mm256_unpacklo_epi16(x[i], x[i + 4]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(x[i], x[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
        b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        x[2 * i] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
        x[2 * i + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
    }
}

INLINE v16 load(const int16_t *a, const int16_t *b, const int16_t *quant)
{
    v16 both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                       _mm_loadu_si128((const __m128i *)b), 1);
    return _mm256_mullo_epi16(both, _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)quant)));
}

static void transform_pair_avx2(const int16_t *a, const int16_t *b, const int16_t *quant, uint8_t *out, size_t stride)
{
    v16 x[8];
    for (int row = 0; row < 8; row++)
        x[row] = load(a + 8 * row, b + 8 * row, quant + 8 * row);
    /* Beyond 8191 a block of one row would need to be distinguished from others. */
    if (!_mm256_testz_si256(_mm256_add_epi16(x[0], _mm256_set1_epi16(8192)), _mm256_set1_epi16((short)0xc000))) {
        jpeg_transform_pair_c(a, b, quant, out, stride);
        return;
    }
    pass(x, 11);
    transpose(x);
    pass(x, 18);
    transpose(x);
    for (int row = 0; row < 8; row += 2, out += 2 * stride) {
        __m256i rows = _mm256_packs_epi16(x[row], x[row + 1]);
        rows = _mm256_permute4x64_epi64(_mm256_xor_si256(rows, _mm256_set1_epi8((char)0x80)), 0xd8);
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(rows));
        _mm_storeu_si128((__m128i *)(out + stride), _mm256_extracti128_si256(rows, 1));
    }
}

void jpeg_kernels_init_transforms_avx2(struct jpeg_kernels *k)
{
    k->transform_pair = transform_pair_avx2;
}
