/* decoder.h: baseline JPEG, no more of it than is asked for. Not thread-safe: every worker has its own.
 *
 * Sound baseline images are decoded here. Whatever else libjpeg-turbo reads (progressive, arithmetic, 12 bits, CMYK, rare
 * samplings) and whatever is damaged is left to it: PST_EUNSUPPORTED says so, at the header or at the first trouble in the
 * data. As trouble behind the last row of a part is never met, and does not show in the part, a part is the same either way.
 * The same goes for points: those that are known cover data that were read without trouble, and what lies behind them is read,
 * and its trouble met, by whoever needs it. */
#ifndef CODEC_JPEG_DECODER_H
#define CODEC_JPEG_DECODER_H

#include "codec/jpeg/points.h"
#include "codec/region.h"

struct jpeg_decoder; /* keeps tables, coefficients and planes for their memory */

struct jpeg_decoder *jpeg_decoder_create(void); /* NULL: out of memory */
void jpeg_decoder_free(struct jpeg_decoder *d); /* NULL ok */

/* What a header says of the frame. */
struct jpeg_frame {
    uint32_t width, height;
    uint32_t components; /* 1 gray, 3 YCbCr or RGB */
    bool rgb;            /* the components are red, green and blue, not YCbCr */
    uint8_t h, v;        /* sampling factors of the first component; those of the others are 1 */
    uint32_t mcus_x, mcus_y;
};

/* Reads the header. The data are borrowed until the next open. PST_EUNSUPPORTED: left to libjpeg-turbo. */
pst_status jpeg_decoder_open(struct jpeg_decoder *d, const void *data, size_t length, struct jpeg_frame *ret,
                             pst_error *reterr);

/* Samples of a component: `pixels` is sample (x, y) of the component's own grid, which has ceil(width × scale / 8) columns
 * where it is not subsampled. */
struct jpeg_plane {
    const uint8_t *pixels;
    size_t stride;
    uint32_t x, y, width, height;     /* what is there: at least what was asked for, never beyond the component's grid */
    uint32_t full_width, full_height; /* of the component's grid at this scale */
};

/* The samples that `part` (in pixels of the full image) covers in each component, and `margin` more luma pixels on each side
 * where the image has them, for who filters. `scale` is 8, 4, 2 or 1 eighths in both directions. `points` may be NULL, and
 * never shows. Where it has room, points that are passed are added to it, also if there is trouble behind them. Trouble in data
 * that were sound to the end when the points were found gives PST_ESTALE; there is never a read outside of the data. The planes
 * are the decoder's until the next call. */
pst_status jpeg_decode_planes(struct jpeg_decoder *d, const struct region *part, uint32_t margin, unsigned scale,
                              struct jpeg_points *points, struct jpeg_plane ret[3], pst_error *reterr);
/* The same from libjpeg-turbo's coefficients: for what jpeg_decoder_open or jpeg_decode_planes refused, if it has one or three
 * components of 8 bits. Damage shows as it does there. Same result where both can. */
pst_status jpeg_decode_planes_turbo(struct jpeg_decoder *d, const void *data, size_t length, const struct region *part,
                                    uint32_t margin, unsigned scale, uint32_t max_scans, struct jpeg_frame *ret_frame,
                                    struct jpeg_plane ret[3], pst_error *reterr);

/* The pixels of `part`, 1 (luma), 3 or 4 channels (RGB, RGBA): libjpeg-turbo's, with its accurate integer transform and smooth
 * upsampling, bit for bit. They are the decoder's until the next call. */
pst_status jpeg_decode_pixels(struct jpeg_decoder *d, const struct region *part, uint32_t channels, struct jpeg_points *points,
                              pst_image *ret, pst_error *reterr);

/* All of an image, by a decoder that is made for it: pst_image_finish the pixels. PST_EUNSUPPORTED as above. */
pst_status jpeg_decode_image(const void *data, size_t length, uint32_t channels, pst_image *ret, pst_error *reterr);

/* How many points the open image has at JPEG_POINT_STEP; 0: it is too long for any. */
size_t jpeg_points_count(const struct jpeg_decoder *d);
/* One pass over the entropy-coded data of the open image, to its end. PST_EUNSUPPORTED: it is not sound, and has none. */
pst_status jpeg_points_find(struct jpeg_decoder *d, struct jpeg_point *ret, pst_error *reterr);

#endif
