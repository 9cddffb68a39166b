/* entropy_section.h: the JPEG section of a sidecar: where decoding may begin inside the JPEGs of a shard. Format:
 * docs/formats.md.
 *
 * Each entry can be checked separately: it has its own checksum and the hash of the bytes it was made from. So a section is
 * mapped and never read as a whole, and damage loses only the entries it touches. */
#ifndef RECORD_ENTROPY_SECTION_H
#define RECORD_ENTROPY_SECTION_H

#include "codec/jpeg/points.h"
#include <penstock/record.h>

/* As stored. Entries are sorted by record, then by offset. */
struct entropy_entry {
    uint64_t record;
    uint32_t offset, length; /* position position position position of the JPEG in the record's payload */
    uint64_t hash;           /* hash of its bytes */
    uint64_t first;          /* number of its first point among all points */
    uint32_t count;
    uint32_t reserved; /* 0 */
    uint64_t checksum; /* checksum of the fields above and of the points */
};

/* Number of JPEGs found, and why some of them have no points. */
struct entropy_sums {
    uint64_t jpegs, bytes;
    uint64_t foreign; /* JPEGs that are left to libjpeg-turbo: progressive, CMYK, … */
    uint64_t damaged;
};

/* ---- Reading ---- */

struct entropy_section { /* views */
    const struct entropy_entry *entries;
    uint64_t count;
    const struct jpeg_point *points;
    uint64_t point_count;
    struct entropy_sums sums;
};

/* `data` is 8-byte aligned. False: damaged, or an unknown version. Reads only the first 64 bytes. */
bool entropy_section_open(struct entropy_section *ret, const void *data, size_t length);
/* Returns the first entry of a record, NULL if there are none. Safe with any content. */
const struct entropy_entry *entropy_section_find(const struct entropy_section *s, uint64_t record, size_t *ret_count);
/* Returns the points of an entry as far as they lie inside the section; only for an entry that entropy_section_points
 * accepted before. */
bool entropy_section_view(const struct entropy_section *s, const struct entropy_entry *e, struct jpeg_points *ret);
/* Returns the points of an entry after checking its checksum. */
bool entropy_section_points(const struct entropy_section *s, const struct entropy_entry *e, struct jpeg_points *ret);

/* ---- Making ---- */

struct entropy_builder { /* zeroed at first */
    struct entropy_entry *entries;
    size_t count, capacity;
    struct jpeg_point *points;
    size_t point_count, point_capacity;
    struct entropy_sums sums;
};

void entropy_builder_reset(struct entropy_builder *b); /* keeps its memory */
void entropy_builder_finish(struct entropy_builder *b);
/* Adds `other`, whose record 0 is record `first_record` here. */
pst_status entropy_builder_append(struct entropy_builder *b, const struct entropy_builder *other, uint64_t first_record,
                                  pst_error *reterr);
/* Returns the section's bytes; the caller releases them with mem_free. */
pst_status entropy_builder_bytes(const struct entropy_builder *b, uint8_t **ret, size_t *ret_length, pst_error *reterr);

/* Finds JPEGs in records and their points; one thread at a time. */
struct entropy_scanner;
pst_status entropy_scanner_create(struct entropy_scanner **ret, pst_error *reterr);
struct entropy_scanner *entropy_scanner_destroy(struct entropy_scanner *s); /* NULL ok; returns NULL */
/* Adds the JPEGs of a record: those among the bytes of an Example, or the record itself. Fails only when out of memory. */
pst_status entropy_scanner_add(struct entropy_scanner *s, struct entropy_builder *b, uint64_t record, const void *payload,
                               size_t length, pst_error *reterr);

#endif
