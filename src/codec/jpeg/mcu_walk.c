/* mcu_walk.c: the way through the entropy-coded data of a part.
 *
 * Of each row of MCUs that the part touches, those that it needs are read and transformed, those before them are skipped. Where
 * points lead there are two ways at once, on one core: reading waits for its tables most of the time, and two places that know
 * nothing of each other wait together. Each takes a band of rows after the other, and begins a row at the point before it; the
 * few MCUs from there on are read as well, which costs no more than passing them over alone.
 *
 * Rows that reach beyond the points that are known are one way, from the last of these on, and the only one that adds to them.
 * It is the longest, so it begins first; without any points it is all there is. */
#include "codec/jpeg/planes.h"

#define BAND 4 /* rows, so that what is read in vain before a band does not count; fewer where there are few */

struct walk {
    const struct jpeg_area *area;
    struct jpeg_decoder *decoder;
    struct jpeg_points *points;
    uint32_t tail;       /* the first row that reaches beyond what is known */
    uint32_t next, band; /* the next row before the tail that is not taken yet; rows to take at once */
    bool two;
};

struct walker {
    struct jpeg_stage *stage;
    struct jpeg_run run;
    uint32_t y, end; /* current row, and the end of the rows */
    uint32_t from;   /* the MCU where it began: before a point, or the first */
    bool active, placed;
};

static uint32_t row_begin(const struct walk *w, uint32_t y)
{
    return y * w->decoder->frame.mcus_x + w->area->left;
}

static uint32_t row_end(const struct walk *w, uint32_t y)
{
    return y * w->decoder->frame.mcus_x + w->area->right;
}

/* Stored points are not trusted, and the next point is what a wrong one disagrees with. A walker that leaves before it got there
 * reads on that far: at most a step, and only in rows that pass no point. */
static bool confirm(const struct walk *w, struct walker *me)
{
    const uint32_t next = me->from + w->points->step;
    struct jpeg_place *p = &me->stage->place;
    if (!jpeg_points_stored(w->points) || me->from == 0 || p->mcu > next)
        return true;
    while (p->mcu < next)
        if (!jpeg_run_begin(w->decoder, &me->run, me->stage, w->points, next - p->mcu) ||
            !w->decoder->kernels->read_one(w->decoder, &me->run) || !jpeg_run_end(w->decoder, &me->run))
            return false;
    return jpeg_entropy_agrees(w->decoder, p, w->points);
}

/* The point to begin at for an MCU. None follows the last one to compare it with, so the one before leads there. */
static uint32_t point_before(const struct jpeg_points *points, uint32_t mcu)
{
    const uint32_t last = points->known - 1, i = mcu / points->step < last ? mcu / points->step : last;
    return i == last && i > 0 && jpeg_points_stored(points) ? i - 1 : i;
}

/* To row `y`, which does not lie before the place, or to a point a little before it. */
static bool go_to_row(const struct walk *w, struct walker *me)
{
    const struct jpeg_points *points = w->points;
    struct jpeg_place *p = &me->stage->place;
    const uint32_t target = row_begin(w, me->y), step = points->step;
    bool placed = me->placed;
    me->placed = true;
    if (points->known) {
        const uint32_t i = point_before(points, target);
        if (!placed || i * step > p->mcu) {
            if ((placed && !confirm(w, me)) || !jpeg_entropy_seek(w->decoder, p, points, i))
                return false;
            me->from = i * step;
        }
    } else if (!placed && !jpeg_entropy_start(w->decoder, p)) {
        return false;
    }
    if (w->two && target - p->mcu < 2 * step)
        return true;
    return jpeg_entropy_skip(w->decoder, p, w->points, target - p->mcu);
}

/* MCUs before the row make runs of their own. */
static bool begin_run(const struct walk *w, struct walker *me)
{
    const uint32_t at = me->stage->place.mcu, target = row_begin(w, me->y);
    return jpeg_run_begin(w->decoder, &me->run, me->stage, w->points, at < target ? target - at : row_end(w, me->y) - at);
}

/* Rows from `y` up to `end`, if there are any. */
static bool begin_rows(const struct walk *w, struct walker *me, uint32_t y, uint32_t end)
{
    me->y = y;
    me->end = end;
    me->active = y < end;
    me->placed = false;
    return !me->active || (go_to_row(w, me) && begin_run(w, me));
}

