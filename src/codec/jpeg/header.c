/* header.c: markers and tables of a baseline JPEG, up to its entropy-coded data.
 *
 * What is accepted here means to libjpeg just the same; what is odd in any way is left to it. */
#include "codec/jpeg/state.h"

#include <string.h>

enum {
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    DHT = 0xc4,
    SOI = 0xd8,
    SOS = 0xda,
    DQT = 0xdb,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
    APP15 = 0xef,
    COM = 0xfe
};

const uint8_t jpeg_coding_order[64] = {JPEG_CODING_ORDER};

/* The header while it is being read. */
struct header {
    bool framed, jfif, adobe;
    uint8_t adobe_transform;
    unsigned quants, dcs, acs; /* defined so far: bits */
};

static unsigned be16(const uint8_t *p)
{
    return (unsigned)(p[0] << 8 | p[1]);
}

/* ---- Segments: the bytes after the length; false: left to libjpeg ---- */

static bool read_quants(struct jpeg_decoder *d, struct header *h, const uint8_t *p, size_t n)
{
    while (n) {
        unsigned wide = p[0] >> 4, id = p[0] & 15;
        size_t size = 1 + 64 * (wide + 1);
        if (wide > 1 || id > 3 || n < size)
            return false;
        for (unsigned k = 0; k < 64; k++)
            d->quant[id][jpeg_coding_order[k]] = (int16_t)(wide ? be16(p + 1 + 2 * k) : p[1 + k]);
        h->quants |= 1u << id;
        p += size;
        n -= size;
    }
    return true;
}

static bool read_codes(struct jpeg_decoder *d, struct header *h, const uint8_t *p, size_t n)
{
    while (n) {
        struct huffman_code code = {0};
        unsigned kind = p[0] >> 4, id = p[0] & 15;
        size_t count = 0;
        if (kind > 1 || id > 3 || n < 17)
            return false;
        memcpy(code.counts, p + 1, 16);
        for (int i = 0; i < 16; i++)
            count += code.counts[i];
        if (count > 256 || n < 17 + count)
            return false;
        memcpy(code.symbols, p + 17, count);
        if (!(kind ? huffman_ac_make(&d->ac[id], &code) : huffman_dc_make(&d->dc[id], &code)))
            return false;
        *(kind ? &h->acs : &h->dcs) |= 1u << id;
        p += 17 + count;
        n -= 17 + count;
    }
    return true;
}

static bool samplings_are_known(const struct jpeg_component *c, uint32_t components)
{
    if (components == 1)
        return true; /* a single component has no other to be sampled against */
    return c[0].h <= 2 && c[0].v <= 2 && c[1].h * c[1].v == 1 && c[2].h * c[2].v == 1;
}

static bool read_frame(struct jpeg_decoder *d, struct header *h, const uint8_t *p, size_t n)
{
    if (h->framed || n < 6 || p[0] != 8)
        return false;
    struct jpeg_frame f = {.height = be16(p + 1), .width = be16(p + 3), .components = p[5]};
    if (!f.width || !f.height || f.width > 65500 || f.height > 65500 || (f.components != 1 && f.components != 3) ||
        n != 6 + 3 * f.components)
        return false;
    for (uint32_t c = 0; c < f.components; c++) {
        const uint8_t *q = p + 6 + 3 * c;
        d->component[c] = (struct jpeg_component){.id = q[0], .h = q[1] >> 4, .v = q[1] & 15, .quant = q[2]};
        if (d->component[c].h < 1 || d->component[c].h > 4 || d->component[c].v < 1 || d->component[c].v > 4 || q[2] > 3)
            return false;
    }
    if (!samplings_are_known(d->component, f.components))
        return false;
    f.h = f.components == 1 ? 1 : d->component[0].h;
    f.v = f.components == 1 ? 1 : d->component[0].v;
    f.mcus_x = (f.width + 8u * f.h - 1) / (8u * f.h);
    f.mcus_y = (f.height + 8u * f.v - 1) / (8u * f.v);
    d->frame = f;
    h->framed = true;
    return true;
}

/* One scan of everything. */
static bool read_scan(struct jpeg_decoder *d, const struct header *h, const uint8_t *p, size_t n)
{
    uint32_t components = d->frame.components;
    if (!h->framed || n != 4 + 2 * components || p[0] != components)
        return false;
    for (uint32_t c = 0; c < components; c++) {
        struct jpeg_component *to = &d->component[c];
        const uint8_t *q = p + 1 + 2 * c;
        to->dc = q[1] >> 4;
        to->ac = q[1] & 15;
        if (q[0] != to->id || to->dc > 3 || to->ac > 3 || !(h->quants >> to->quant & 1))
            return false;
        for (uint32_t other = 0; other < c; other++)
            if (d->component[other].id == to->id)
                return false;
    }
    const uint8_t *q = p + 1 + 2 * components;
    return q[0] == 0 && q[1] == 63 && q[2] == 0;
}

