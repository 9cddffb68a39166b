/* exif.c: see exif.h. Where the EXIF data lies is each format's business; here it is a small TIFF file in either byte order.
 * Whatever is wrong with it, the image counts as upright. */
#include "codec/exif.h"

#include <string.h>

#define ORIENTATION 0x0112
#define SHORT       3
#define ENTRY       12 /* bytes: tag, type, count, value */

static uint32_t number(const uint8_t *p, size_t bytes, bool big)
{
    uint32_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | p[big ? i : bytes - 1 - i];
    return v;
}

static unsigned tiff_orientation(const uint8_t *tiff, size_t length)
{
    if (length < 8 || (memcmp(tiff, "II*\0", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0))
        return 1;
    bool big = tiff[0] == 'M';
    size_t at = number(tiff + 4, 4, big);
    if (at > length || length - at < 2)
        return 1;
    size_t entries = number(tiff + at, 2, big);
    for (at += 2; entries-- > 0 && length - at >= ENTRY; at += ENTRY) {
        const uint8_t *entry = tiff + at;
        if (number(entry, 2, big) != ORIENTATION)
            continue;
        unsigned value = number(entry + 8, 2, big);
        bool sound = number(entry + 2, 2, big) == SHORT && number(entry + 4, 4, big) == 1 && value >= 1 && value <= 8;
        return sound ? value : 1;
    }
    return 1;
}

unsigned exif_orientation(const struct image_codec *codec, const uint8_t *data, size_t length)
{
    size_t size = 0;
    const uint8_t *tiff = codec->exif ? codec->exif(data, length, &size) : NULL;
    return tiff ? tiff_orientation(tiff, size) : 1;
}

/* ---- Turning ---- */

/* Rows and columns are exchanged first; then a side may count from its end. */
static bool from_right(unsigned orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool from_bottom(unsigned orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

bool exif_turns(unsigned orientation)
{
    return orientation >= 5;
}

struct region exif_region(const struct region *upright, uint32_t width, uint32_t height, unsigned orientation)
{
    struct region r = *upright;
    if (exif_turns(orientation))
        r = (struct region){.x = upright->y, .y = upright->x, .width = upright->height, .height = upright->width};
    if (from_right(orientation))
        r.x = width - r.x - r.width;
    if (from_bottom(orientation))
        r.y = height - r.y - r.height;
    return r;
}

void exif_turn(const pst_image *in, pst_image *out, unsigned orientation)
{
    bool turns = exif_turns(orientation), right = from_right(orientation), bottom = from_bottom(orientation);
    for (uint32_t y = 0; y < out->height; y++)
        for (uint32_t x = 0; x < out->width; x++) {
            uint32_t column = turns ? y : x, row = turns ? x : y;
            column = right ? in->width - 1 - column : column;
            row = bottom ? in->height - 1 - row : row;
            const uint8_t *from = in->pixels + row * in->stride + (size_t)column * in->channels;
            uint8_t *to = out->pixels + y * out->stride + (size_t)x * out->channels;
            for (uint32_t c = 0; c < in->channels; c++)
                to[c] = from[c];
        }
}
