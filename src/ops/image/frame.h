/* frame.h: geometric operations one after the other, as one: which part of the image, resized how, which part of that, mirrored
 * or not. At most one of them resizes, and what it resizes is not padded. */
#ifndef OPS_IMAGE_FRAME_H
#define OPS_IMAGE_FRAME_H

#include "ops/image/image_op.h"

/* [left, right) × [top, bottom). */
struct frame_box {
    int64_t left, top, right, bottom;
};

struct frame {
    bool resized;
    struct frame_box source; /* of the image: what is resized */
    bool mirrored;           /* …left to right, before it is */
    uint32_t width, height;  /* resized to this */
    pst_filter filter;
    struct frame_box window; /* the result, as a part of the resized image, or of the image; may reach beyond */
    struct frame_box inside; /* the part of the window that has pixels; the rest are zeros. Empty: none has */
    bool flips;              /* the window, left to right */
};

void frame_init(struct frame *f, uint32_t width, uint32_t height);
void frame_add(struct frame *f, const struct geometry *g);

static inline uint32_t box_width(const struct frame_box *b)
{
    return (uint32_t)(b->right - b->left);
}

static inline uint32_t box_height(const struct frame_box *b)
{
    return (uint32_t)(b->bottom - b->top);
}

#endif
