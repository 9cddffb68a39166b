/* canvas.h: the contact sheet as a drawing: a header, and tiles in rows, each with a picture and a caption. The callers
 * choose pictures and text. */
#ifndef INSPECT_CANVAS_H
#define INSPECT_CANVAS_H

#include <penstock/image.h>

/* Small letters for pictures: ASCII, 5×7 above the baseline and two rows below it. */

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

struct canvas_layout {
    uint32_t tile, columns, rows, scale;   /* scale: of the letters */
    uint32_t margin, gap, header, caption; /* heights and widths in pixels */
    uint32_t width, height;
};

struct canvas {
    struct canvas_layout layout;
    pst_image image; /* RGB */
};

/* Creates an empty sheet: every tile shows "not readable" until it is painted. 0 pixels per tile: 160. PST_EINVAL: too
 * large. */
pst_status canvas_create(struct canvas *c, uint64_t tiles, uint32_t tile_size, pst_error *reterr);
void canvas_finish(struct canvas *c); /* zeroed ok */

/* A large line and a small one; what does not fit is cut. */
void canvas_header(struct canvas *c, const char *title, const char *line);
/* Gray, RGB or RGBA of any size, fitted into the tile. */
pst_status canvas_picture(struct canvas *c, uint64_t tile, const pst_image *picture, pst_error *reterr);
/* The caption to the left, the fainter note to the right; without a caption the note takes its place. "": none. */
void canvas_caption(struct canvas *c, uint64_t tile, const char *caption, const char *note);

/* Writes the sheet as a PNG, published whole; replaces an existing file. */
pst_status canvas_publish(const struct canvas *c, const char *path, pst_error *reterr);

#endif
