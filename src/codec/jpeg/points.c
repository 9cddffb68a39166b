/* points.c: places to begin at, found by one pass over the data that stores nothing else. */
#include "codec/jpeg/state.h"

#include <assert.h>
#include <inttypes.h>

static size_t mcus_of(const struct jpeg_decoder *d)
{
    return (size_t)d->frame.mcus_x * d->frame.mcus_y;
}

size_t jpeg_points_count(const struct jpeg_decoder *d)
{
    return (mcus_of(d) + JPEG_POINT_STEP - 1) / JPEG_POINT_STEP;
}

/* `n` bytes further in the file, not counting stuffing. */
static const uint8_t *advance(const uint8_t *at, size_t n)
{
    while (n) {
        const uint8_t *ff = memchr(at, 0xff, n);
        if (!ff)
            return at + n;
        n -= (size_t)(ff - at) + 1;
        at = ff + 2;
    }
    return at;
}

/* Where the stream stands in the file. `*known` is a byte of it, `*taken` how many the stream had taken there. */
static uint64_t bit_of(const struct jpeg_decoder *d, const struct stream *s, const uint8_t **known, uint64_t *taken)
{
    uint64_t bits = stream_taken(s);
    *known = advance(*known, (size_t)(bits / 8 - *taken));
    *taken = bits / 8;
    return (uint64_t)(*known - d->data) * 8 + bits % 8;
}

pst_status jpeg_points_find(struct jpeg_decoder *d, struct jpeg_point *ret, pst_error *reterr)
{
    struct jpeg_place *p = &d->stage[0].place;
    const uint8_t *known = NULL, *begin = NULL;
    uint64_t taken = 0;
    size_t all = mcus_of(d), count = jpeg_points_count(d);
    assert(d->scan);
    if (d->length > UINT32_MAX / 8)
        return pst_fail(reterr, PST_EUNSUPPORTED, "jpeg: %zu bytes, at most %" PRIu32 " can have points", d->length,
                        UINT32_MAX / 8);
    if (!jpeg_entropy_start(d, p))
        return jpeg_not_sound(d, NULL, reterr);
    for (size_t i = 0; i < count; i++) {
        size_t left = all - i * JPEG_POINT_STEP;
        if (!jpeg_entropy_enter(d, p))
            return jpeg_not_sound(d, NULL, reterr);
        if (p->begin != begin) { /* another segment */
            known = begin = p->begin;
            taken = 0;
        }
        uint64_t bit = bit_of(d, &p->stream, &known, &taken);
        ret[i] = (struct jpeg_point){.bit = {(uint16_t)bit, (uint16_t)(bit >> 16)}};
        for (uint32_t c = 0; c < d->frame.components; c++)
            ret[i].dc[c] = (int16_t)p->dc[c];
        if (!jpeg_entropy_skip(d, p, left < JPEG_POINT_STEP ? (uint32_t)left : JPEG_POINT_STEP))
            return jpeg_not_sound(d, NULL, reterr);
    }
    return PST_OK;
}
