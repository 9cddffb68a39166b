/* image_frame.h: a sequence of geometric operations combined into one: a part of the image, its resized size, a part of that,
 * flipped or not. At most one operation resizes, and its input is not padded. */
#ifndef OPS_IMAGE_IMAGE_FRAME_H
#define OPS_IMAGE_IMAGE_FRAME_H

#include "ops/image/image_op.h"

/* [left, right) × [top, bottom). */
struct frame_box {
    int64_t left, top, right, bottom;
};

struct frame {
    bool resized;
    struct frame_box source; /* the part of the image that is resized */
    bool mirrored;           /* …flipped left to right before the resize */
    uint32_t width, height;  /* resized to this */
    pst_filter filter;
    struct frame_box window; /* the result, as a part of the resized image, or of the image; may extend beyond it */
    struct frame_box inside; /* the part of the window that has pixels; the rest is zeros. Empty: no pixels */
    bool flips;              /* the window is flipped left to right */
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