static bool begin_band(struct walk *w, struct walker *me)
{
    const uint32_t y = w->next, left = w->tail - y;
    w->next += left < w->band ? left : w->band;
    return begin_rows(w, me, y, w->next);
}

static void transform_run(const struct walk *w, const struct walker *me)
{
    const struct jpeg_area *a = w->area;
    const struct jpeg_decoder *d = w->decoder;
    const uint32_t x = me->stage->place.mcu - me->run.mcus - row_begin(w, me->y), y = me->y - a->top;
    uint32_t block = 0;
    for (uint32_t c = 0; c < a->components; c++)
        for (uint32_t row = 0; row < a->v[c]; row++, block += a->h[c]) {
            struct jpeg_blocks b = {.blocks = me->run.blocks + (size_t)block * 64, .flat = me->run.flat + block};
            b.count = me->run.mcus * a->h[c];
            b.group = a->h[c];
            b.step = d->blocks;
            jpeg_area_transform(a, d->kernels, c, d->quant[d->component[c].quant], &b, x * a->h[c], y * a->v[c] + row);
        }
}

/* A run is read: on to the next. */
static bool go_on(struct walk *w, struct walker *me)
{
    if (!jpeg_run_end(w->decoder, &me->run))
        return false;
    if (me->stage->place.mcu > row_begin(w, me->y))
        transform_run(w, me);
    if (me->stage->place.mcu == row_end(w, me->y)) {
        me->y++;
        if (me->y == me->end)
            return confirm(w, me) && begin_band(w, me);
        if (!go_to_row(w, me))
            return false;
    }
    return begin_run(w, me);
}

static bool walk(struct walk *w, struct walker me[2])
{
    const struct jpeg_decoder *d = w->decoder;
    if (!begin_rows(w, &me[0], w->tail, w->area->bottom) || (!me[0].active && !begin_band(w, &me[0])) || !begin_band(w, &me[1]))
        return false;
    while (me[0].active && me[1].active) {
        if (!d->kernels->read_two(d, &me[0].run, &me[1].run))
            return false;
        for (int i = 0; i < 2; i++)
            if (me[i].run.i == me[i].run.end && !go_on(w, &me[i]))
                return false;
    }
    for (int i = 0; i < 2; i++)
        while (me[i].active)
            if (!d->kernels->read_one(d, &me[i].run) || !go_on(w, &me[i]))
                return false;
    return true;
}

/* Returns the first row of the area with an MCU after the last one that points reach. */
static uint32_t find_tail(const struct jpeg_area *a, const struct jpeg_decoder *d, const struct jpeg_points *points)
{
    const uint32_t covered = points->known * points->step;
    const uint32_t row = covered < a->right ? 0 : (covered - a->right) / d->frame.mcus_x + 1;
    return row < a->top ? a->top : row < a->bottom ? row : a->bottom;
}

static bool fits(const struct jpeg_decoder *d, const struct jpeg_points *points)
{
    const uint64_t mcus = (uint64_t)d->frame.mcus_x * d->frame.mcus_y;
    return points->step && points->count == (mcus + points->step - 1) / points->step && points->known <= points->count;
}

pst_status jpeg_area_decode(const struct jpeg_area *a, struct jpeg_decoder *d, struct jpeg_points *points, pst_error *reterr)
{
    struct jpeg_points none = {0};
    struct walker walkers[2] = {{.stage = &d->stage[0]}, {.stage = &d->stage[1]}};
    if (points && points->count && !fits(d, points))
        return jpeg_not_sound(d, points, reterr);
    if (!points || points->count < JPEG_FEWEST_POINTS)
        points = &none;
    struct walk w = {.area = a, .decoder = d, .points = points, .tail = find_tail(a, d, points), .next = a->top};
    const uint32_t rows = w.tail - a->top;
    w.two = rows > 0 && a->bottom - a->top > 1;
    w.band = rows >= 4 * BAND ? BAND : (rows + 3) / 4;
    return walk(&w, walkers) ? PST_OK : jpeg_not_sound(d, points, reterr);
}
