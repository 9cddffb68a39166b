/* bmp.c: Windows and OS/2 bitmaps, read and written by hand.
 *
 * Reads 1, 4, 8 (palette, plain or run-length), 16, 24 and 32 bits (plain or with bit masks), bottom-up or top-down. A palette
 * of grays makes a gray image. 32 bits carry alpha only where the header has a mask for it. Writes 24 bits, bottom-up. Every
 * length comes from the file and is checked against it before use. */
#include "codec/image_codec.h"

#include "base/le.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40 };
enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, MASKS = 3, ALPHA_MASKS = 6 }; /* biCompression */

struct bmp {
    uint32_t width, height;
    unsigned bits, compression;
    bool top_down;
    uint32_t masks[4];       /* red, green, blue, alpha; where compression is MASKS or 16 or 32 bits are plain */
    uint8_t palette[256][3]; /* RGB; entries that the file lacks are grays, as Pillow has them */
    bool gray;               /* a palette of nothing but grays */
    size_t data;             /* offset of the pixels */
};

static bool bmp_match(const uint8_t *data, size_t length)
{
    return length >= 2 && data[0] == 'B' && data[1] == 'M';
}

/* ---- The header ---- */

static pst_status check_layout(const struct bmp *b, uint32_t header, pst_error *reterr)
{
    bool indexed = b->bits == 1 || b->bits == 4 || b->bits == 8, direct = b->bits == 16 || b->bits == 24 || b->bits == 32;
    bool known = false;
    switch (b->compression) {
    case PLAIN:
        known = indexed || direct;
        break;
    case RLE8:
        known = b->bits == 8;
        break;
    case RLE4:
        known = b->bits == 4;
        break;
    case MASKS:
    case ALPHA_MASKS:
        known = direct;
        break;
    }
    if (!known)
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "bmp: %u bits per pixel with compression %u, header of %" PRIu32 " bytes; not read", b->bits,
                        b->compression, header);
    return PST_OK;
}

/* Bit masks from the header itself or, in its oldest form, from the bytes directly after it. `*end` moves past the bytes
 * read. */
static pst_status read_masks(struct bmp *b, const uint8_t *data, size_t length, size_t *end, pst_error *reterr)
{
    static const uint32_t plain16[4] = {0x7c00, 0x03e0, 0x001f, 0}, plain32[4] = {0xff0000, 0x00ff00, 0x0000ff, 0};
    if (b->compression == PLAIN || b->bits == 24) {
        memcpy(b->masks, b->bits == 16 ? plain16 : plain32, sizeof(b->masks));
        return PST_OK;
    }
    size_t at = FILE_HEADER + INFO_HEADER, count = b->compression == ALPHA_MASKS || *end >= at + 16 ? 4 : 3;
    if (*end < at + 4 * count)
        *end = at + 4 * count;
    if (*end > length)
        return image_codec_cut_off("bmp", *end, length, reterr);
    for (size_t i = 0; i < count; i++) {
        uint32_t mask = b->masks[i] = le32(data + at + 4 * i);
        uint32_t run = mask ? mask >> __builtin_ctz(mask) : 0;
        if ((run & (run + 1)) != 0 || (i < 3 && !mask) || (b->bits == 16 && mask > 0xffff))
            return pst_fail_at(reterr, PST_EUNSUPPORTED, NULL, PST_NOWHERE, at + 4 * i,
                               "bmp: bit mask %08" PRIx32 " is not a run of bits", mask);
    }
    return PST_OK;
}

/* Reads up to `colours` entries; fewer if the pixels begin too early. `*end` moves past them. */
static pst_status read_palette(struct bmp *b, const uint8_t *data, size_t length, size_t *end, size_t entry, uint64_t colours,
                               pst_error *reterr)
{
    size_t most = (size_t)1 << b->bits, count = colours && colours < most ? (size_t)colours : most;
    if (b->data > *end && (b->data - *end) / entry < count)
        count = (b->data - *end) / entry;
    if (count * entry > length - *end)
        return image_codec_cut_off("bmp", *end + count * entry, length, reterr);
    b->gray = true;
    for (size_t i = 0; i < 256; i++) {
        const uint8_t *bgr = data + *end + i * entry;
        for (int c = 0; c < 3; c++)
            b->palette[i][c] = i < count ? bgr[2 - c] : (uint8_t)i;
        b->gray &= b->palette[i][0] == b->palette[i][1] && b->palette[i][1] == b->palette[i][2];
    }
    *end += count * entry;
    return PST_OK;
}

