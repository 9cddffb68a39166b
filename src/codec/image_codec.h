/* image_codec.h: format → decoder and encoder. image_codec.c holds the only list; one file per format.
 *
 * pst_image_decode probes first and checks the size against the limits; a decoder starts with the result of its own probe. */
#ifndef CODEC_IMAGE_CODEC_H
#define CODEC_IMAGE_CODEC_H

#include "codec/region.h"
#include <penstock/image.h>

/* Bytes that an encoder appends to. */
struct byte_sink {
    uint8_t *data;
    size_t length, capacity;
};
bool byte_sink_add(struct byte_sink *s, const void *data, size_t length); /* false: no memory */

struct image_codec {
    pst_image_format format;
    const char *library; /* named when it is missing */
    bool (*match)(const uint8_t *data, size_t length);
    pst_status (*probe)(const uint8_t *data, size_t length, pst_image_info *ret, pst_error *reterr);
    /* NULL: not built in. `info` is the result of the probe and within the limits: if the library finds another size,
     * decoding fails. `options` are complete: `channels` is 1, 3 or 4. The image may have other channels where that is
     * simpler; the caller converts it. */
    pst_status (*decode)(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                         const pst_decode_options *options, pst_error *reterr);
    /* NULL: not built in, or read only. `options` are complete and in range; the caller owns the sink, also on failure. */
    pst_status (*encode)(struct byte_sink *sink, const pst_image *image, const pst_encode_options *options, pst_error *reterr);

    /* Optional: a part of an image, without decoding all of it. `info` and `options` as for `decode`; the image has the
     * requested channels, and its pixels are in `memory`. */
    pst_status (*decode_part)(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                              const struct region *part, const pst_decode_options *options, struct region_memory *memory,
                              pst_error *reterr);
    /* Optional: PST_ECORRUPT for data that ends before the image does, where decoding does not detect it. */
    pst_status (*check_end)(const uint8_t *data, size_t length, pst_error *reterr);
    /* Optional: returns the EXIF data, which is a TIFF file; NULL: there is none. */
    const uint8_t *(*exif)(const uint8_t *data, size_t length, size_t *ret_length);
};

extern const struct image_codec image_codec_jpeg, image_codec_png, image_codec_webp, image_codec_bmp, image_codec_gif,
    image_codec_yuv;

const struct image_codec *image_codec_find(const uint8_t *data, size_t length); /* NULL: not recognised */
const struct image_codec *image_codec_of(pst_image_format format);              /* NULL: RAW, UNKNOWN */

/* The steps of pst_image_decode. Options with every default filled in: */
pst_status image_codec_complete_options(pst_decode_options *ret, const pst_decode_options *options, pst_error *reterr);
/* the codec of these bytes, able to decode, and what its probe found, within the limits: */
pst_status image_codec_open(const struct image_codec **ret, const uint8_t *data, size_t length,
                            const pst_decode_options *options, pst_image_info *ret_info, pst_error *reterr);
/* the channels that the pixels will have: */
uint32_t image_codec_channels(const pst_decode_options *options, const pst_image_info *info);
/* the pixels, in options->channels, which is 1, 3 or 4. */
pst_status image_codec_decode(pst_image *ret, const struct image_codec *codec, const uint8_t *data, size_t length,
                              const pst_image_info *info, const pst_decode_options *options, pst_error *reterr);

/* Pixels in other channels: 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA to 1, 3 or 4. */
void image_codec_convert_row(const uint8_t *from, uint32_t from_channels, uint8_t *to, uint32_t to_channels, uint32_t width);

/* Checks the size against max_pixels, before anything is allocated. */
pst_status image_codec_check_size(uint64_t width, uint64_t height, const pst_decode_options *options, pst_error *reterr);

/* Shared error messages. */
pst_status image_codec_cut_off(const char *format, size_t needed, size_t length, pst_error *reterr); /* PST_ECORRUPT */
pst_status image_codec_no_memory(const char *format, pst_error *reterr);
pst_status image_codec_bad_channels(const char *format, uint32_t channels, const char *allowed, pst_error *reterr);

#endif
