/* sheet.c: pst_inspect_sheet: a picture of samples. Layout and drawing; which records are shown is samples.c's business.
 *
 * Every tile starts as "not readable" and is painted over by its sample, so a damaged record costs its own tile. */
#include "inspect/samples.h"

#include "base/memory.h"
#include "base/text.h"
#include "image/pixels.h"
#include "inspect/font.h"
#include "inspect/images.h"
#include "inspect/readable.h"
#include "io/file.h"
#include "io/publish.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_TILES     24u
#define DEFAULT_TILE_SIZE 160u
#define MIN_TILE_SIZE     32u
#define MAX_TILE_SIZE     1024u
#define MAX_TILES         10000u

static const struct font_color ink = {38, 42, 51}, faint = {138, 144, 156}, page = {248, 248, 246}, card = {237, 238, 240};

struct layout {
    uint32_t tile, columns, rows, scale;   /* scale: of the letters */
    uint32_t margin, gap, header, caption; /* heights and widths in pixels */
    uint32_t width, height;
};

struct sheet {
    const struct inspection *inspection;
    struct layout layout;
    pst_image canvas;
};

/* ---- Layout ---- */

static struct layout lay_out(uint32_t tiles, uint32_t tile)
{
    struct layout l = {.tile = tile, .columns = 1};
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

static void tile_corner(const struct layout *l, uint64_t k, uint32_t *ret_x, uint32_t *ret_y)
{
    *ret_x = l->margin + (uint32_t)(k % l->columns) * (l->tile + l->gap);
    *ret_y = l->margin + l->header + (uint32_t)(k / l->columns) * (l->tile + l->caption + l->gap);
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

/* As much of the text as fits into `width` pixels, with ".." behind it if that is not all. */
static void draw_cut(struct sheet *s, uint32_t x, uint32_t y, uint32_t width, struct font_color color, const char *text)
{
    uint32_t room = width / (FONT_ADVANCE * s->layout.scale), columns = 0;
    char line[256];
    size_t n = 0;
    if (font_columns(text) * s->layout.scale <= width) {
        font_draw(&s->canvas, x, y, s->layout.scale, color, text);
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
    font_draw(&s->canvas, x, y, s->layout.scale, color, line);
}

/* RGBA over the card's colour, to RGB in place of the first three channels. */
static void flatten(const pst_image *in, pst_image *out)
{
    const uint8_t behind[3] = {card.red, card.green, card.blue};
    for (uint32_t y = 0; y < in->height; y++) {
        const uint8_t *from = in->pixels + y * in->stride;
        uint8_t *to = out->pixels + y * out->stride;
        for (uint32_t x = 0; x < in->width; x++, from += 4, to += 3) {
            for (unsigned c = 0; c < 3; c++)
                to[c] = (uint8_t)((from[c] * from[3] + behind[c] * (255 - from[3]) + 127) / 255);
        }
    }
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

static pst_status draw_picture(struct sheet *s, uint64_t k, const struct sample *sample, pst_error *reterr)
{
    pst_image decoded = {0}, flat = {0}, small = {0};
    uint32_t x, y, width, height, tile = s->layout.tile;
    pst_filter filter;
    tile_corner(&s->layout, k, &x, &y);
    pst_status st = image_decode(&decoded, sample->image, &sample->info, 4, false, reterr);
    if (st == PST_OK)
        st = pst_image_create(&flat, decoded.width, decoded.height, 3, reterr);
    if (st == PST_OK) {
        flatten(&decoded, &flat);
        fit(&flat, tile, &width, &height, &filter);
        st = pst_image_resize(&small, &flat, width, height, filter, reterr);
    }
    if (st == PST_OK) {
        pst_image place = pixels_crop(&s->canvas, x + (tile - width) / 2, y + (tile - height) / 2, width, height);
        fill(&s->canvas, x, y, tile, tile, card);
        pixels_copy(&small, &place);
    }
    pst_image_finish(&small);
    pst_image_finish(&flat);
    pst_image_finish(&decoded);
    return st;
}

/* The class to the left, its number to the right; without a class, the record's number. */
static void draw_caption(struct sheet *s, uint64_t k, const struct sample *sample)
{
    char number[32] = "", line[64];
    uint32_t x, y, room = s->layout.tile;
    tile_corner(&s->layout, k, &x, &y);
    y += s->layout.tile + 4 * s->layout.scale;
    fill(&s->canvas, x, y, room, FONT_HEIGHT * s->layout.scale, page);
    if (sample->has_label)
        snprintf(number, sizeof(number), "%" PRId64, sample->label);
    else
        snprintf(number, sizeof(number), "#%" PRIu64, sample->number);
    if (!sample->name[0]) {
        snprintf(line, sizeof(line), "%s%s", sample->has_label ? "class " : "record ", number + !sample->has_label);
        draw_cut(s, x, y, room, sample->has_label ? ink : faint, line);
        return;
    }
    uint32_t taken = font_columns(number) * s->layout.scale;
    draw_cut(s, x, y, taken + 12 < room ? room - taken - 6 * s->layout.scale : room, ink, sample->name);
    if (taken + 12 < room)
        font_draw(&s->canvas, x + room - taken, y, s->layout.scale, faint, number);
}

static void draw_empty(struct sheet *s, uint64_t tiles)
{
    static const char text[] = "not readable";
    uint32_t x, y, tile = s->layout.tile, width = font_columns(text) * s->layout.scale;
    fill(&s->canvas, 0, 0, s->canvas.width, s->canvas.height, page);
    for (uint64_t k = 0; k < tiles; k++) {
        tile_corner(&s->layout, k, &x, &y);
        fill(&s->canvas, x, y, tile, tile, card);
        if (width < tile)
            font_draw(&s->canvas, x + (tile - width) / 2, y + tile / 2 - 4 * s->layout.scale, s->layout.scale, faint, text);
    }
}

/* The name of the data set, and how much of it this is. */
static pst_status draw_header(struct sheet *s, uint64_t tiles, pst_error *reterr)
{
    const pst_inspection *p = &s->inspection->public;
    const char *path = p->shard[0].path, *base = file_base(path);
    size_t length = p->shards == 1 || base == path ? strlen(path) : (size_t)(base - path) - 1;
    size_t start = length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    struct text title = {0}, line = {0};
    text_add_n(&title, path + start, length - start);
    readable_add_count(&line, tiles);
    text_add(&line, " of ");
    readable_add_count(&line, p->records);
    text_add(&line, " records");
    if (p->classes) {
        text_add(&line, ", ");
        readable_add_count(&line, p->classes);
        text_add(&line, " classes");
    }
    pst_status st = title.failed || line.failed ? pst_fail(reterr, PST_ENOMEM, "out of memory for the sheet's title") : PST_OK;
    if (st == PST_OK) {
        struct layout *l = &s->layout;
        uint32_t scale = l->scale++, room = l->width - 2 * l->margin; /* the title is one size larger */
        draw_cut(s, l->margin, l->margin, room, ink, title.data ? title.data : "/");
        l->scale = scale;
        draw_cut(s, l->margin, l->margin + (FONT_HEIGHT + 2) * (scale + 1), room, faint, line.data);
    }
    text_finish(&title);
    text_finish(&line);
    return st;
}

/* ---- All of it ---- */

static pst_status show(void *user, uint64_t k, const struct sample *sample, pst_error *reterr)
{
    struct sheet *s = user;
    pst_status st = draw_picture(s, k, sample, reterr);
    draw_caption(s, k, sample);
    return st == PST_ENOMEM ? st : PST_OK; /* whatever else is wrong with a picture, its tile says so */
}

static pst_status check(const pst_inspection *p, uint32_t tiles, uint32_t tile_size, pst_error *reterr)
{
    if (p->content != PST_CONTENT_EXAMPLES && p->content != PST_CONTENT_SEQUENCES)
        return pst_fail(reterr, PST_EUNSUPPORTED, "a contact sheet shows images in tf.train.Examples; these records are %s",
                        p->content == PST_CONTENT_EVENTS  ? "TensorBoard events"
                        : p->content == PST_CONTENT_EMPTY ? "none at all"
                                                          : "something else");
    if (!p->image_feature)
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "a contact sheet needs images, and no feature holds any; --head shows the records");
    if (tiles > MAX_TILES || tile_size < MIN_TILE_SIZE || tile_size > MAX_TILE_SIZE)
        return pst_fail(reterr, PST_EINVAL,
                        "a sheet of %" PRIu32 " tiles of %" PRIu32 " pixels: expected 1 to %u tiles of %u to %u pixels", tiles,
                        tile_size, MAX_TILES, MIN_TILE_SIZE, MAX_TILE_SIZE);
    return PST_OK;
}

static pst_status publish_sheet(const struct sheet *s, const char *path, pst_error *reterr)
{
    uint8_t *png;
    size_t length;
    pst_status st = pst_image_encode(&png, &length, &s->canvas, PST_IMAGE_PNG, NULL, reterr);
    if (st < 0)
        return st;
    st = publish_bytes(path, png, length, true, true, reterr);
    pst_bytes_free(png);
    return st;
}

pst_status pst_inspect_sheet(const pst_inspection *inspection, const char *png_path, uint32_t tiles, uint32_t tile_size,
                             pst_error *reterr)
{
    tiles = tiles ? tiles : DEFAULT_TILES;
    tile_size = tile_size ? tile_size : DEFAULT_TILE_SIZE;
    pst_status st = check(inspection, tiles, tile_size, reterr);
    if (st < 0)
        return st;
    struct spread spread = spread_make(inspection->records, tiles);
    struct sheet s = {.inspection = inspection_of(inspection), .layout = lay_out((uint32_t)spread.count, tile_size)};
    st = pst_image_create(&s.canvas, s.layout.width, s.layout.height, 3, reterr);
    if (st < 0)
        return st;
    draw_empty(&s, spread.count);
    st = draw_header(&s, spread.count, reterr);
    if (st == PST_OK)
        st = samples_visit(s.inspection, &spread, show, &s, reterr);
    if (st == PST_OK)
        st = publish_sheet(&s, png_path, reterr);
    pst_image_finish(&s.canvas);
    return st;
}
