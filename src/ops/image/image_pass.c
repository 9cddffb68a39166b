/* image_pass.c: see image_pass.h. Only the part of the image that contributes is fetched, only the part of the resized image
 * that is seen is computed, and each of its rows is converted while it is in the first-level cache. */
#include "ops/image/image_pass.h"

#include "image/pixels.h"
#include "image/resize.h"
#include "base/cast.h"
#include "ops/image/plane_pass.h"

#include <inttypes.h>
#include <string.h>

#define LARGE ((size_t)256 << 10) /* bytes of a result that a batch of them does not leave in any cache */
#define LINE  ((size_t)64)        /* bytes of a cache line */

static pst_status fail_room(const struct frame *f, pst_error *reterr)
{
    return pst_fail(reterr, PST_ENOMEM, "out of memory for an image of %" PRIu32 " × %" PRIu32, box_width(&f->window),
                    box_height(&f->window));
}

/* ---- Rows of the result ---- */

struct painter {
    const struct image_pass *pass;
    uint32_t width;    /* of the window */
    size_t plane;      /* values per channel, if there are planes */
    size_t row_values; /* from one row to the next */
    uint8_t *padded;   /* a row of the window with pixels in the middle; NULL: there is nothing beside them */
    uint8_t *blank;    /* a row without pixels; NULL: there is none */
    uint8_t *plain;    /* room for a row, where rows are computed */
    uint8_t *worked;   /* room for a row that is worked on; NULL: none is */
    void *scratch;     /* for the conversion */
    float *floats;     /* a converted row that is not float32 yet */
};

static bool is_plain_copy(const struct image_pass *p)
{
    const struct convert *c = &p->convert;
    return !c->scaled && !c->flips && (!c->planar || c->channels == 1) && p->work_count == 0;
}

static uint8_t *zeros(pst_ctx *ctx, size_t size)
{
    uint8_t *p = pst_scratch(ctx, size);
    return p ? memset(p, 0, size) : NULL;
}

/* `computed`: rows are not there already. */
static pst_status painter_init(struct painter *t, const struct image_pass *p, bool computed, pst_error *reterr)
{
    const struct frame *f = p->frame;
    size_t channels = p->convert.channels, row;
    *t = (struct painter){.pass = p, .width = box_width(&f->window)};
    row = t->width * channels;
    t->plane = (size_t)t->width * box_height(&f->window);
    t->row_values = p->convert.planar ? t->width : row;
    bool beside = box_width(&f->inside) < t->width, above = box_height(&f->inside) < box_height(&f->window);
    size_t scratch = convert_scratch_bytes(&p->convert, t->width);
    bool narrow = p->dtype != PST_DTYPE_U8 && p->dtype != PST_DTYPE_F32;
    if ((beside && !(t->padded = zeros(p->ctx, row))) || (above && !(t->blank = zeros(p->ctx, row))) ||
        (computed && !(t->plain = pst_scratch(p->ctx, row))) || (p->work_count && !(t->worked = pst_scratch(p->ctx, row))) ||
        (scratch && !(t->scratch = pst_scratch(p->ctx, scratch))) ||
        (narrow && !(t->floats = pst_scratch(p->ctx, row * sizeof(float)))))
        return fail_room(f, reterr);
    return PST_OK;
}

static void *row_at(const struct painter *t, uint32_t y, size_t value)
{
    return (uint8_t *)t->pass->out + y * t->row_values * value;
}

static void convert(const struct painter *t, const uint8_t *pixels, const uint8_t *const *channels, void *out, size_t plane)
{
    const struct convert *c = &t->pass->convert;
    if (channels)
        convert_planes(c, channels, t->width, out, plane, t->scratch);
    else
        convert_row(c, pixels, t->width, out, plane, t->scratch);
}

/* A whole row of the window, as pixels, or as `channels` of which the result has planes. */
static void paint_row(const struct painter *t, uint32_t y, const uint8_t *pixels, const uint8_t *const *channels)
{
    const struct image_pass *p = t->pass;
    size_t value = pst_dtype_size(p->dtype);
    uint8_t *out = row_at(t, y, value);
    if (t->worked) {
        pixels = memcpy(t->worked, pixels, (size_t)t->width * p->convert.channels);
        for (size_t i = 0; i < p->work_count; i++)
            image_work_row(&p->works[i], t->worked, t->width, p->convert.channels);
    }
    if (!t->floats) {
        convert(t, pixels, channels, out, t->plane);
        return;
    }
    convert(t, pixels, channels, t->floats, t->width);
    for (uint32_t c = 0; c < (p->convert.planar ? p->convert.channels : 1); c++)
        cast_values(out + c * t->plane * value, p->dtype, t->floats + (size_t)c * t->width, PST_DTYPE_F32, t->row_values);
}

/* Where the pixels of a row go, if they are to be copied there: beside the padding, or straight into the result. */
static uint8_t *row_target(const struct painter *t, uint32_t y)
{
    const struct frame *f = t->pass->frame;
    if (t->padded)
        return t->padded + (size_t)(f->inside.left - f->window.left) * t->pass->convert.channels;
    return is_plain_copy(t->pass) ? row_at(t, y, 1) : t->plain;
}

/* ---- Pixels of the frame ---- */

static pst_status fetch_box(struct image_pass *p, int64_t left, int64_t top, uint32_t width, uint32_t height, pst_image *ret,
                            pst_error *reterr)
{
    const struct region part = {.x = (uint32_t)left, .y = (uint32_t)top, .width = width, .height = height};
    return image_source_pixels(p->source, &part, ret, reterr);
}

/* A resize of which only `inside` is computed, reading `pixels`. */
struct scaler {
    struct resize_axis x, y;
    struct resize_walk walk;
};

