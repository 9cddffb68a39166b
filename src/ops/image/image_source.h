/* image_source.h: where an image's pixels come from: encoded bytes, raw ones, or an array that is an image already. */
#ifndef OPS_IMAGE_IMAGE_SOURCE_H
#define OPS_IMAGE_IMAGE_SOURCE_H

#include "codec/jpeg/decoder.h"
#include "ops/image/image_op.h"

/* What a worker keeps from image to image, for its memory. Zeroed is empty. */
struct image_decoder {
    struct region_decoder region;
    struct jpeg_decoder *jpeg;
};
pst_status image_decoder_init(struct image_decoder *d, const struct decode_config *c, pst_error *reterr);
void image_decoder_finish(struct image_decoder *d);

struct image_source {
    struct region_info info;       /* of the pixels that will come */
    struct image_decoder *decoder; /* NULL: they are in `pixels` */
    const pst_bytes *bytes;
    pst_image pixels;
    pst_ctx *ctx;
    struct jpeg_frame frame; /* of a JPEG that our decoder has open; 0 components: it has not */
};

/* `decode` NULL: `in` holds pixels. Otherwise encoded bytes, of which the header is read. */
pst_status image_source_open(struct image_source *s, const struct decode_config *decode, struct image_decoder *decoder,
                             pst_ctx *ctx, const pst_tensor *in, pst_error *reterr);
/* A part of it, decoded exactly; the pixels stay until the next call. */
pst_status image_source_pixels(struct image_source *s, const struct region *part, pst_image *ret, pst_error *reterr);

/* Brightness and, of an image in colour, two planes of colours, `h` × `v` times coarser; all of them in `scale` eighths of
 * the stored size. */
struct image_planes {
    unsigned count, h, v, scale;
    struct jpeg_plane plane[3];
};

/* The samples that `part` covers, in the scale that is asked for if the format can. `points`: an entropy index may be used.
 * PST_EUNSUPPORTED: only its pixels can be had. They stay until the next call. */
pst_status image_source_planes(struct image_source *s, const struct region *part, unsigned scale, bool points,
                               struct image_planes *ret, pst_error *reterr);

#endif