static pst_status read_sizes(struct bmp *b, const uint8_t *data, size_t length, uint32_t header, pst_error *reterr)
{
    int64_t width, height;
    if (header == CORE_HEADER) {
        width = le16(data + 18);
        height = le16(data + 20);
        b->bits = le16(data + 24);
    } else if (header >= INFO_HEADER && header <= 1024) {
        if (length < FILE_HEADER + header)
            return image_codec_cut_off("bmp", FILE_HEADER + header, length, reterr);
        width = (int32_t)le32(data + 18);
        height = (int32_t)le32(data + 22);
        b->bits = le16(data + 28);
        b->compression = le32(data + 30);
    } else {
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, FILE_HEADER,
                           "bmp: a header of %" PRIu32 " bytes; expected 12, or 40 and more", header);
    }
    b->top_down = height < 0;
    height = height < 0 ? -height : height;
    if (width <= 0 || height == 0)
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, 18, "bmp: %" PRId64 " × %" PRId64 " pixels", width, height);
    b->width = (uint32_t)width;
    b->height = (uint32_t)height;
    return PST_OK;
}

static pst_status read_header(struct bmp *b, const uint8_t *data, size_t length, pst_error *reterr)
{
    memset(b, 0, sizeof(*b));
    if (length < FILE_HEADER + CORE_HEADER)
        return image_codec_cut_off("bmp", FILE_HEADER + CORE_HEADER, length, reterr);
    uint32_t header = le32(data + FILE_HEADER);
    pst_status st = read_sizes(b, data, length, header, reterr);
    if (st < 0)
        return st;
    st = check_layout(b, header, reterr);
    if (st < 0)
        return st;
    size_t end = FILE_HEADER + header;
    b->data = le32(data + 10);
    if (b->bits > 8)
        st = read_masks(b, data, length, &end, reterr);
    else
        st = read_palette(b, data, length, &end, header == CORE_HEADER ? 3 : 4, header == CORE_HEADER ? 0 : le32(data + 46),
                          reterr);
    if (st < 0)
        return st;
    if (b->data < end) /* some writers leave it 0 or forget the palette */
        b->data = end;
    return b->data <= length ? PST_OK : image_codec_cut_off("bmp", b->data, length, reterr);
}

static pst_status bmp_probe(const uint8_t *data, size_t length, pst_image_info *ret, pst_error *reterr)
{
    struct bmp b;
    pst_status st = read_header(&b, data, length, reterr);
    if (st < 0)
        return st;
    *ret = (pst_image_info){.format = PST_IMAGE_BMP, .width = b.width, .height = b.height};
    ret->channels = b.bits <= 8 ? (b.gray ? 1 : 3) : b.masks[3] ? 4 : 3;
    return PST_OK;
}

/* ---- Pixels ---- */

static uint64_t row_bytes(const struct bmp *b)
{
    return ((uint64_t)b->width * b->bits + 31) / 32 * 4;
}

static uint8_t *row_of(const struct bmp *b, const pst_image *image, uint32_t stored)
{
    return image->pixels + (b->top_down ? stored : image->height - 1 - stored) * image->stride;
}

/* A masked part of a pixel as 8 bits: the part's upper 8 at most, stretched to 0…255 as Pillow does. */
struct part {
    uint32_t mask;
    unsigned shift;
    uint8_t level[256];
};

static struct part part_of(uint32_t mask)
{
    struct part p = {.mask = mask};
    if (!mask)
        return p;
    p.shift = (unsigned)__builtin_ctz(mask);
    while (mask >> p.shift > 255)
        p.shift++;
    unsigned most = mask >> p.shift;
    for (unsigned v = 0; v <= most; v++)
        p.level[v] = (uint8_t)(v * 255 / most);
    return p;
}

