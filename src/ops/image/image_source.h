/* image_source.h: the source of an image's pixels: encoded bytes, raw pixels, or an array that is an image already. */
#ifndef OPS_IMAGE_IMAGE_SOURCE_H
#define OPS_IMAGE_IMAGE_SOURCE_H

#include "codec/jpeg/decoder.h"
#include "ops/image/image_op.h"

/* Every worker has a decoder, which stays zeroed if the images are raw. Release it with region_decoder_finish. */
pst_status image_decoder_init(struct region_decoder *d, const struct decode_config *c, pst_error *reterr);

struct image_source {
    struct region_info info;        /* of the pixels that will come */
    struct region_decoder *decoder; /* NULL: the pixels are in `pixels` */
    const pst_bytes *bytes;
    pst_image pixels;
    pst_ctx *ctx;
};

/* `decode` NULL: `in` holds pixels. Otherwise it holds encoded bytes, and the header is read. */
pst_status image_source_open(struct image_source *s, const struct decode_config *decode, struct region_decoder *decoder,
                             pst_ctx *ctx, const pst_tensor *in, pst_error *reterr);
/* Returns a part of the image, decoded exactly; the pixels are valid until the next call. */
pst_status image_source_pixels(struct image_source *s, const struct region *part, pst_image *ret, pst_error *reterr);

/* Brightness and, for a colour image, two planes of colour differences, `h` × `v` times coarser; all of them in `scale`
 * eighths of the stored size. */
struct image_planes {
    unsigned count, h, v, scale;
    struct jpeg_plane plane[3];
};

/* Returns the samples that `part` covers, in the requested scale if the format supports it. `points`: an entropy index may
 * be used. PST_EUNSUPPORTED: only pixels are available. The samples are valid until the next call. */
pst_status image_source_planes(struct image_source *s, const struct region *part, unsigned scale, bool points,
                               struct image_planes *ret, pst_error *reterr);

#endif
