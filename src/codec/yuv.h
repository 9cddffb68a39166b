/* yuv.h: planes of brightness and colour differences, stored uncompressed; see docs/formats.md. */
#ifndef CODEC_YUV_H
#define CODEC_YUV_H

#include <penstock/base.h>

/* Views into the bytes. */
struct yuv_planes {
    uint32_t width, height;
    uint32_t colour_width, colour_height; /* half, rounded up; 0: the image is gray */
    const uint8_t *y, *cb, *cr;           /* rows without gaps */
};

/* PST_ECORRUPT: not such an image, or truncated. */
pst_status yuv_open(const void *data, size_t length, struct yuv_planes *ret, pst_error *reterr);

#endif
