/* bit_stream.c: removes byte stuffing ahead of the reader. See bit_stream.h. */
#include "codec/jpeg/bit_stream.h"

/* Copies at most `most` bytes of the file, less stuffing; stops at markers. memchr and memcpy are vectors of whatever the
 * machine has, and a stuffed byte comes once in 256: together 1 % of decoding. */
static size_t unstuff(struct stream *s, uint8_t *to, size_t most)
{
    const uint8_t *from = s->source, *stop = (size_t)(s->end - from) < most ? s->end : from + most;
    uint8_t *begin = to;
    while (from < stop) {
        const uint8_t *ff = memchr(from, 0xff, (size_t)(stop - from));
        size_t n = (size_t)((ff ? ff : stop) - from);
        memcpy(to, from, n);
        to += n;
        from += n;
        if (!ff)
            break;
        if (s->end - from < 2 || from[1] != 0) {
            s->ended = true;
            break;
        }
        *to++ = 0xff;
        from += 2;
        s->stuffing[s->stuffings++] = s->passed + (size_t)(to - s->buffer);
    }
    s->source = from;
    s->ended |= from == s->end;
    return (size_t)(to - begin);
}

static void fill(struct stream *s, uint8_t *at)
{
    uint8_t *filled = at + unstuff(s, at, STREAM_CHUNK);
    if (s->ended)
        memset(filled, 0, STREAM_AHEAD);
    s->filled = filled;
    s->comfortable = filled - s->buffer >= STREAM_AHEAD ? filled - STREAM_AHEAD : NULL;
}

size_t stream_offset(struct stream *s)
{
    size_t taken = (size_t)(stream_taken(s) / 8), n = 0;
    while (n < s->stuffings && s->stuffing[n] <= taken)
        n++;
    s->unstuffed += n;
    s->stuffings -= n;
    memmove(s->stuffing, s->stuffing + n, s->stuffings * sizeof(*s->stuffing));
    return taken + s->unstuffed;
}

bool stream_more(struct stream *s)
{
    if (!stream_sound(s))
        return false;
    while (!s->ended && s->bits.next > s->comfortable) {
        stream_offset(s); /* what is left of the stuffing is that of fewer bytes than STREAM_AHEAD and 8 in the bits */
        size_t left = (size_t)(s->filled - s->bits.next);
        s->passed += (size_t)(s->bits.next - s->buffer);
        memmove(s->buffer, s->bits.next, left);
        s->bits.next = s->buffer;
        fill(s, s->buffer + left);
    }
    return true;
}

bool stream_begin(struct stream *s, const uint8_t *from, const uint8_t *end, unsigned skip)
{
    s->source = from;
    s->end = end;
    s->passed = s->unstuffed = s->stuffings = 0;
    s->ended = false;
    s->bits = (struct bits){.next = s->buffer};
    fill(s, s->buffer);
    if (skip) {
        bits_fill(&s->bits);
        bits_drop(&s->bits, skip);
    }
    return stream_sound(s);
}
