/* gif.c: the first frame of a GIF, read by hand; none is written.
 *
 * The result is what Pillow's convert("RGB") makes of it: the frame on its screen, the screen around it in the transparent
 * colour or, without one, in colour 0; transparency itself shows only in RGBA. A palette of grays makes a gray image. A
 * frame that leaves the screen enlarges it. */
#include "codec/image_codec.h"

#include "base/le.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER = 13, CODES = 4096, MAX_CODE_BITS = 12 };

struct gif {
    uint32_t width, height; /* of the screen */
    uint32_t x, y, frame_width, frame_height;
    bool interlaced, gray;
    int transparent;         /* -1: none */
    uint8_t palette[256][3]; /* entries that the file lacks are grays, as Pillow has them */
    unsigned bits;           /* of an uncompressed index */
    size_t data;             /* offset of the first block of pixels */
};

static bool gif_match(const uint8_t *data, size_t length)
{
    return length >= 6 && (memcmp(data, "GIF87a", 6) == 0 || memcmp(data, "GIF89a", 6) == 0);
}

/* ---- The header ---- */

/* `flags` contain whether there is a palette here and its length. `*at` moves past it. */
static bool read_palette(struct gif *g, const uint8_t *data, size_t length, size_t *at, unsigned flags)
{
    size_t count = flags & 0x80 ? (size_t)2 << (flags & 7) : 0;
    if (length - *at < 3 * count)
        return false;
    if (count)
        memcpy(g->palette, data + *at, 3 * count);
    for (size_t i = count; count && i < 256; i++)
        memset(g->palette[i], (int)i, 3);
    *at += 3 * count;
    return true;
}

/* An extension: notes the transparent colour where it is a graphic control. */
static bool read_extension(struct gif *g, const uint8_t *data, size_t length, size_t *at)
{
    if (length - *at < 2)
        return false;
    const uint8_t *first = data + *at + 1;
    bool control = data[*at] == 0xf9 && first[0] >= 4;
    for (++*at; *at < length; *at += (size_t)data[*at] + 1) {
        if (data[*at] >= length - *at)
            return false;
        if (control && first[1] & 1)
            g->transparent = first[4];
        control = false;
        if (!data[*at]) {
            ++*at;
            return true;
        }
    }
    return false;
}

static bool read_descriptor(struct gif *g, const uint8_t *data, size_t length, size_t *at)
{
    if (length - *at < 9)
        return false;
    const uint8_t *d = data + *at;
    g->x = le16(d);
    g->y = le16(d + 2);
    g->frame_width = le16(d + 4);
    g->frame_height = le16(d + 6);
    g->interlaced = d[8] & 0x40;
    *at += 9;
    if (!read_palette(g, data, length, at, d[8]) || *at == length)
        return false;
    g->bits = data[*at];
    g->data = *at + 1;
    if (g->width < g->x + g->frame_width)
        g->width = g->x + g->frame_width;
    if (g->height < g->y + g->frame_height)
        g->height = g->y + g->frame_height;
    return true;
}

/* Up to and including the descriptor of the first frame. */
static pst_status read_header(struct gif *g, const uint8_t *data, size_t length, pst_error *reterr)
{
    *g = (struct gif){.transparent = -1};
    if (length < HEADER)
        return image_codec_cut_off("gif", HEADER, length, reterr);
    g->width = le16(data + 6);
    g->height = le16(data + 8);
    for (int i = 0; i < 256; i++)
        memset(g->palette[i], i, 3);
    size_t at = HEADER;
    bool whole = read_palette(g, data, length, &at, data[10]), found = false;
    while (whole && !found && at < length && data[at] != ';') {
        switch (data[at++]) {
        case '!':
            whole = read_extension(g, data, length, &at);
            break;
        case ',':
            whole = found = read_descriptor(g, data, length, &at);
            break;
        } /* anything else is skipped */
    }
    if (!found)
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, at, "gif: cut off or ended before its first image");
    if (!g->frame_width || !g->frame_height || g->bits < 1 || g->bits > 8)
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, g->data - 1,
                           "gif: a frame of %" PRIu32 " × %" PRIu32 " pixels, code size %u; expected 1…8", g->frame_width,
                           g->frame_height, g->bits);
    g->gray = true;
    for (int i = 0; i < 256; i++)
        g->gray &= g->palette[i][0] == g->palette[i][1] && g->palette[i][1] == g->palette[i][2];
    return PST_OK;
}

static pst_status gif_probe(const uint8_t *data, size_t length, pst_image_info *ret, pst_error *reterr)
{
    struct gif g;
    pst_status st = read_header(&g, data, length, reterr);
    if (st < 0)
        return st;
    *ret = (pst_image_info){.format = PST_IMAGE_GIF, .width = g.width, .height = g.height};
    ret->channels = (g.gray ? 1 : 3) + (g.transparent >= 0);
    return PST_OK;
}

/* ---- LZW ---- */

/* Codes of a growing number of bits, low bits first, from blocks of up to 255 bytes. */
struct codes {
    const uint8_t *at, *end;
    unsigned block; /* bytes left in the block */
    uint32_t pending, pending_bits;
};

