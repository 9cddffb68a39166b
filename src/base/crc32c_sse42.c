/* crc32c_sse42.c: three interleaved streams of the crc32 instruction, joined by carry-less multiplication.
 *
 * The instruction takes 8 bytes per cycle but has a latency of three: three independent streams keep it busy. A stream's CRC
 * is extended over the bytes after it by multiplying with x^(their bits). */
#include "base/crc32c_kernels.h"

#include <wmmintrin.h>

#define LANE_WORDS   128 /* of 8 bytes, the longest lane of one step */
#define FEWEST_BYTES 80  /* below, one stream is done before three are joined */

static uint32_t shift_words[2 * LANE_WORDS + 1]; /* [n] moves a CRC over n words */

/* A product of 32-bit numbers has one x too many, and the crc32 step that reduces it multiplies by x^32. */
void crc32c_sse42_prepare(void)
{
    uint32_t power = crc32c_power(64 - 33);
    for (int n = 1; n <= 2 * LANE_WORDS; n++) {
        shift_words[n] = power;
        for (int bit = 0; bit < 64; bit++)
            power = crc32c_times_x(power);
    }
}

/* Not yet reduced: to be added to a word that a crc32 step takes in. */
static inline uint64_t moved(uint64_t crc, size_t words)
{
    __m128i a = _mm_cvtsi64_si128((long long)crc), b = _mm_cvtsi32_si128((int)shift_words[words]);
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(a, b, 0));
}

/* Three lanes of `words` words each, one after the other; words >= 1. */
static inline uint64_t three_lanes(uint64_t crc, const uint8_t *p, size_t words)
{
    uint64_t a = crc, b = 0, c = 0;
    const uint8_t *q = p + 8 * words, *r = q + 8 * words;
    for (size_t i = 1; i < words; i++, p += 8, q += 8, r += 8) {
        a = _mm_crc32_u64(a, crc32c_word_at(p));
        b = _mm_crc32_u64(b, crc32c_word_at(q));
        c = _mm_crc32_u64(c, crc32c_word_at(r));
    }
    a = _mm_crc32_u64(a, crc32c_word_at(p));
    b = _mm_crc32_u64(b, crc32c_word_at(q));
    return _mm_crc32_u64(c, crc32c_word_at(r) ^ moved(a, 2 * words) ^ moved(b, words));
}

uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t length)
{
    const uint8_t *p = data;
    uint64_t state = ~crc;
    while (length >= FEWEST_BYTES) {
        size_t words = length / 24 < LANE_WORDS ? length / 24 : LANE_WORDS;
        state = three_lanes(state, p, words);
        p += 24 * words;
        length -= 24 * words;
    }
    return crc32c_last_bytes(state, p, length);
}
