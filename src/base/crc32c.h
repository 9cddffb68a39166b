/* crc32c.h: CRC-32C (Castagnoli), and TFRecord's mask over it. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t (*crc32c_fn)(uint32_t crc, const void *data, size_t length);

/* The table of implementations: `extend` is the best that cpu_features() allows, `_c` the reference. */
uint32_t crc32c_c(uint32_t crc, const void *data, size_t length);
crc32c_fn crc32c_best(unsigned features);

uint32_t crc32c_extend(uint32_t crc, const void *data, size_t length); /* crc of a||b = extend(crc of a, b); starts at 0 */

static inline uint32_t crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static inline uint32_t crc32c_masked(const void *data, size_t length)
{
    return crc32c_mask(crc32c_extend(0, data, length));
}

#endif
