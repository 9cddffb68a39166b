/* exif.h: the EXIF orientation tag, which decoding may apply. Values as in EXIF: 1 (upright) … 8. */
#ifndef CODEC_EXIF_H
#define CODEC_EXIF_H

#include "codec/image_codec.h"

/* Returns 1 if the file has no such tag. */
unsigned exif_orientation(const struct image_codec *codec, const uint8_t *data, size_t length);

bool exif_turns(unsigned orientation); /* rows become columns */
/* Returns where a part of the upright image lies in the stored image of width × height. */
struct region exif_region(const struct region *upright, uint32_t width, uint32_t height, unsigned orientation);
/* `out` has the size of `in`, with width and height exchanged if exif_turns. */
void exif_turn(const pst_image *in, pst_image *out, unsigned orientation);

#endif
