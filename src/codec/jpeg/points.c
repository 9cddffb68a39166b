/* points.c: places to begin at, noted where decoding passes them, or found by a pass that stores nothing else. */
#include "codec/jpeg/state.h"

#include <assert.h>
#include <inttypes.h>

#define MOST_BYTES (UINT32_MAX / 8) /* size of a file: more does not fit in the bits of a point */

static size_t mcus_of(const struct jpeg_decoder *d)
{
    return (size_t)d->frame.mcus_x * d->frame.mcus_y;
}

size_t jpeg_points_count(const struct jpeg_decoder *d)
{
    return d->length > MOST_BYTES ? 0 : (mcus_of(d) + JPEG_POINT_STEP - 1) / JPEG_POINT_STEP;
}

/* The state at a place, as it is stored. */
static struct jpeg_point point_of(const struct jpeg_decoder *d, struct jpeg_place *p)
{
    size_t byte = (size_t)(p->begin - d->data) + stream_offset(&p->stream);
    uint32_t bit = (uint32_t)(8 * byte + stream_taken(&p->stream) % 8);
    struct jpeg_point point = {.bit = {(uint16_t)bit, (uint16_t)(bit >> 16)}};
    for (uint32_t c = 0; c < d->frame.components; c++)
        point.dc[c] = (int16_t)p->dc[c];
    return point;
}

bool jpeg_points_add(const struct jpeg_decoder *d, struct jpeg_place *p, struct jpeg_points *points)
{
    if (!stream_sound(&p->stream))
        return false;
    assert(points->known < points->count && p->mcu == points->known * points->step);
    points->room[points->known++] = point_of(d, p);
    return true;
}

bool jpeg_points_agree(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points)
{
    const struct jpeg_point here = point_of(d, p);
    return memcmp(&here, &points->point[p->mcu / points->step], sizeof(here)) == 0;
}

pst_status jpeg_points_find(struct jpeg_decoder *d, struct jpeg_point *ret, pst_error *reterr)
{
    struct jpeg_place *p = &d->stage[0].place;
    struct jpeg_points points = {.step = JPEG_POINT_STEP, .count = (uint32_t)jpeg_points_count(d), .point = ret, .room = ret};
    assert(d->scan);
    if (points.count == 0)
        return pst_fail(reterr, PST_EUNSUPPORTED, "jpeg: %zu bytes, at most %" PRIu32 " can have points", d->length,
                        MOST_BYTES);
    if (!jpeg_entropy_start(d, p) || !jpeg_entropy_skip(d, p, &points, (uint32_t)mcus_of(d)))
        return jpeg_not_sound(d, NULL, reterr);
    return PST_OK;
}
