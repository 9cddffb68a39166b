/* plane.h: resizes planes of 8-bit samples row by row, and converts brightness and colour differences to red, green and
 * blue. Pure: the caller brings the memory.
 *
 * A plane may be coarser than the image it belongs to, so that what is resized begins and ends between its samples. The
 * filters are those of resize.h, with weights of 7 bits instead of 22, and columns before rows: a level off here and there,
 * and several times faster. Samples outside of the span take no part, those at its edges do with their whole weight. The
 * result does not depend on the SIMD level, and a part of it is that part of the whole result. */
#ifndef IMAGE_PLANE_H
#define IMAGE_PLANE_H

#include <penstock/image.h>

#define PLANE_PADDING 64u /* bytes after the rows written here that kernels may read and write */

/* [low, high) of an axis with `size` samples; sample k covers [k, k + 1). */
struct plane_span {
    double low, high;
    uint32_t size;
};

/* The weights of one axis. An output is (the weighted sum of `taps` samples × factor + 2^14) / 2^15. */
struct plane_axis {
    uint32_t begin, in; /* the samples that are read: `in` of them, from `begin` on */
    uint32_t out, taps;
    uint32_t factor;
    bool copies;      /* outputs equal the inputs */
    uint32_t *first;  /* never decreases; counted from `begin` */
    int16_t *weights; /* out × taps; of 8 bits where there are at most PLANE_NARROW taps */

    /* For SIMD, where taps are few: outputs, `slots` each, in lanes of 16 samples; 0: there are none. */
    uint32_t slots;
    uint32_t *lanes; /* where each lane begins */
    uint8_t *picks;  /* samples of the lane, for each slot */
    int8_t *factors; /* their weights */
};
#define PLANE_NARROW 16u

/* Outputs `begin` up to `begin` + `count` of the `out` that the span is resized to, along rows or down columns. `memory` is
 * aligned for floats. */
size_t plane_axis_bytes(const struct plane_span *span, uint32_t out, pst_filter filter, uint32_t count);
void plane_axis_init(struct plane_axis *a, const struct plane_span *span, uint32_t out, pst_filter filter, uint32_t begin,
                     uint32_t count, bool along_rows, void *memory);

/* One row after the other. */
struct plane_kernels;
struct plane_walk {
    const struct plane_kernels *kernels;
    const struct plane_axis *x, *y;
    const uint8_t *pixels; /* the first sample that is read */
    size_t stride;
    const uint8_t **rows; /* of a window */
    uint8_t *line;
    uint32_t next; /* output row */
};
size_t plane_scratch_bytes(const struct plane_axis *x, const struct plane_axis *y);
/* `pixels` is sample (x->begin, y->begin). `scratch` is aligned for pointers. */
void plane_walk_init(struct plane_walk *w, const uint8_t *pixels, size_t stride, const struct plane_axis *x,
                     const struct plane_axis *y, void *scratch);
void plane_walk_row(struct plane_walk *w, uint8_t *to); /* x->out samples, followed by padding */

/* Rows of Y, Cb and Cr as defined by JFIF to red, green and blue, in place: libjpeg's values. The rows have padding. */
void plane_colour(uint8_t *y_red, uint8_t *cb_green, uint8_t *cr_blue, uint32_t width);
/* Interleaves three rows with padding to pixels; writes 3 × width bytes. */
void plane_merge(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *out, uint32_t width);

#endif
