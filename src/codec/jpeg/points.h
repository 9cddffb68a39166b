/* points.h: places inside a JPEG's entropy-coded data where decoding may begin: an entropy index, or the first part of one. */
#ifndef CODEC_JPEG_POINTS_H
#define CODEC_JPEG_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#define JPEG_POINT_STEP    16 /* MCUs from one point to the next */
#define JPEG_FEWEST_POINTS 3  /* of an image that has any use for them: fewer have nothing to skip */

/* The state of the decoder in front of an MCU, as it is stored: 10 bytes, little-endian. */
struct jpeg_point {
    uint16_t bit[2]; /* of the file, stuffing included: lower and upper half of 8 × byte + bit */
    int16_t dc[3];   /* predictors */
};

/* Point i lies in front of MCU i × step; MCUs are counted through the whole scan. Whoever comes by the first MCU that has a
 * point which is not known may add it, as everything before it was read then: what is known is always a prefix. */
struct jpeg_points {
    uint32_t step, count; /* of the whole image; count 0: there are none */
    uint32_t known;       /* the first so many are there, and the data in front of the last of them are sound */
    bool sound;           /* all data are: they were read to the end once */
    const struct jpeg_point *point;
    struct jpeg_point *room; /* `point`, for who decodes to add those that it passes; NULL: nothing is added */
};

static inline uint32_t jpeg_point_bit(const struct jpeg_point *p)
{
    return p->bit[0] | (uint32_t)p->bit[1] << 16;
}

#endif
