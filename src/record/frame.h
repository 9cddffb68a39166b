/* frame.h: the 16 bytes around a TFRecord's payload. */
#ifndef RECORD_FRAME_H
#define RECORD_FRAME_H

#include "base/crc32c.h"
#include "base/le.h"
#include <stdbool.h>

#define FRAME_HEADER 12u
#define FRAME_FOOTER 4u
#define FRAME_BYTES  (FRAME_HEADER + FRAME_FOOTER)

static inline void frame_put_header(uint8_t *out, uint64_t length)
{
    put_le64(out, length);
    put_le32(out + 8, crc32c_masked(out, 8));
}

static inline void frame_put_footer(uint8_t *out, const void *data, size_t length)
{
    put_le32(out, crc32c_masked(data, length));
}

/* Returns true when the length matches its CRC. */
static inline bool frame_get_header(const uint8_t *in, uint64_t *ret_length)
{
    *ret_length = le64(in);
    return crc32c_masked(in, 8) == le32(in + 8);
}

/* Returns true when `frame` belongs to a payload of `length` bytes and, if requested, the payload matches its CRC. */
static inline bool frame_is_sound(const uint8_t *frame, uint64_t length, bool verify)
{
    uint64_t told;
    return frame_get_header(frame, &told) && told == length &&
           (!verify || crc32c_masked(frame + FRAME_HEADER, (size_t)length) == le32(frame + FRAME_HEADER + length));
}

#endif
