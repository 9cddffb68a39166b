/* bit_stream.h: bits of entropy-coded data, from one marker to the next.
 *
 * Byte stuffing is removed ahead of the reader, into a buffer that always has STREAM_AHEAD bytes after the reader's position
 * (zeros after the end). So code that takes a few bits checks neither markers nor ends: it calls stream_ready from time to
 * time and stream_sound at the end to check that the bits that were taken existed. */
#ifndef CODEC_JPEG_BIT_STREAM_H
#define CODEC_JPEG_BIT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STREAM_AHEAD                                                                                                           \
    32 /* bytes: the most that may be taken between two calls of stream_ready (53 bits), and what bits_fill reads ahead */
#define STREAM_CHUNK 2048 /* bytes taken from the file at once: after a point, more are rarely needed */

/* The next bits, the first one highest. Bits beyond `count` are already those at `next`, or 0. */
struct bits {
    uint64_t buffer;
    unsigned count;
    const uint8_t *next;
};

struct stream {
    struct bits bits;
    const uint8_t *source, *end; /* the part of the file that is not in the buffer yet */
    const uint8_t *filled;       /* end of the bytes in the buffer */
    const uint8_t *comfortable;  /* up to here, STREAM_AHEAD bytes follow `next`; NULL: nowhere */
    size_t passed;               /* bytes that left the buffer, without stuffing */
    bool ended;                  /* `source` is at a marker, or the file's end */
    uint8_t buffer[STREAM_CHUNK + 2 * STREAM_AHEAD];
    /* Stuffing bytes, to compute the position of the stream in the file: how many the reader had passed at the last check,
     * and the others, as the number of bytes without stuffing before each. */
    size_t unstuffed, stuffings;
    size_t stuffing[STREAM_CHUNK / 2 + 2 * STREAM_AHEAD];
};

/* Begins at a byte of the file. False: there are no `skip` bits (0…7). */
bool stream_begin(struct stream *s, const uint8_t *from, const uint8_t *end, unsigned skip);
/* Returns the number of bytes in the file from the start of the stream to the byte with the next bit. */
size_t stream_offset(struct stream *s);
/* For stream_ready, when the buffer runs out. */
bool stream_more(struct stream *s);

/* Fills up to at least 56 bits; bits after the end are 0. */
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

/* Returns whether all bits that were taken existed. */
static inline bool stream_sound(const struct stream *s)
{
    return 8 * (ptrdiff_t)(s->bits.next - s->filled) <= (ptrdiff_t)s->bits.count;
}

/* Returns the bits left before the marker, if `ended`. */
static inline uint64_t stream_left(const struct stream *s)
{
    return (uint64_t)(8 * (ptrdiff_t)(s->filled - s->bits.next) + (ptrdiff_t)s->bits.count);
}

static inline bool stream_ready(struct stream *s)
{
    return s->bits.next <= s->comfortable || stream_more(s);
}

/* Returns the bits taken since stream_begin, not counting stuffing. */
static inline uint64_t stream_taken(const struct stream *s)
{
    return 8 * (uint64_t)(s->passed + (size_t)(s->bits.next - s->buffer)) - s->bits.count;
}

#endif