static void unpack_row(const struct bmp *b, const struct part *parts, const uint8_t *from, uint8_t *to, uint32_t channels)
{
    for (uint32_t x = 0; x < b->width; x++, to += channels) {
        if (b->bits == 24) {
            for (int c = 0; c < 3; c++)
                to[c] = from[3 * (size_t)x + 2 - c];
            continue;
        }
        uint32_t pixel = b->bits == 16 ? le16(from + 2 * (size_t)x) : le32(from + 4 * (size_t)x);
        for (uint32_t c = 0; c < channels; c++)
            to[c] = parts[c].level[(pixel & parts[c].mask) >> parts[c].shift];
    }
}

static void colour_row(const struct bmp *b, const uint8_t *indexes, uint8_t *to, uint32_t channels)
{
    for (uint32_t x = 0; x < b->width; x++, to += channels)
        memcpy(to, b->palette[indexes[x]], channels);
}

static void unpack_indexes(const struct bmp *b, const uint8_t *from, uint8_t *indexes)
{
    unsigned in_byte = 8 / b->bits, mask = (1u << b->bits) - 1;
    for (uint32_t x = 0; x < b->width; x++)
        indexes[x] = from[x / in_byte] >> (8 - b->bits * (x % in_byte + 1)) & mask;
}

/* bmp_decode has checked that all rows are there. */
static pst_status decode_plain(const struct bmp *b, const pst_image *image, const uint8_t *data, pst_error *reterr)
{
    uint64_t pitch = row_bytes(b);
    struct part parts[4] = {part_of(b->masks[0]), part_of(b->masks[1]), part_of(b->masks[2]), part_of(b->masks[3])};
    uint8_t *indexes = b->bits <= 8 ? mem_alloc(b->width) : NULL;
    if (b->bits <= 8 && !indexes)
        return image_codec_no_memory("bmp", reterr);
    for (uint32_t y = 0; y < b->height; y++) {
        const uint8_t *from = data + b->data + y * pitch;
        if (b->bits > 8) {
            unpack_row(b, parts, from, row_of(b, image, y), image->channels);
        } else {
            unpack_indexes(b, from, indexes);
            colour_row(b, indexes, row_of(b, image, y), image->channels);
        }
    }
    mem_free(indexes);
    return PST_OK;
}

/* ---- Run lengths ---- */

struct runs {
    const uint8_t *at, *end;
    uint8_t *indexes; /* width × height, rows as stored; what no run names stays 0 */
    uint32_t x, y;
};

/* Puts up to `count` indexes at the cursor, from a byte stream of 4 or 8 bits each; what leaves the row is dropped. */
static void put_indexes(const struct bmp *b, struct runs *r, const uint8_t *from, unsigned count, bool repeat)
{
    for (unsigned i = 0; i < count && r->x < b->width; i++, r->x++) {
        unsigned index = b->compression == RLE8 ? from[repeat ? 0 : i] : from[repeat ? 0 : i / 2] >> (i % 2 ? 0 : 4) & 15;
        r->indexes[(size_t)r->y * b->width + r->x] = (uint8_t)index;
    }
}

/* One code. PST_END: the bitmap is complete. */
static pst_status take_run(const struct bmp *b, struct runs *r)
{
    if (r->end - r->at < 2)
        return PST_ECORRUPT;
    unsigned count = r->at[0], value = r->at[1];
    r->at += 2;
    if (count) {
        put_indexes(b, r, r->at - 1, count, true);
    } else if (value == 0) {
        r->x = 0;
        r->y++;
    } else if (value == 1) {
        return PST_END;
    } else if (value == 2) {
        if (r->end - r->at < 2)
            return PST_ECORRUPT;
        r->x = b->width - r->x > r->at[0] ? r->x + r->at[0] : b->width;
        r->y = b->height - r->y > r->at[1] ? r->y + r->at[1] : b->height;
        r->at += 2;
    } else {
        ptrdiff_t bytes = b->compression == RLE8 ? value : (value + 1) / 2;
        if (r->end - r->at < bytes)
            return PST_ECORRUPT;
        put_indexes(b, r, r->at, value, false);
        bytes += bytes & 1;
        r->at = r->end - r->at < bytes ? r->end : r->at + bytes;
    }
    return r->y < b->height ? PST_OK : PST_END;
}