static void read_application(struct header *h, unsigned marker, const uint8_t *p, size_t n)
{
    if (marker == APP0 && n >= 14 && memcmp(p, "JFIF", 5) == 0)
        h->jfif = true;
    if (marker == APP14 && n >= 12 && memcmp(p, "Adobe", 5) == 0) {
        h->adobe = true;
        h->adobe_transform = p[11];
    }
}

static bool read_segment(struct jpeg_decoder *d, struct header *h, unsigned marker, const uint8_t *p, size_t n)
{
    switch (marker) {
    case SOF0:
    case SOF1:
        return read_frame(d, h, p, n);
    case DHT:
        return read_codes(d, h, p, n);
    case DQT:
        return read_quants(d, h, p, n);
    case DRI:
        d->restart = n == 2 ? be16(p) : 0;
        return n == 2;
    case SOS:
        return read_scan(d, h, p, n);
    default:
        read_application(h, marker, p, n);
        return (marker >= APP0 && marker <= APP15) || marker == COM;
    }
}

/* ---- The whole ---- */

/* libjpeg's rules. */
static bool is_rgb(const struct jpeg_decoder *d, const struct header *h)
{
    if (d->frame.components == 1 || h->jfif)
        return false;
    if (h->adobe)
        return h->adobe_transform == 0;
    return d->component[0].id == 'R' && d->component[1].id == 'G' && d->component[2].id == 'B';
}

/* Tables that the file leaves out are the standard's. */
static bool complete_tables(struct jpeg_decoder *d, const struct header *h)
{
    for (uint32_t c = 0; c < d->frame.components; c++) {
        unsigned dc = d->component[c].dc, ac = d->component[c].ac;
        if (!(h->dcs >> dc & 1) && (dc > 1 || !huffman_dc_make(&d->dc[dc], &huffman_standard_dc[dc])))
            return false;
        if (!(h->acs >> ac & 1) && (ac > 1 || !huffman_ac_make(&d->ac[ac], &huffman_standard_ac[ac])))
            return false;
    }
    return true;
}

/* Returns the component of an MCU's block if the first component has `n` blocks. */
static uint32_t component_of(uint32_t block, uint32_t n)
{
    return block < n ? 0 : block - n + 1;
}

static void list_blocks(struct jpeg_decoder *d)
{
    uint32_t n = (uint32_t)d->frame.h * d->frame.v;
    d->blocks = n + d->frame.components - 1;
    for (uint32_t i = 0; i <= JPEG_GROUP * d->blocks; i++) {
        uint32_t c = component_of(i % d->blocks, n), before = component_of((i + d->blocks - 1) % d->blocks, n);
        const struct huffman_dc *dc = &d->dc[d->component[c].dc];
        const struct huffman_ac *ac = &d->ac[d->component[before].ac];
        d->tables.dc[i] = dc->read;
        d->tables.ac_before[i] = ac->read;
        d->tables.dc_skip[i] = dc->skip;
        d->tables.ac_skip_before[i] = ac->skip;
        d->tables.component[i] = (uint8_t)c;
    }
}

/* From one marker to the next; false where there is anything but a whole segment. */
static bool next_segment(const struct jpeg_decoder *d, size_t *at, unsigned *marker, size_t *size)
{
    size_t i = *at;
    if (i >= d->length || d->data[i++] != 0xff)
        return false;
    while (i < d->length && d->data[i] == 0xff)
        i++; /* fill bytes */
    if (i + 3 > d->length)
        return false;
    *marker = d->data[i++];
    *size = be16(d->data + i);
    *at = i;
    return *size >= 2 && *size <= d->length - i;
}

pst_status jpeg_header_read(struct jpeg_decoder *d, pst_error *reterr)
{
    struct header h = {0};
    size_t at = 2, size = 0;
    unsigned marker = 0;
    d->scan = 0;
    d->restart = 0;
    d->frame = (struct jpeg_frame){0};
    bool good = d->length >= 2 && d->data[0] == 0xff && d->data[1] == SOI;
    while (good && marker != SOS) {
        good = next_segment(d, &at, &marker, &size) && read_segment(d, &h, marker, d->data + at + 2, size - 2);
        at += size;
    }
    if (!good || !complete_tables(d, &h))
        return pst_fail_at(reterr, PST_EUNSUPPORTED, NULL, PST_NOWHERE, at < d->length ? at : d->length,
                           "jpeg: not a baseline image in one scan, gray or sampled 4:4:4, 4:2:2, 4:4:0 or 4:2:0");
    d->frame.rgb = is_rgb(d, &h);
    list_blocks(d);
    d->scan = at;
    return PST_OK;
}
