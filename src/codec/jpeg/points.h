/* points.h: places inside a JPEG's entropy-coded data where decoding may begin: an entropy index, or the first part of one. */
#ifndef CODEC_JPEG_POINTS_H
#define CODEC_JPEG_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#define JPEG_POINT_STEP    16 /* MCUs from one point to the next */
#define JPEG_FEWEST_POINTS 3  /* minimum number of points of an image: with fewer there is nothing to skip */

/* The state of the decoder before an MCU, as stored: 10 bytes, little-endian. */
struct jpeg_point {
    uint16_t bit[2]; /* position in the file, stuffing included: lower and upper half of 8 × byte + bit */
    int16_t dc[3];   /* predictors */
};

/* Point i is before MCU i × step; MCUs are counted over the whole scan. A decode that reaches the first MCU with an unknown
 * point may add it, because everything before it was read: the known points are always a prefix. */
struct jpeg_points {
    uint32_t step, count; /* for the whole image; count 0: there are none */
    uint32_t known;       /* number of known points; the data before the last of them are valid */
    bool sound;           /* all data are valid: they were read to the end once */
    const struct jpeg_point *point;
    struct jpeg_point *room; /* `point`, writable: decoding adds the points that it passes; NULL: nothing is added */
};

/* Whether points come from a file, which may be wrong. Those that this process collected are right. */
static inline bool jpeg_points_stored(const struct jpeg_points *points)
{
    return points->sound && !points->room;
}

static inline uint32_t jpeg_point_bit(const struct jpeg_point *p)
{
    return p->bit[0] | (uint32_t)p->bit[1] << 16;
}

#endif
