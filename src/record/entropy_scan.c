/* entropy_scan.c: JPEGs inside of records, and the points of each.
 *
 * A record that is not an Example, or is damaged, has no JPEGs here; the index does not report it. An image with a single
 * point gets none: decoding begins at its start anyway. */
#include "record/entropy_section.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "codec/jpeg/decoder.h"

#include <penstock/example.h>
#include <string.h>

struct entropy_scanner {
    struct jpeg_decoder *decoder;
    pst_parser *parser;
};

pst_status entropy_scanner_create(struct entropy_scanner **ret, pst_error *reterr)
{
    struct entropy_scanner *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "allocating a JPEG decoder");
    s->decoder = jpeg_decoder_create();
    pst_status st =
        s->decoder ? pst_parser_create(&s->parser, NULL, NULL, reterr) : fail_memory(reterr, "allocating a JPEG decoder");
    if (st < 0) {
        entropy_scanner_destroy(s);
        return st;
    }
    *ret = s;
    return PST_OK;
}

struct entropy_scanner *entropy_scanner_destroy(struct entropy_scanner *s)
{
    if (!s)
        return NULL;
    jpeg_decoder_free(s->decoder);
    pst_parser_destroy(s->parser);
    mem_free(s);
    return NULL;
}

static bool is_jpeg(const uint8_t *data, size_t length)
{
    return length > 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff;
}

static pst_status add_jpeg(struct entropy_scanner *s, struct entropy_builder *b, uint64_t record, size_t offset,
                           const uint8_t *data, size_t length, pst_error *reterr)
{
    struct jpeg_frame frame;
    b->sums.jpegs++;
    b->sums.bytes += length;
    pst_status st = offset > UINT32_MAX || length > UINT32_MAX ? PST_EUNSUPPORTED
                                                               : jpeg_decoder_open(s->decoder, data, length, &frame, reterr);
    size_t count = st == PST_OK ? jpeg_points_count(s->decoder) : 0;
    if (st < 0) {
        b->sums.foreign += st == PST_EUNSUPPORTED;
        b->sums.damaged += st != PST_EUNSUPPORTED && st != PST_ENOMEM;
        return st == PST_ENOMEM ? st : PST_OK;
    }
    if (count < JPEG_FEWEST_POINTS || count > UINT32_MAX)
        return PST_OK;
    if (mem_grow((void **)&b->entries, &b->capacity, b->count + 1, sizeof(*b->entries)) < 0 ||
        mem_grow((void **)&b->points, &b->point_capacity, b->point_count + count, sizeof(*b->points)) < 0)
        return fail_memory(reterr, "allocating an entropy index");
    st = jpeg_points_find(s->decoder, b->points + b->point_count, reterr);
    if (st < 0) {
        b->sums.damaged += st != PST_ENOMEM;
        return st == PST_ENOMEM ? st : PST_OK;
    }
    b->entries[b->count++] = (struct entropy_entry){.record = record,
                                                    .offset = (uint32_t)offset,
                                                    .length = (uint32_t)length,
                                                    .hash = hash_bytes(data, length, 0),
                                                    .first = b->point_count,
                                                    .count = (uint32_t)count};
    b->point_count += count;
    return PST_OK;
}

pst_status entropy_scanner_add(struct entropy_scanner *s, struct entropy_builder *b, uint64_t record, const void *payload,
                               size_t length, pst_error *reterr)
{
    const pst_named_value *features;
    const uint8_t *begin = payload;
    size_t count = 0;
    if (is_jpeg(payload, length))
        return add_jpeg(s, b, record, 0, payload, length, reterr);
    pst_status st = pst_parser_walk(s->parser, payload, length, &features, &count, reterr);
    if (st < 0)
        return st == PST_ENOMEM ? st : PST_OK;
    for (size_t i = 0; i < count; i++) {
        const pst_value *v = &features[i].value;
        const pst_bytes *bytes = v->data;
        for (size_t k = 0; v->kind == PST_BYTES && k < v->count && st == PST_OK; k++)
            if (is_jpeg(bytes[k].data, bytes[k].length))
                st = add_jpeg(s, b, record, (size_t)(bytes[k].data - begin), bytes[k].data, bytes[k].length, reterr);
    }
    return st;
}