static pst_status decode_runs(const struct bmp *b, const pst_image *image, const uint8_t *data, size_t length,
                              pst_error *reterr)
{
    struct runs r = {.at = data + b->data, .end = data + length, .indexes = mem_array(b->height, b->width)};
    if (!r.indexes)
        return image_codec_no_memory("bmp", reterr);
    pst_status st = PST_OK;
    while (st == PST_OK)
        st = take_run(b, &r);
    if (st < 0 && r.y == b->height - 1 && r.x == b->width)
        st = PST_END; /* all pixels are there, only the end code is not */
    if (st < 0)
        st = pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, length, "bmp: cut off in row %" PRIu32 " of %" PRIu32, r.y,
                         b->height);
    for (uint32_t y = 0; st >= 0 && y < b->height; y++)
        colour_row(b, r.indexes + (size_t)y * b->width, row_of(b, image, y), image->channels);
    mem_free(r.indexes);
    return st < 0 ? st : PST_OK;
}

static pst_status bmp_decode(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                             const pst_decode_options *options, pst_error *reterr)
{
    struct bmp b;
    pst_image image;
    pst_status st = read_header(&b, data, length, reterr);
    if (st < 0)
        return st;
    (void)options;
    bool runs = b.compression == RLE8 || b.compression == RLE4;
    uint64_t pitch = row_bytes(&b);
    if (!runs && (length - b.data) / pitch < b.height)
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, length,
                           "bmp: cut off: %zu bytes of pixels, %" PRIu32 " rows of %" PRIu64 " expected", length - b.data,
                           b.height, pitch);
    st = pst_image_create(&image, b.width, b.height, info->channels, reterr);
    if (st < 0)
        return st;
    st = runs ? decode_runs(&b, &image, data, length, reterr) : decode_plain(&b, &image, data, reterr);
    if (st < 0)
        pst_image_finish(&image);
    else
        *ret = image;
    return st;
}

/* ---- Encoding ---- */

static pst_status bmp_encode(struct byte_sink *sink, const pst_image *image, const pst_encode_options *options,
                             pst_error *reterr)
{
    (void)options;
    if (image->channels != 1 && image->channels != 3)
        return image_codec_bad_channels("bmp", image->channels, "1 or 3", reterr);
    uint64_t pitch = ((uint64_t)image->width * 3 + 3) / 4 * 4;
    if (image->width > INT32_MAX || image->height > INT32_MAX || pitch > (UINT32_MAX - 54) / image->height)
        return pst_fail(reterr, PST_EINVAL, "bmp: %" PRIu32 " × %" PRIu32 " pixels are more than 4 GiB; resize, or choose png",
                        image->width, image->height);
    uint8_t header[FILE_HEADER + INFO_HEADER] = {'B', 'M'};
    put_le32(header + 2, (uint32_t)(sizeof(header) + pitch * image->height));
    put_le32(header + 10, sizeof(header));
    put_le32(header + 14, INFO_HEADER);
    put_le32(header + 18, image->width);
    put_le32(header + 22, image->height);
    put_le32(header + 26, 1 | 24 << 16); /* planes, bits */
    uint8_t *row = mem_zalloc(pitch);
    bool stored = row && byte_sink_add(sink, header, sizeof(header));
    for (uint32_t y = image->height; stored && y-- > 0;) {
        const uint8_t *from = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, from += image->channels)
            for (int c = 0; c < 3; c++)
                row[3 * (size_t)x + 2 - c] = from[image->channels == 1 ? 0 : c];
        stored = byte_sink_add(sink, row, pitch);
    }
    mem_free(row);
    return stored ? PST_OK : image_codec_no_memory("bmp", reterr);
}

const struct image_codec image_codec_bmp = {
    .format = PST_IMAGE_BMP,
    .match = bmp_match,
    .probe = bmp_probe,
    .decode = bmp_decode,
    .encode = bmp_encode,
};
