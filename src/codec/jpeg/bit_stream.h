/* bit_stream.h: bits of entropy-coded data, from one marker to the next.
 *
 * Bytes are freed of their stuffing some way ahead, into a buffer that always has STREAM_AHEAD of them in front of the reader
 * (zeros behind the end), so that who takes a few bits looks at neither markers nor ends: stream_ready every so often, and
 * stream_sound at last, say whether the bits that were taken were there. */
#ifndef CODEC_JPEG_BIT_STREAM_H
#define CODEC_JPEG_BIT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STREAM_AHEAD                                                                                                           \
    32 /* bytes: what may be taken between two calls of stream_ready (53 bits), and what bits_fill reads ahead */
#define STREAM_CHUNK 2048 /* bytes taken from the file at once: a point is seldom followed by more that is needed */

/* The next bits, the first one highest. Bits beyond `count` are those of `next` already, or 0. */
struct bits {
    uint64_t buffer;
    unsigned count;
    const uint8_t *next;
};

struct stream {
    struct bits bits;
    const uint8_t *source, *end; /* what of the file is not in the buffer yet */
    const uint8_t *filled;       /* end of the bytes in the buffer */
    const uint8_t *comfortable;  /* up to here `next` has STREAM_AHEAD in front of it; NULL: nowhere */
    size_t passed;               /* bytes that left the buffer, without stuffing */
    bool ended;                  /* `source` is at a marker, or the file's end */
    uint8_t buffer[STREAM_CHUNK + 2 * STREAM_AHEAD];
    /* Stuffing, for who asks where in the file the stream is: how many bytes were behind the reader when it last mattered, and
     * the others, as the number of bytes without stuffing in front of each. */
    size_t unstuffed, stuffings;
    size_t stuffing[STREAM_CHUNK / 2 + 2 * STREAM_AHEAD];
};

/* Begins at a byte of the file. False: `skip` bits (0…7) are not there. */
bool stream_begin(struct stream *s, const uint8_t *from, const uint8_t *end, unsigned skip);
/* Bytes of the file from where the stream began to the one that has the next bit. */
size_t stream_offset(struct stream *s);
/* For stream_ready, when the buffer runs out. */
bool stream_more(struct stream *s);

/* At least 56 bits, of which those behind the end are 0. */
static inline __attribute__((always_inline)) void bits_fill(struct bits *b)
{
    uint64_t ahead;
    memcpy(&ahead, b->next, 8);
    b->buffer |= __builtin_bswap64(ahead) >> b->count;
    b->next += (63 - b->count) >> 3;
    b->count |= 56;
}

static inline __attribute__((always_inline)) void bits_drop(struct bits *b, unsigned n)
{
    b->buffer <<= n;
    b->count -= n;
}

/* Whether all bits that were taken were there. */
static inline bool stream_sound(const struct stream *s)
{
    return 8 * (ptrdiff_t)(s->bits.next - s->filled) <= (ptrdiff_t)s->bits.count;
}

/* Bits that are left before the marker, if `ended`. */
static inline uint64_t stream_left(const struct stream *s)
{
    return (uint64_t)(8 * (ptrdiff_t)(s->filled - s->bits.next) + (ptrdiff_t)s->bits.count);
}

static inline bool stream_ready(struct stream *s)
{
    return s->bits.next <= s->comfortable || stream_more(s);
}

/* Bits taken since stream_begin, as if there were no stuffing. */
static inline uint64_t stream_taken(const struct stream *s)
{
    return 8 * (uint64_t)(s->passed + (size_t)(s->bits.next - s->buffer)) - s->bits.count;
}

#endif
