/* exif.h: the one EXIF tag that decoding may heed: how the camera was held. Values are EXIF's, 1 (upright) … 8. */
#ifndef CODEC_EXIF_H
#define CODEC_EXIF_H

#include "codec/image_codec.h"

/* 1 where the file does not say. */
unsigned exif_orientation(const struct image_codec *codec, const uint8_t *data, size_t length);

bool exif_turns(unsigned orientation); /* rows become columns */
/* Where a part of the upright image lies in the stored one of width × height. */
struct region exif_region(const struct region *upright, uint32_t width, uint32_t height, unsigned orientation);
/* `out` has the sides of `in`, exchanged where it turns. */
void exif_turn(const pst_image *in, pst_image *out, unsigned orientation);

#endif
