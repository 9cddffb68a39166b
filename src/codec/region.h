/* region.h: decodes parts of images, one image after the other, with a decoder that keeps its memory. Not thread-safe: every
 * worker has its own decoder.
 *
 * A part has exactly the pixels of the whole image, and is decoded with as little work as its format allows. Images decoded
 * before do not affect the output. */
#ifndef CODEC_REGION_H
#define CODEC_REGION_H

#include <penstock/image.h>

struct jpeg_decoder;
struct jpeg_frame;
struct jpeg_input;
struct jpeg_plane;
struct jpeg_points;

struct region {
    uint32_t x, y, width, height;
};

/* A block of memory that grows on request. Empty when zeroed. */
struct region_memory {
    uint8_t *data;
    size_t size;
};
bool region_memory_need(struct region_memory *m, size_t size); /* its old content is lost; false: out of memory */

struct region_options {
    pst_decode_options decode; /* `strict` only requires complete files; other warnings are ignored, because a part would not
                                  see all of them */
    bool upright;              /* turned upright as the EXIF data requires */
    bool fast_transform;       /* JPEGs with libjpeg-turbo's fast transform: TensorFlow's pixels */
};

/* Contents of a header. */
struct region_info {
    pst_image_info stored;
    unsigned orientation;             /* 1…8; 1 unless images are turned upright */
    uint32_t width, height, channels; /* of the decoded pixels */
};

struct region_decoder {
    struct region_options options; /* complete */
    struct region_memory memory, turned;
    pst_image whole; /* the last image, for formats that are only decoded as a whole */

    const uint8_t *data; /* of the open image */
    size_t length;
    struct region_info info;
    struct jpeg_input *jpeg; /* created for the first JPEG */
};

pst_status region_decoder_init(struct region_decoder *d, const struct region_options *options, pst_error *reterr);
void region_decoder_finish(struct region_decoder *d); /* zeroed ok */

/* Reads only the header (and, if strict, checks the end). */
pst_status region_probe(const struct region_decoder *d, const void *data, size_t length, struct region_info *ret,
                        pst_error *reterr);
/* Opens the image that `info`, from region_probe, describes. The data are borrowed until the next call. */
pst_status region_open(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                       pst_error *reterr);
/* Returns our own JPEG decoder if it has the image open as it is stored, for the points of the image; otherwise NULL. */
const struct jpeg_decoder *region_jpeg(const struct region_decoder *d);
/* Decodes `part`, which lies within the open image. The decoder owns the pixels; they are valid until the next call. The rows
 * of a whole image have no gaps. `points` may be NULL, and must be if region_jpeg returns NULL; PST_ESTALE: they contradict
 * the data. */
pst_status region_pixels(struct region_decoder *d, const struct region *part, struct jpeg_points *points, pst_image *ret,
                         pst_error *reterr);
/* Decodes `part` of a JPEG to up to 3 planes, in `scale` eighths of the stored size; see jpeg_decode_planes. PST_EUNSUPPORTED:
 * only pixels are available. */
pst_status region_planes(struct region_decoder *d, const struct region *part, unsigned scale, struct jpeg_points *points,
                         struct jpeg_frame *ret_frame, struct jpeg_plane *ret, pst_error *reterr);

/* region_open and region_pixels in one call. */
pst_status region_decode(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                         const struct region *part, pst_image *ret, pst_error *reterr);

#endif
