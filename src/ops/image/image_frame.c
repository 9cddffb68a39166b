/* image_frame.c: see image_frame.h. Coordinates are those of the image that was never mirrored: a cut of a mirrored image counts from
 * the other side, and mirroring itself is put off to the end. */
#include "ops/image/image_frame.h"

#include <assert.h>

void frame_init(struct frame *f, uint32_t width, uint32_t height)
{
    const struct frame_box all = {.right = width, .bottom = height};
    *f = (struct frame){.source = all, .width = width, .height = height, .window = all, .inside = all};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void cut(struct frame *f, const struct geometry *g)
{
    int64_t x = f->flips ? (int64_t)box_width(&f->window) - g->x - g->cut_width : g->x;
    f->window.left += x;
    f->window.top += g->y;
    f->window.right = f->window.left + g->cut_width;
    f->window.bottom = f->window.top + g->cut_height;
    f->inside.left = larger(f->inside.left, f->window.left);
    f->inside.top = larger(f->inside.top, f->window.top);
    f->inside.right = larger(f->inside.left, smaller(f->inside.right, f->window.right));
    f->inside.bottom = larger(f->inside.top, smaller(f->inside.bottom, f->window.bottom));
}

/* A mirrored image resized is the mirror of the image resized by the mirrored filter: what is rounded up on the left when
 * looking from there is rounded up on the right. */
static void resize(struct frame *f, const struct geometry *g)
{
    assert(!f->resized);
    assert(f->inside.left == f->window.left && f->inside.right == f->window.right);
    assert(f->inside.top == f->window.top && f->inside.bottom == f->window.bottom);
    f->resized = true;
    f->source = f->window;
    f->mirrored = f->flips;
    f->width = g->width;
    f->height = g->height;
    f->filter = g->filter;
    f->window = f->inside = (struct frame_box){.right = g->width, .bottom = g->height};
}

void frame_add(struct frame *f, const struct geometry *g)
{
    cut(f, g);
    if (geometry_resizes(g))
        resize(f, g);
    if (g->full_width)
        cut(f, &(struct geometry){
                   .x = -(int64_t)g->left, .y = -(int64_t)g->top, .cut_width = g->full_width, .cut_height = g->full_height});
    f->flips ^= g->flips;
}