static int next_code(struct codes *c, unsigned bits)
{
    while (c->pending_bits < bits) {
        if (c->block == 0) {
            if (c->at == c->end || *c->at == 0)
                return -1;
            c->block = *c->at++;
        }
        if (c->at == c->end)
            return -1;
        c->pending |= (uint32_t)*c->at++ << c->pending_bits;
        c->pending_bits += 8;
        c->block--;
    }
    int code = (int)(c->pending & ((1u << bits) - 1));
    c->pending >>= bits;
    c->pending_bits -= bits;
    return code;
}

/* Each code stands for the string of another one plus a byte. */
struct strings {
    uint16_t prefix[CODES];
    uint8_t last[CODES];
    uint8_t text[CODES]; /* the current string, right-aligned */
};

/* Writes the string of `code` to the end of `text` before `room`, returns where it begins. */
static unsigned expand(struct strings *s, int code, unsigned room, int clear)
{
    while (code > clear) {
        s->text[--room] = s->last[code];
        code = s->prefix[code];
    }
    s->text[--room] = (uint8_t)code;
    return room;
}

/* Fills `out`; returns how many indexes there were. */
static size_t decode_indexes(const struct gif *g, const uint8_t *data, size_t length, struct strings *s, uint8_t *out, size_t n)
{
    struct codes c = {.at = data + g->data, .end = data + length};
    const int clear = 1 << g->bits, stop = clear + 1;
    int next = clear + 2, previous = -1, code;
    unsigned bits = g->bits + 1;
    size_t done = 0;
    while (done < n && (code = next_code(&c, bits)) >= 0 && code != stop) {
        if (code == clear) {
            next = clear + 2;
            bits = g->bits + 1;
            previous = -1;
            continue;
        }
        if (previous < 0 ? code > clear : code > next)
            break; /* a code that is not defined yet */
        unsigned begin;
        if (previous >= 0 && code == next) { /* the string that this code is about to define */
            begin = expand(s, previous, CODES - 1, clear);
            s->text[CODES - 1] = s->text[begin];
        } else {
            begin = expand(s, code, CODES, clear);
        }
        size_t count = CODES - begin < n - done ? CODES - begin : n - done;
        memcpy(out + done, s->text + begin, count);
        done += count;
        if (previous >= 0 && next < CODES) {
            s->prefix[next] = (uint16_t)previous;
            s->last[next] = s->text[begin];
            next++;
            if (next == 1 << bits && bits < MAX_CODE_BITS)
                bits++;
        }
        previous = code;
    }
    return done;
}

/* ---- The image ---- */

/* The row of the frame that the `i`th decoded one is. */
static uint32_t row_of(const struct gif *g, uint32_t i)
{
    static const uint8_t start[4] = {0, 4, 2, 1}, step[4] = {8, 8, 4, 2};
    if (!g->interlaced)
        return i;
    for (int pass = 0; pass < 3; pass++) {
        uint32_t rows = g->frame_height > start[pass] ? (g->frame_height - start[pass] + step[pass] - 1) / step[pass] : 0;
        if (i < rows)
            return start[pass] + i * step[pass];
        i -= rows;
    }
    return start[3] + i * step[3];
}

static void paint(const struct gif *g, const pst_image *image, const uint8_t *indexes)
{
    uint8_t colours[256][4];
    for (int i = 0; i < 256; i++) {
        memcpy(colours[i], g->palette[i], 3);
        colours[i][3] = i == g->transparent ? 0 : 255;
    }
    size_t size = image->channels;
    if (g->frame_width < g->width || g->frame_height < g->height)
        for (size_t i = 0; i < (size_t)g->width * g->height; i++)
            memcpy(image->pixels + i * size, colours[g->transparent < 0 ? 0 : g->transparent], size);
    for (uint32_t i = 0; i < g->frame_height; i++) {
        uint8_t *to = image->pixels + (g->y + row_of(g, i)) * image->stride + g->x * size;
        for (uint32_t x = 0; x < g->frame_width; x++, to += size)
            memcpy(to, colours[*indexes++], size);
    }
}

static pst_status gif_decode(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                             const pst_decode_options *options, pst_error *reterr)
{
    struct gif g;
    pst_image image = {0};
    pst_status st = read_header(&g, data, length, reterr);
    if (st < 0)
        return st;
    size_t n = (size_t)g.frame_width * g.frame_height;
    struct strings *strings = mem_alloc(sizeof(*strings));
    uint8_t *indexes = mem_alloc(n);
    if (!strings || !indexes) {
        st = image_codec_no_memory("gif", reterr);
        goto end;
    }
    size_t done = decode_indexes(&g, data, length, strings, indexes, n);
    if (done < n) {
        st = pst_fail(reterr, PST_ECORRUPT, "gif: damaged or cut off after %zu of %zu pixels", done, n);
        goto end;
    }
    st = pst_image_create(&image, info->width, info->height, options->channels == 4 ? 4 : g.gray ? 1 : 3, reterr);
    if (st < 0)
        goto end;
    paint(&g, &image, indexes);
    *ret = image;
end:
    mem_free(indexes);
    mem_free(strings);
    return st;
}

const struct image_codec image_codec_gif = {
    .format = PST_IMAGE_GIF,
    .match = gif_match,
    .probe = gif_probe,
    .decode = gif_decode,
};
