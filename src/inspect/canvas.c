/* canvas.c: layout and drawing of a contact sheet. The same calls give the same pixels. */
#include "inspect/canvas.h"

#include "image/pixels.h"
#include "io/publish.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_TILE_SIZE 160u
#define MIN_TILE_SIZE     32u
#define MAX_TILE_SIZE     1024u
#define MAX_TILES         10000u

static const struct font_color ink = {38, 42, 51}, faint = {138, 144, 156}, page = {248, 248, 246}, card = {237, 238, 240};

/* ---- Layout ---- */

static struct canvas_layout lay_out(uint32_t tiles, uint32_t tile)
{
    struct canvas_layout l = {.tile = tile, .columns = 1};
    while ((uint64_t)l.columns * l.columns * 2 < (uint64_t)tiles * 3) /* three to two */
        l.columns++;
    l.columns = l.columns < tiles ? l.columns : tiles;
    l.rows = (tiles + l.columns - 1) / l.columns;
    l.scale = 1 + tile / 200;
    l.gap = 8 + tile / 16;
    l.margin = 16 + tile / 16;
    l.caption = (FONT_HEIGHT + 7) * l.scale;
    l.header = FONT_HEIGHT * (2 * l.scale + 1) + 8 * l.scale + 10; /* a large line, a small one, and air */
    l.width = l.margin * 2 + l.columns * tile + (l.columns - 1) * l.gap;
    l.height = l.margin * 2 + l.header + l.rows * (tile + l.caption) + (l.rows - 1) * l.gap;
    return l;
}

static void tile_corner(const struct canvas_layout *l, uint64_t k, uint32_t *ret_x, uint32_t *ret_y)
{
    *ret_x = l->margin + (uint32_t)(k % l->columns) * (l->tile + l->gap);
    *ret_y = l->margin + l->header + (uint32_t)(k / l->columns) * (l->tile + l->caption + l->gap);
}

/* The size that fits into a square of `tile`. Pictures below half of it grow by a whole factor, pixel by pixel. */
static void fit(const pst_image *image, uint32_t tile, uint32_t *ret_width, uint32_t *ret_height, pst_filter *ret_filter)
{
    uint32_t longest = image->width > image->height ? image->width : image->height;
    if (longest <= tile / 2) {
        *ret_width = image->width * (tile / longest);
        *ret_height = image->height * (tile / longest);
        *ret_filter = PST_FILTER_NEAREST; /* pixels of small pictures are meant to be seen */
        return;
    }
    *ret_width = (uint32_t)(((uint64_t)image->width * tile + longest / 2) / longest);
    *ret_height = (uint32_t)(((uint64_t)image->height * tile + longest / 2) / longest);
    *ret_width += *ret_width == 0;
    *ret_height += *ret_height == 0;
    *ret_filter = PST_FILTER_TRIANGLE;
}

/* ---- Drawing ---- */

static void fill(pst_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height, struct font_color color)
{
    for (uint32_t row = y; row < y + height; row++) {
        uint8_t *pixel = image->pixels + row * image->stride + (size_t)x * 3;
        for (uint32_t i = 0; i < width; i++, pixel += 3) {
            pixel[0] = color.red;
            pixel[1] = color.green;
            pixel[2] = color.blue;
        }
    }
}

/* Draws as much of the text as fits into `width` pixels, followed by ".." if it is shortened. */
static void draw_cut(struct canvas *c, uint32_t x, uint32_t y, uint32_t width, uint32_t scale, struct font_color color,
                     const char *text)
{
    uint32_t room = width / (FONT_ADVANCE * scale), columns = 0;
    char line[256];
    size_t n = 0;
    if (font_columns(text) * scale <= width) {
        font_draw(&c->image, x, y, scale, color, text);
        return;
    }
    for (; text[n] && n + 8 < sizeof(line); n++) {
        if (((unsigned char)text[n] & 0xc0) != 0x80 && ++columns + 2 > room)
            break;
        line[n] = text[n];
    }
    while (n && line[n - 1] == ' ')
        n--;
    memcpy(line + n, "..", 3);
    font_draw(&c->image, x, y, scale, color, line);
}

/* RGBA over the card's colour, to RGB. */
static void flatten(const pst_image *in, pst_image *out)
{
    const uint8_t behind[3] = {card.red, card.green, card.blue};
    for (uint32_t y = 0; y < in->height; y++) {
        const uint8_t *from = in->pixels + y * in->stride;
        uint8_t *to = out->pixels + y * out->stride;
        for (uint32_t x = 0; x < in->width; x++, from += 4, to += 3) {
            for (unsigned i = 0; i < 3; i++)
                to[i] = (uint8_t)((from[i] * from[3] + behind[i] * (255 - from[3]) + 127) / 255);
        }
    }
}