static bool scaler_init_axis(pst_ctx *ctx, struct resize_axis *a, uint32_t in, uint32_t out, pst_filter filter, uint32_t begin,
                             uint32_t count, bool mirrored)
{
    void *memory = pst_scratch(ctx, resize_axis_part_bytes(in, out, filter, count));
    if (!memory)
        return false;
    resize_axis_init_part(a, in, out, filter, mirrored ? out - begin - count : begin, count, memory);
    if (mirrored)
        resize_axis_mirror(a);
    return true;
}

static pst_status scaler_init(struct scaler *s, struct image_pass *p, pst_error *reterr)
{
    const struct frame *f = p->frame;
    const struct frame_box *in = &f->inside;
    pst_image pixels;
    if (!scaler_init_axis(p->ctx, &s->x, box_width(&f->source), f->width, f->filter, (uint32_t)in->left, box_width(in),
                          f->mirrored) ||
        !scaler_init_axis(p->ctx, &s->y, box_height(&f->source), f->height, f->filter, (uint32_t)in->top, box_height(in),
                          false))
        return fail_room(f, reterr);
    uint32_t left = resize_axis_narrow(&s->x), top = resize_axis_narrow(&s->y);
    pst_status st = fetch_box(p, f->source.left + left, f->source.top + top, s->x.in, s->y.in, &pixels, reterr);
    if (st < 0)
        return st;
    void *scratch = pst_scratch(p->ctx, resize_scratch_bytes(&s->x, &s->y, pixels.channels));
    if (!scratch)
        return fail_room(f, reterr);
    resize_walk_init(&s->walk, &pixels, &s->x, &s->y, scratch);
    return PST_OK;
}

/* Where the rows with pixels come from. */
struct rows {
    enum { ROWS_EMPTY, ROWS_COPIED, ROWS_RESIZED, ROWS_OF_PLANES } kind;
    pst_image pixels; /* of which they are copied */
    struct scaler scaler;
    struct plane_pass planes;
};

static pst_status rows_init(struct rows *r, struct image_pass *p, pst_error *reterr)
{
    const struct frame *f = p->frame;
    bool empty = box_width(&f->inside) == 0 || box_height(&f->inside) == 0;
    pst_status st = p->fast ? plane_pass_init(&r->planes, p->ctx, f, p->source, p->whole, reterr) : PST_EUNSUPPORTED;
    r->kind = empty ? ROWS_EMPTY : st == PST_OK ? ROWS_OF_PLANES : f->resized ? ROWS_RESIZED : ROWS_COPIED;
    if (st != PST_EUNSUPPORTED)
        return st;
    if (empty) /* nothing is seen of the image; that it can be decoded is looked at all the same */
        return fetch_box(p, f->source.left, f->source.top, 1, 1, &r->pixels, reterr);
    if (f->resized)
        return scaler_init(&r->scaler, p, reterr);
    return fetch_box(p, f->inside.left, f->inside.top, box_width(&f->inside), box_height(&f->inside), &r->pixels, reterr);
}

static void paint(const struct painter *t, struct rows *rows)
{
    const struct frame *f = t->pass->frame;
    const struct convert *c = &t->pass->convert;
    size_t n = (size_t)box_width(&f->inside) * c->channels;
    bool apart = rows->kind == ROWS_OF_PLANES && c->planar && !t->padded && !t->worked; /* no need for pixels */
    for (uint32_t y = 0; y < box_height(&f->window); y++) {
        int64_t at = f->window.top + y;
        if (at < f->inside.top || at >= f->inside.bottom) {
            paint_row(t, y, t->blank, NULL);
            continue;
        }
        if (apart) {
            const uint8_t *channels[3];
            plane_pass_channels(&rows->planes, channels);
            paint_row(t, y, NULL, channels);
            continue;
        }
        bool copied = rows->kind == ROWS_COPIED;
        const uint8_t *from = copied ? rows->pixels.pixels + (size_t)(at - f->inside.top) * rows->pixels.stride : NULL;
        uint8_t *to = row_target(t, y);
        if (rows->kind == ROWS_OF_PLANES)
            plane_pass_row(&rows->planes, to);
        else if (rows->kind == ROWS_RESIZED)
            resize_walk_row(&rows->scaler.walk, to);
        else if (t->padded && copied)
            memcpy(to, from, n);
        const uint8_t *row = t->padded ? t->padded : copied ? from : to;
        if (row != row_at(t, y, 1)) /* unless it was computed where it belongs */
            paint_row(t, y, row, NULL);
    }
}

/* Rows of whole cache lines that are not read before the batch is complete: writing them past the caches spares reading them
 * in (224 × 224 × 3 floats: 34 µs instead of 90). */
static bool passes_caches(const struct image_pass *p)
{
    const struct convert *c = &p->convert;
    size_t row = (size_t)box_width(&p->frame->window) * (c->planar ? 1 : c->channels) * sizeof(float);
    size_t total = row * box_height(&p->frame->window) * (c->planar ? c->channels : 1);
    return p->dtype == PST_DTYPE_F32 && total >= LARGE && row % LINE == 0 && (uintptr_t)p->out % LINE == 0;
}

pst_status image_pass_run(struct image_pass *p, pst_error *reterr)
{
    struct painter t;
    struct rows rows = {0};
    p->convert.flips = p->frame->flips;
    p->convert.streams = passes_caches(p);
    pst_status st = rows_init(&rows, p, reterr);
    if (st == PST_OK)
        st = painter_init(&t, p, rows.kind > ROWS_COPIED, reterr);
    if (st < 0)
        return st;
    paint(&t, &rows);
    convert_end(&p->convert);
    return PST_OK;
}
