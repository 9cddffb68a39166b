/* jpeg_read.h: JPEG images, or parts of them. */
#ifndef CODEC_JPEG_READ_H
#define CODEC_JPEG_READ_H

#include "codec/region.h"

/* See decode_part of struct image_codec. options->strict: a warning is an error, and the file is read to its end. */
pst_status jpeg_read(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info, const struct region *part,
                     const pst_decode_options *options, struct region_memory *memory, pst_error *reterr);

#endif
