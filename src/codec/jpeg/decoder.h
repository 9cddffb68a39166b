/* decoder.h: decodes the requested part of a baseline JPEG. Not thread-safe: every worker has its own decoder.
 *
 * Valid baseline images are decoded here. Other images that libjpeg-turbo reads (progressive, arithmetic, 12 bits, CMYK,
 * rare samplings) and damaged ones are left to it: PST_EUNSUPPORTED reports this, at the header or at the first error in the
 * data. Errors after the last row of a part are never reached and do not affect the part, so a part is the same either way.
 * The same holds for points: known points cover data that were read without error; data after them are read, and their
 * errors found, by the call that needs them. */
#ifndef CODEC_JPEG_DECODER_H
#define CODEC_JPEG_DECODER_H

#include "codec/jpeg/points.h"
#include "codec/region.h"

struct jpeg_decoder; /* keeps the memory of tables, coefficients and planes */

struct jpeg_decoder *jpeg_decoder_create(void); /* NULL: out of memory */
void jpeg_decoder_free(struct jpeg_decoder *d); /* NULL ok */

/* The frame as described in the header. */
struct jpeg_frame {
    uint32_t width, height;
    uint32_t components; /* 1 gray, 3 YCbCr or RGB */
    bool rgb;            /* the components are red, green and blue, not YCbCr */
    uint8_t h, v;        /* sampling factors of the first component; those of the others are 1 */
    uint32_t mcus_x, mcus_y;
};

/* Reads the header. The data are borrowed until the next open. PST_EUNSUPPORTED: use libjpeg-turbo. */
pst_status jpeg_decoder_open(struct jpeg_decoder *d, const void *data, size_t length, struct jpeg_frame *ret,
                             pst_error *reterr);

/* Samples of a component: `pixels` is sample (x, y) of the component's own grid, which has ceil(width × scale / 8) columns
 * where it is not subsampled. */
struct jpeg_plane {
    const uint8_t *pixels;
    size_t stride;
    uint32_t x, y, width, height;     /* decoded area: at least the requested one, never beyond the component's grid */
    uint32_t full_width, full_height; /* of the component's grid at this scale */
};

/* The samples that `part` (in pixels of the full image) covers in each component, and `margin` more luma pixels on each side
 * where the image has them, for filters. `scale` is 8, 4, 2 or 1 eighths in both directions. `points` may be NULL and does
 * not affect the output. If it has room, points that are passed are added to it, even if there is an error after them. An
 * error in data that were valid to the end when the points were found gives PST_ESTALE; no read is ever outside the data.
 * The decoder owns the planes; they are valid until the next call. */
pst_status jpeg_decode_planes(struct jpeg_decoder *d, const struct region *part, uint32_t margin, unsigned scale,
                              struct jpeg_points *points, struct jpeg_plane ret[3], pst_error *reterr);
/* The same from libjpeg-turbo's coefficients: for images that jpeg_decoder_open or jpeg_decode_planes refused, if they have
 * one or three components of 8 bits. Damage has the same effect as in libjpeg-turbo. The result is the same where both
 * support the image. */
pst_status jpeg_decode_planes_turbo(struct jpeg_decoder *d, const void *data, size_t length, const struct region *part,
                                    uint32_t margin, unsigned scale, uint32_t max_scans, struct jpeg_frame *ret_frame,
                                    struct jpeg_plane ret[3], pst_error *reterr);

/* The pixels of `part`, 1 (luma), 3 or 4 channels (RGB, RGBA): bit-identical to libjpeg-turbo with its accurate integer
 * transform and smooth upsampling. The decoder owns them; they are valid until the next call. */
pst_status jpeg_decode_pixels(struct jpeg_decoder *d, const struct region *part, uint32_t channels, struct jpeg_points *points,
                              pst_image *ret, pst_error *reterr);

/* The pixels of the last jpeg_decode_pixels belong to the caller from now on; release them with mem_free. */
void jpeg_decoder_give_pixels(struct jpeg_decoder *d);

/* Returns how many points the open image has at JPEG_POINT_STEP; 0: it is too long for points. */
size_t jpeg_points_count(const struct jpeg_decoder *d);
/* Finds the points in one pass over the entropy-coded data of the open image. PST_EUNSUPPORTED: the data are invalid, so
 * there are none. */
pst_status jpeg_points_find(struct jpeg_decoder *d, struct jpeg_point *ret, pst_error *reterr);

#endif
