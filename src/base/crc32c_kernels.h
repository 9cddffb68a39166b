/* crc32c_kernels.h: declarations shared by the CRC-32C files only.
 *
 * Numbers are polynomials over GF(2) with their bits reflected, as in the CRC: the highest bit is x^0. The raw product of
 * two of them, read at twice the width, is one x too many; constants are chosen to make up for it. */
#ifndef BASE_CRC32C_KERNELS_H
#define BASE_CRC32C_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* A kernel needs its prepare to have run, avx512 that of sse42 too; crc32c_best() ensures it. */
uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t length);
uint32_t crc32c_avx512(uint32_t crc, const void *data, size_t length);
void crc32c_sse42_prepare(void);
void crc32c_avx512_prepare(void);

/* v * x modulo the polynomial. */
static inline uint32_t crc32c_times_x(uint32_t v)
{
    return v >> 1 ^ (0x82f63b78u & -(v & 1u));
}

/* x^n modulo the polynomial. */
static inline uint32_t crc32c_power(unsigned n)
{
    uint32_t v = 0x80000000u;
    while (n--)
        v = crc32c_times_x(v);
    return v;
}

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#include <string.h>

static inline uint64_t crc32c_word_at(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* Processes the last few bytes and returns the finished CRC. `state` is the inverted CRC. */
static inline uint32_t crc32c_last_bytes(uint64_t state, const uint8_t *p, size_t length)
{
    for (; length >= 8; p += 8, length -= 8)
        state = _mm_crc32_u64(state, crc32c_word_at(p));
    uint32_t crc = (uint32_t)state;
    if (length & 4) {
        uint32_t v;
        memcpy(&v, p, sizeof(v));
        crc = _mm_crc32_u32(crc, v);
        p += 4;
    }
    if (length & 2) {
        uint16_t v;
        memcpy(&v, p, sizeof(v));
        crc = _mm_crc32_u16(crc, v);
        p += 2;
    }
    if (length & 1)
        crc = _mm_crc32_u8(crc, *p);
    return ~crc;
}
#endif

#endif
