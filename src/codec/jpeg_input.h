/* jpeg_input.h: an open JPEG. The only place that chooses its decoder: our own for the images that it supports, libjpeg-turbo
 * for all others. Both give the same pixels and planes. Strict decoding always uses libjpeg-turbo, because our decoder reports
 * no warnings. */
#ifndef CODEC_JPEG_INPUT_H
#define CODEC_JPEG_INPUT_H

#include "codec/jpeg/decoder.h"

/* Empty when zeroed. Reused for one image after the other. */
struct jpeg_input {
    struct jpeg_decoder *decoder; /* created for the first image */
    const uint8_t *data;
    size_t length;
    pst_image_info info;
    pst_decode_options options;
    bool fast_transform;
    struct jpeg_frame frame; /* frame of the image that our decoder has open; 0 components: libjpeg-turbo decodes it */
};

void jpeg_input_finish(struct jpeg_input *in); /* zeroed ok */

/* `info` is the result of the probe. `options` are complete; `channels` is 1, 3 or 4. `fast_transform`: pixels
 * as jpeg_read_fast has them, for the whole image and for parts. The data are borrowed until the next call. Fails only with
 * PST_ENOMEM: errors in the data are reported by the functions below. */
pst_status jpeg_input_open(struct jpeg_input *in, const void *data, size_t length, const pst_image_info *info,
                           const pst_decode_options *options, bool fast_transform, pst_error *reterr);
/* Returns our decoder if it has the image open, for the points of the image; otherwise NULL. */
const struct jpeg_decoder *jpeg_input_decoder(const struct jpeg_input *in);

/* Decodes a part to pixels. They are in `memory` or in memory of the decoder, and valid until the next call. `points` may be
 * NULL; PST_ESTALE: they contradict the data. */
pst_status jpeg_input_pixels(struct jpeg_input *in, const struct region *part, struct jpeg_points *points,
                             struct region_memory *memory, pst_image *ret, pst_error *reterr);
/* Decodes a part to planes in `scale` eighths of the stored size; see jpeg_decode_planes. PST_EUNSUPPORTED: it has pixels
 * only. */
pst_status jpeg_input_planes(struct jpeg_input *in, const struct region *part, unsigned scale, struct jpeg_points *points,
                             struct jpeg_frame *ret_frame, struct jpeg_plane ret[3], pst_error *reterr);
/* Decodes the whole image. Release the pixels with pst_image_finish. */
pst_status jpeg_input_image(struct jpeg_input *in, pst_image *ret, pst_error *reterr);

#endif
