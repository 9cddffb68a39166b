/* plane_pass.h: the rows of a frame from the planes of an image: every plane resized from its own grid, colours converted at
 * the size of the result. */
#ifndef OPS_IMAGE_PLANE_PASS_H
#define OPS_IMAGE_PLANE_PASS_H

#include "image/plane.h"
#include "ops/image/image_frame.h"
#include "ops/image/image_source.h"

struct plane_pass {
    bool coloured;                /* the result has three channels */
    unsigned count;               /* of planes that are looked at */
    uint32_t width;               /* of a row */
    struct plane_axis x[2], y[2]; /* of brightness, of colours */
    struct plane_walk walk[3];
    uint8_t *row[3];
};

/* Fetches the planes for the part of the frame that has pixels, or `whole` ones, which gives the same rows.
 * PST_EUNSUPPORTED: the source has no planes. */
pst_status plane_pass_init(struct plane_pass *p, pst_ctx *ctx, const struct frame *f, struct image_source *s, bool whole,
                           pst_error *reterr);
/* The next one, as pixels, */
void plane_pass_row(struct plane_pass *p, uint8_t *to);
/* or channel by channel; it stays until the next. */
void plane_pass_channels(struct plane_pass *p, const uint8_t *ret[3]);

#endif
