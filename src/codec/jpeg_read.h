/* jpeg_read.h: JPEG images or parts of them, by a libjpeg decoder that is kept. See struct image_codec for the contracts. */
#ifndef CODEC_JPEG_READ_H
#define CODEC_JPEG_READ_H

#include "codec/region.h"

pst_status jpeg_reader_create(void **ret, pst_error *reterr);
void jpeg_reader_destroy(void *reader); /* NULL ok */
/* options->strict: a warning is an error, and the file is read to its end. */
pst_status jpeg_reader_read(void *reader, const uint8_t *data, size_t length, const pst_image_info *info, const struct region *part,
                            const pst_decode_options *options, struct region_memory *memory, pst_image *ret, pst_error *reterr);

#endif
