/* planes.h: which MCUs a part takes, where their samples lie, and the way there from coefficients. */
#ifndef CODEC_JPEG_PLANES_H
#define CODEC_JPEG_PLANES_H

#include "codec/jpeg/state.h"

/* MCUs, from the first to the one behind the last, in both directions, and their samples. */
struct jpeg_area {
    uint32_t left, right, top, bottom;
    unsigned scale;
    uint32_t components;        /* the first of the frame's that are wanted */
    uint8_t h[3], v[3];         /* blocks of an MCU */
    uint8_t *pixels[3];         /* in the decoder's memory; the byte before and JPEG_ROW_SLACK behind a row are free */
    struct jpeg_plane plane[3]; /* the same, as they are handed out */
};

/* `frame` may be one that the decoder has not open. */
pst_status jpeg_area_init(struct jpeg_area *a, struct jpeg_decoder *d, const struct jpeg_frame *frame,
                          const struct region *part, uint32_t margin, unsigned scale, uint32_t components, pst_error *reterr);

/* Blocks of one component that lie side by side: `group` of them follow each other in memory, then `step` blocks on the next.
 */
struct jpeg_blocks {
    const int16_t *blocks;
    const uint8_t *flat; /* as in struct jpeg_run; NULL: not known */
    uint32_t count, group, step;
};
/* To the area's block (x, y) and on to the right. */
void jpeg_area_transform(const struct jpeg_area *a, const struct jpeg_kernels *k, uint32_t component, const int16_t *quant,
                         const struct jpeg_blocks *b, uint32_t x, uint32_t y);

/* Decodes the MCUs of an area of the open image. */
pst_status jpeg_area_decode(const struct jpeg_area *a, struct jpeg_decoder *d, struct jpeg_points *points, pst_error *reterr);

#endif
