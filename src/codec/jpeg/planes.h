/* planes.h: the MCUs of a part, where their samples are stored, and how coefficients become samples. */
#ifndef CODEC_JPEG_PLANES_H
#define CODEC_JPEG_PLANES_H

#include "codec/jpeg/state.h"

/* A rectangle of MCUs, [first, end) in both directions, and their samples. */
struct jpeg_area {
    uint32_t left, right, top, bottom;
    unsigned scale;
    uint32_t components;        /* number of components that are decoded, from the first */
    uint8_t h[3], v[3];         /* blocks of an MCU */
    uint8_t *pixels[3];         /* in the decoder's memory; the byte before a row and JPEG_ROW_SLACK bytes after it are free */
    struct jpeg_plane plane[3]; /* the same, as returned to the caller */
};

/* `frame` need not be that of the open image. */
pst_status jpeg_area_init(struct jpeg_area *a, struct jpeg_decoder *d, const struct jpeg_frame *frame,
                          const struct region *part, uint32_t margin, unsigned scale, uint32_t components, pst_error *reterr);

/* Neighbouring blocks of one component: groups of `group` consecutive blocks in memory, `step` blocks apart. */
struct jpeg_blocks {
    const int16_t *blocks;
    const uint8_t *flat; /* see struct jpeg_run; NULL: unknown */
    uint32_t count, group, step;
};
/* Transforms blocks to the area's block (x, y) and those to its right. */
void jpeg_area_transform(const struct jpeg_area *a, const struct jpeg_kernels *k, uint32_t component, const int16_t *quant,
                         const struct jpeg_blocks *b, uint32_t x, uint32_t y);

/* Decodes the MCUs of an area of the open image. */
pst_status jpeg_area_decode(const struct jpeg_area *a, struct jpeg_decoder *d, struct jpeg_points *points, pst_error *reterr);

#endif