static pst_status to_rgb(const pst_image *in, pst_image *ret, pst_error *reterr)
{
    pst_status st = pst_image_create(ret, in->width, in->height, 3, reterr);
    if (st < 0)
        return st;
    if (in->channels == 4)
        flatten(in, ret);
    else if (in->channels == 1)
        pixels_gray_to_rgb(in, ret);
    else
        pixels_copy(in, ret);
    return PST_OK;
}

pst_status canvas_picture(struct canvas *c, uint64_t tile, const pst_image *picture, pst_error *reterr)
{
    pst_image rgb = {0}, small = {0};
    uint32_t x, y, width, height, size = c->layout.tile;
    pst_filter filter;
    if (picture->channels != 1 && picture->channels != 3 && picture->channels != 4)
        return pst_fail(reterr, PST_EINVAL, "a picture of %" PRIu32 " channels; expected gray, RGB or RGBA: 1, 3 or 4",
                        picture->channels);
    pst_status st = to_rgb(picture, &rgb, reterr);
    if (st == PST_OK) {
        fit(&rgb, size, &width, &height, &filter);
        st = pst_image_resize(&small, &rgb, width, height, filter, reterr);
    }
    if (st == PST_OK) {
        tile_corner(&c->layout, tile, &x, &y);
        pst_image place = pixels_crop(&c->image, x + (size - width) / 2, y + (size - height) / 2, width, height);
        fill(&c->image, x, y, size, size, card);
        pixels_copy(&small, &place);
    }
    pst_image_finish(&small);
    pst_image_finish(&rgb);
    return st;
}

void canvas_caption(struct canvas *c, uint64_t tile, const char *caption, const char *note)
{
    uint32_t x, y, room = c->layout.tile, scale = c->layout.scale, taken = font_columns(note) * scale;
    tile_corner(&c->layout, tile, &x, &y);
    y += c->layout.tile + 4 * scale;
    fill(&c->image, x, y, room, FONT_HEIGHT * scale, page);
    if (!caption[0]) {
        draw_cut(c, x, y, room, scale, faint, note);
        return;
    }
    bool both = note[0] && taken + 12 < room;
    draw_cut(c, x, y, both ? room - taken - 6 * scale : room, scale, ink, caption);
    if (both)
        font_draw(&c->image, x + room - taken, y, scale, faint, note);
}

void canvas_header(struct canvas *c, const char *title, const char *line)
{
    const struct canvas_layout *l = &c->layout;
    uint32_t room = l->width - 2 * l->margin;
    draw_cut(c, l->margin, l->margin, room, l->scale + 1, ink, title);
    draw_cut(c, l->margin, l->margin + (FONT_HEIGHT + 2) * (l->scale + 1), room, l->scale, faint, line);
}

static void draw_empty(struct canvas *c, uint64_t tiles)
{
    static const char text[] = "not readable";
    uint32_t x, y, tile = c->layout.tile, scale = c->layout.scale, width = font_columns(text) * scale;
    fill(&c->image, 0, 0, c->image.width, c->image.height, page);
    for (uint64_t k = 0; k < tiles; k++) {
        tile_corner(&c->layout, k, &x, &y);
        fill(&c->image, x, y, tile, tile, card);
        if (width < tile)
            font_draw(&c->image, x + (tile - width) / 2, y + tile / 2 - 4 * scale, scale, faint, text);
    }
}

/* ---- From beginning to end ---- */

pst_status canvas_create(struct canvas *c, uint64_t tiles, uint32_t tile_size, pst_error *reterr)
{
    tile_size = tile_size ? tile_size : DEFAULT_TILE_SIZE;
    if (tiles < 1 || tiles > MAX_TILES || tile_size < MIN_TILE_SIZE || tile_size > MAX_TILE_SIZE)
        return pst_fail(reterr, PST_EINVAL,
                        "a sheet of %" PRIu64 " tiles of %" PRIu32 " pixels: expected 1 to %u tiles of %u to %u pixels", tiles,
                        tile_size, MAX_TILES, MIN_TILE_SIZE, MAX_TILE_SIZE);
    struct canvas_layout layout = lay_out((uint32_t)tiles, tile_size);
    pst_status st = pst_image_create(&c->image, layout.width, layout.height, 3, reterr);
    if (st < 0)
        return st;
    c->layout = layout;
    draw_empty(c, tiles);
    return PST_OK;
}

void canvas_finish(struct canvas *c)
{
    pst_image_finish(&c->image);
}

pst_status canvas_publish(const struct canvas *c, const char *path, pst_error *reterr)
{
    uint8_t *png;
    size_t length;
    pst_status st = pst_image_encode(&png, &length, &c->image, PST_IMAGE_PNG, NULL, reterr);
    if (st < 0)
        return st;
    st = publish_bytes(path, png, length, true, true, reterr);
    pst_free(png);
    return st;
}
