/* region.h: parts of images, one image after the other, by a decoder whose owner keeps it for its memory. Not thread-safe:
 * every worker has its own.
 *
 * A part has exactly the pixels that the whole image has there, and is decoded with no more work than its format allows. What
 * was decoded before never shows. */
#ifndef CODEC_REGION_H
#define CODEC_REGION_H

#include <penstock/image.h>

struct jpeg_decoder;

struct region {
    uint32_t x, y, width, height;
};

/* A block of memory that grows with what is asked of it. Zeroed is empty. */
struct region_memory {
    uint8_t *data;
    size_t size;
};
bool region_memory_need(struct region_memory *m, size_t size); /* what it held is gone; false: out of memory */

struct region_options {
    pst_decode_options decode; /* `strict` says only that files must be whole; other warnings never count, as a part would not
                                  meet them all */
    bool upright;              /* turned as the EXIF data says that the camera was held */
};

/* What a header says. */
struct region_info {
    pst_image_info stored;
    unsigned orientation;             /* 1…8; 1 unless images are turned upright */
    uint32_t width, height, channels; /* of the pixels that will come */
};

struct region_decoder {
    struct region_options options; /* complete */
    struct region_memory memory, turned;
    pst_image whole; /* the last image of a format that is only decoded as a whole */

    struct jpeg_decoder *jpeg; /* made for the first JPEG */
};

pst_status region_decoder_init(struct region_decoder *d, const struct region_options *options, pst_error *reterr);
void region_decoder_finish(struct region_decoder *d); /* zeroed ok */

/* Reads only the header (and, for strict, looks for the end). */
pst_status region_probe(const struct region_decoder *d, const void *data, size_t length, struct region_info *ret,
                        pst_error *reterr);
/* `part` lies within the image that `info`, from region_probe, describes. The pixels are the decoder's, until the next call;
 * those of a whole image are without gaps. */
pst_status region_decode(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                         const struct region *part, pst_image *ret, pst_error *reterr);

#endif
