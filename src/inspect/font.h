/* font.h: small letters for pictures: ASCII, 5×7 above the baseline and two rows below it. */
#ifndef INSPECT_FONT_H
#define INSPECT_FONT_H

#include <penstock/image.h>

#define FONT_WIDTH   5u
#define FONT_HEIGHT  9u
#define FONT_ADVANCE 6u /* from letter to letter */

struct font_color {
    uint8_t red, green, blue;
};

/* Columns that the text takes, at scale 1. Anything but printable ASCII counts and shows as "?". */
uint32_t font_columns(const char *text);

/* Draws on an RGB image with (x, y) as the top left corner; what lies outside is cut off. */
void font_draw(pst_image *image, int64_t x, int64_t y, uint32_t scale, struct font_color color, const char *text);

#endif
