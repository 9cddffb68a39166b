/* crc32c_avx512.c: large buffers by folding, four 512-bit accumulators of VPCLMULQDQ; small ones are left to SSE4.2.
 *
 * Folding replaces 128 bits by an equivalent 128 bits that lie D bits further on, where they are added to the data
 * there. In the end one block of 128 bits is left that has the CRC of everything before it. */
#include "base/crc32c_kernels.h"

#include <immintrin.h>

#define FEWEST_BYTES 128 /* below, the reduction costs more than folding saves */

/* The 128-bit lanes of a vector, each with its two multipliers for the distance it moves. */
typedef struct {
    _Alignas(64) uint64_t lane[4][2];
} multipliers;

static multipliers by_2048, by_1536, by_1024, by_512, to_last_lane;

/* A lane is H x^64 + L with H in its low quadword. The multiplier stands 32 bits high in its quadword and the product
 * has one x too many: H needs x^(D + 64 - 33), L needs x^(D - 33). */
static void set_lane(uint64_t lane[2], unsigned distance)
{
    lane[0] = crc32c_power(distance + 64 - 33);
    lane[1] = crc32c_power(distance - 33);
}

void crc32c_avx512_prepare(void)
{
    for (int i = 0; i < 4; i++) {
        set_lane(by_2048.lane[i], 2048);
        set_lane(by_1536.lane[i], 1536);
        set_lane(by_1024.lane[i], 1024);
        set_lane(by_512.lane[i], 512);
        if (i < 3)
            set_lane(to_last_lane.lane[i], 128 * (3 - (unsigned)i));
    }
}

static inline __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

static inline __m512i add3(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

static inline __m512i fold(__m512i from, __m512i multiplier, __m512i onto)
{
    return add3(_mm512_clmulepi64_epi128(from, multiplier, 0x00), _mm512_clmulepi64_epi128(from, multiplier, 0x11), onto);
}

/* The state after the 64 bytes: three lanes move onto the last, and 128 bits are two words to the crc32 instruction. */
static inline uint64_t reduce(__m512i x)
{
    __m512i last = _mm512_maskz_mov_epi64(0xc0, x);
    x = fold(x, _mm512_load_si512(&to_last_lane), last);
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    __m128i lane = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    uint64_t state = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane));
    return _mm_crc32_u64(state, (uint64_t)_mm_extract_epi64(lane, 1));
}

/* Moves `a`, the first 64 of at least 256 bytes, onto the last whole 64 before `*p`, leaving fewer than 256 behind. */
static inline __m512i fold_four(__m512i a, const uint8_t **p, size_t *length)
{
    __m512i b = load(*p + 64), c = load(*p + 128), d = load(*p + 192), k = _mm512_load_si512(&by_2048);
    for (*p += 256, *length -= 256; *length >= 256; *p += 256, *length -= 256) {
        a = fold(a, k, load(*p));
        b = fold(b, k, load(*p + 64));
        c = fold(c, k, load(*p + 128));
        d = fold(d, k, load(*p + 192));
    }
    d = fold(c, _mm512_load_si512(&by_512), d);
    return fold(a, _mm512_load_si512(&by_1536), fold(b, _mm512_load_si512(&by_1024), d));
}

uint32_t crc32c_avx512(uint32_t crc, const void *data, size_t length)
{
    const uint8_t *p = data;
    if (length < FEWEST_BYTES)
        return crc32c_sse42(crc, data, length);
    __m512i a = _mm512_xor_si512(load(p), _mm512_castsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    if (length >= 256) {
        a = fold_four(a, &p, &length);
    } else {
        p += 64;
        length -= 64;
    }
    for (__m512i k = _mm512_load_si512(&by_512); length >= 64; p += 64, length -= 64)
        a = fold(a, k, load(p));
    return crc32c_last_bytes(reduce(a), p, length);
}
