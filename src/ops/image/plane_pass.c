/* plane_pass.c: see plane_pass.h.
 *
 * What is resized is the frame's source, measured in samples of each plane: of colours at half the size it may begin and end
 * between them. A frame that resizes nothing is a resize of the whole image to its own size, of which a part is seen:
 * brightness is copied, colours are interpolated.
 *
 * Mirrors are left to the conversion of the rows: a mirrored resize is the mirror of the resize. */
#include "ops/image/plane_pass.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COARSEST 4 /* times that a plane of colours has fewer columns or rows */

/* The smallest transform whose result is still twice what is asked for: less would show (the worst of 1000 photos falls from 41
 * to 35 dB). Filters that leave samples out would see others: they get them all. */
static unsigned scale_of(const struct frame *f)
{
    bool averages = f->filter != PST_FILTER_BILINEAR && f->filter != PST_FILTER_NEAREST;
    for (unsigned scale = 1; f->resized && averages && scale < 8; scale *= 2)
        if ((uint64_t)box_width(&f->source) * scale >= (uint64_t)f->width * 16 &&
            (uint64_t)box_height(&f->source) * scale >= (uint64_t)f->height * 16)
            return scale;
    return 8;
}

/* Computes a range of the source that holds every sample read by outputs `from` up to `to` of `out`, and some more. A filter
 * reaches one sample to each side, a cubic two, more where they shrink; at an edge all of it lies on one side. */
static void reach(int64_t low, int64_t high, uint32_t out, int64_t from, int64_t to, pst_filter filter, unsigned scale,
                  uint32_t *begin, uint32_t *length)
{
    double step = (double)(high - low) / out, sample = 8.0 * COARSEST / scale;
    double around = (filter == PST_FILTER_BICUBIC ? 4 : 2) * fmax(step, sample) + sample;
    double left = fmax((double)low, floor((double)low + (double)from * step - around));
    double right = fmin((double)high, ceil((double)low + (double)to * step + around));
    *begin = (uint32_t)left;
    *length = (uint32_t)(right - left);
}

static struct region part_of(const struct frame *f, const struct region_info *info, unsigned scale, bool whole)
{
    struct region part = {.width = info->width, .height = info->height};
    const struct frame_box *in = &f->inside;
    if (whole)
        return part;
    if (box_width(in) == 0 || box_height(in) == 0) /* nothing is seen; whether it can be decoded is looked at all the same */
        return (struct region){.width = 1, .height = 1};
    reach(f->source.left, f->source.right, f->width, in->left, in->right, f->filter, scale, &part.x, &part.width);
    reach(f->source.top, f->source.bottom, f->height, in->top, in->bottom, f->filter, scale, &part.y, &part.height);
    return part;
}

/* ---- Axes ---- */

/* A plane that has to be enlarged, and is `coarser` than others, is interpolated whatever the filter. */
static pst_filter filter_of(const struct frame *f, const struct plane_span *span, uint32_t out, unsigned coarser)
{
    bool interpolates = f->filter != PST_FILTER_NEAREST && f->filter != PST_FILTER_AREA;
    return coarser > 1 && !interpolates && span->high - span->low < out ? PST_FILTER_TRIANGLE : f->filter;
}

static bool make_axis(pst_ctx *ctx, struct plane_axis *a, const struct plane_span *span, uint32_t out, pst_filter filter,
                      int64_t begin, uint32_t count, bool along_rows)
{
    void *memory = pst_scratch(ctx, plane_axis_bytes(span, out, filter, count));
    if (memory)
        plane_axis_init(a, span, out, filter, (uint32_t)begin, count, along_rows, memory);
    return memory != NULL;
}

static bool make_axes(pst_ctx *ctx, struct plane_pass *p, const struct frame *f, const struct image_planes *planes, unsigned c)
{
    const struct frame_box *from = &f->source, *seen = &f->inside;
    unsigned h = c ? planes->h : 1, v = c ? planes->v : 1;
    double across = planes->scale / (8.0 * h), down = planes->scale / (8.0 * v);
    const struct plane_span x = {(double)from->left * across, (double)from->right * across, planes->plane[c].full_width};
    const struct plane_span y = {(double)from->top * down, (double)from->bottom * down, planes->plane[c].full_height};
    return make_axis(ctx, &p->x[c], &x, f->width, filter_of(f, &x, f->width, h), seen->left, box_width(seen), true) &&
           make_axis(ctx, &p->y[c], &y, f->height, filter_of(f, &y, f->height, v), seen->top, box_height(seen), false);
}

static bool make_walk(pst_ctx *ctx, struct plane_pass *p, const struct jpeg_plane *plane, unsigned c, bool same)
{
    const struct plane_axis *x = &p->x[c > 0 && !same], *y = &p->y[c > 0 && !same];
    assert(x->begin >= plane->x && x->begin + x->in <= plane->x + plane->width);
    assert(y->begin >= plane->y && y->begin + y->in <= plane->y + plane->height);
    void *scratch = pst_scratch(ctx, plane_scratch_bytes(x, y));
    p->row[c] = pst_scratch(ctx, (size_t)p->width + PLANE_PADDING);
    if (!scratch || !p->row[c])
        return false;
    plane_walk_init(&p->walk[c], plane->pixels + (y->begin - plane->y) * plane->stride + (x->begin - plane->x), plane->stride,
                    x, y, scratch);
    return true;
}

/* ---- Rows ---- */

pst_status plane_pass_init(struct plane_pass *p, pst_ctx *ctx, const struct frame *f, struct image_source *s, bool whole,
                           pst_error *reterr)
{
    unsigned scale = scale_of(f);
    struct region part = part_of(f, &s->info, scale, whole);
    struct image_planes planes = {0};
    pst_status st = image_source_planes(s, &part, scale, !whole, &planes, reterr);
    if (st < 0)
        return st;
    *p = (struct plane_pass){.coloured = s->info.channels == 3, .width = box_width(&f->inside)};
    p->count = p->coloured ? planes.count : 1;
    if (p->width == 0 || box_height(&f->inside) == 0)
        return PST_OK;
    bool same = planes.h == 1 && planes.v == 1; /* one grid for all */
    bool made = make_axes(ctx, p, f, &planes, 0) && (same || p->count == 1 || make_axes(ctx, p, f, &planes, 1));
    for (unsigned c = 0; c < p->count && made; c++)
        made = make_walk(ctx, p, &planes.plane[c], c, same);
    return made ? PST_OK
                : pst_fail(reterr, PST_ENOMEM, "out of memory for an image of %" PRIu32 " × %" PRIu32, box_width(&f->window),
                           box_height(&f->window));
}

/* Gray images in colour have the same three times. */
void plane_pass_channels(struct plane_pass *p, const uint8_t *ret[3])
{
    for (unsigned c = 0; c < p->count; c++)
        plane_walk_row(&p->walk[c], p->row[c]);
    if (p->count == 3)
        plane_colour(p->row[0], p->row[1], p->row[2], p->width);
    for (unsigned c = 0; c < 3; c++)
        ret[c] = p->row[p->count == 3 ? c : 0];
}

void plane_pass_row(struct plane_pass *p, uint8_t *to)
{
    const uint8_t *channels[3];
    plane_pass_channels(p, channels);
    if (p->coloured)
        plane_merge(channels[0], channels[1], channels[2], to, p->width);
    else
        memcpy(to, channels[0], p->width);
}
