/* entropy.c: places in the entropy-coded data, and the way from one to the next. The decoding itself is that of runs.c. */
#include "codec/jpeg/state.h"

static bool begin_at(const struct jpeg_decoder *d, struct jpeg_place *p, const uint8_t *from, unsigned bit)
{
    p->begin = from;
    return stream_begin(&p->stream, from, d->data + d->length, bit);
}

bool jpeg_entropy_start(const struct jpeg_decoder *d, struct jpeg_place *p)
{
    p->mcu = 0;
    p->restarted = false;
    memset(p->dc, 0, sizeof(p->dc));
    return begin_at(d, p, d->data + d->scan, 0);
}

/* Returns whether the restart marker before an MCU ends just before `behind`. */
static bool is_restart(const struct jpeg_decoder *d, const uint8_t *behind, uint32_t mcu)
{
    return behind[-2] == 0xff && behind[-1] == (0xd0 | (mcu / d->restart - 1) % 8);
}

/* All bits of the segment but the filling of the last byte are taken, and the marker follows. */
static bool pass_restart(const struct jpeg_decoder *d, struct jpeg_place *p)
{
    const uint8_t *marker;
    if (!stream_ready(&p->stream) || !stream_sound(&p->stream) || !p->stream.ended)
        return false;
    marker = p->stream.source;
    if (stream_left(&p->stream) >= 8 || d->data + d->length - marker < 2 || !is_restart(d, marker + 2, p->mcu))
        return false;
    memset(p->dc, 0, sizeof(p->dc));
    return begin_at(d, p, marker + 2, 0);
}

/* Passes the restart marker that is due, if any. */
static bool enter(const struct jpeg_decoder *d, struct jpeg_place *p)
{
    if (!d->restart || p->mcu == 0 || p->mcu % d->restart || p->restarted)
        return true;
    p->restarted = true;
    return pass_restart(d, p);
}

/* How many of `mcus` may be taken before a restart marker must be passed or a point added; does both if due. 0: an error in
 * the data. A point is added when decoding continues past it, not when it arrives there: a part that ends there does not
 * need the data after it. */
static uint32_t next_run(const struct jpeg_decoder *d, struct jpeg_place *p, struct jpeg_points *points, uint32_t mcus)
{
    uint32_t left = mcus < JPEG_GROUP ? mcus : JPEG_GROUP;
    if (!enter(d, p))
        return 0;
    p->restarted = false;
    if (points && points->room) {
        if (p->mcu == points->known * points->step && !jpeg_points_add(d, p, points))
            return 0;
        uint32_t to_point = points->known * points->step - p->mcu;
        left = left < to_point ? left : to_point;
    } else if (points && jpeg_points_stored(points)) { /* they come from a file: a wrong one disagrees with the next */
        uint32_t passed = p->mcu % points->step;
        if (passed == 0 && !jpeg_points_agree(d, p, points))
            return 0;
        left = left < points->step - passed ? left : points->step - passed;
    }
    uint32_t to_restart = d->restart ? d->restart - p->mcu % d->restart : left;
    return left < to_restart ? left : to_restart;
}

bool jpeg_entropy_skip(struct jpeg_decoder *d, struct jpeg_place *p, struct jpeg_points *points, uint32_t mcus)
{
    for (uint32_t c = 0; mcus && c < d->frame.components; c++)
        huffman_ac_make_skips(&d->ac[d->component[c].ac]);
    while (mcus) {
        uint32_t n = next_run(d, p, points, mcus);
        if (!n || !d->kernels->skip_run(d, p, n))
            return false;
        p->mcu += n;
        mcus -= n;
    }
    return stream_sound(&p->stream);
}

bool jpeg_run_begin(const struct jpeg_decoder *d, struct jpeg_run *r, struct jpeg_stage *stage, struct jpeg_points *points,
                    uint32_t mcus)
{
    mcus = next_run(d, &stage->place, points, mcus);
    *r = (struct jpeg_run){.place = &stage->place, .mcus = mcus, .blocks = stage->coefficients, .flat = stage->flat};
    r->end = (uint64_t)mcus * d->blocks;
    memset(r->blocks, 0, r->end * 64 * sizeof(*r->blocks));
    return mcus > 0;
}

/* Differences become values. */
bool jpeg_run_end(const struct jpeg_decoder *d, struct jpeg_run *r)
{
    struct jpeg_place *p = r->place;
    int16_t *block = r->blocks;
    int32_t wrong = 0;
    for (uint64_t i = 0; i < r->end; i++, block += 64) {
        int32_t *dc = &p->dc[d->tables.component[i]];
        *dc += *block;
        wrong |= *dc ^ (int16_t)*dc;
        *block = (int16_t)*dc;
    }
    p->mcu += r->mcus;
    return wrong == 0 && stream_sound(&p->stream);
}

bool jpeg_entropy_agrees(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points)
{
    return enter(d, p) && jpeg_points_agree(d, p, points);
}

bool jpeg_entropy_seek(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points, uint32_t i)
{
    const struct jpeg_point *point = &points->point[i];
    size_t byte = jpeg_point_bit(point) / 8;
    unsigned bit = jpeg_point_bit(point) % 8;
    if (byte < d->scan || byte >= d->length)
        return false;
    const uint8_t *from = d->data + byte;
    p->mcu = i * points->step;
    p->restarted = d->restart && p->mcu % d->restart == 0;
    for (int c = 0; c < 3; c++)
        p->dc[c] = point->dc[c];
    if (p->mcu == 0 || p->restarted) { /* a fresh start */
        bool known = p->mcu == 0 ? byte == d->scan : byte >= d->scan + 2 && is_restart(d, from, p->mcu);
        if (!known || bit || p->dc[0] || p->dc[1] || p->dc[2])
            return false;
    } else if (from[-1] == 0xff) {
        return false; /* stuffing, or a marker */
    }
    return begin_at(d, p, from, bit);
}
