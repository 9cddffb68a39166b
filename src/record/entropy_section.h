/* entropy_section.h: the JPEG section of a sidecar: where decoding may begin inside the JPEGs of a shard. Format: docs/formats.md.
 *
 * Each entry vouches for itself: it has a checksum of its own, and the hash of the bytes it was made from. So a section is
 * mapped and never read as a whole, and damage costs the entries it touches. */
#ifndef RECORD_ENTROPY_SECTION_H
#define RECORD_ENTROPY_SECTION_H

#include "codec/jpeg/points.h"
#include <penstock/record.h>

/* As it is stored. Entries rise by record, then by offset. */
struct entropy_entry {
    uint64_t record;
    uint32_t offset, length; /* of the JPEG in the record's payload */
    uint64_t hash;           /* of its bytes */
    uint64_t first;          /* of its points, among all */
    uint32_t count;
    uint32_t reserved; /* 0 */
    uint64_t checksum; /* of what is above, and of the points */
};

/* JPEGs that were found, and why some of them have no points. */
struct entropy_sums {
    uint64_t jpegs, bytes;
    uint64_t foreign; /* of a kind that is left to libjpeg-turbo: progressive, CMYK, … */
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

/* `data` is aligned to 8. False: damaged, or of a version that is not known. Looks at the first 64 bytes alone. */
bool entropy_section_open(struct entropy_section *ret, const void *data, size_t length);
/* The entries of a record: returns the first, NULL if there are none. Safe with any content. */
const struct entropy_entry *entropy_section_find(const struct entropy_section *s, uint64_t record, size_t *ret_count);
/* The points of an entry, as far as they lie inside the section; only for an entry that entropy_section_points took before. */
bool entropy_section_view(const struct entropy_section *s, const struct entropy_entry *e, struct jpeg_points *ret);
/* The points of an entry whose checksum is right. */
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
/* Adds `other`, whose records count from `first_record`. */
pst_status entropy_builder_append(struct entropy_builder *b, const struct entropy_builder *other, uint64_t first_record,
                                  pst_error *reterr);
/* The section's bytes, mem_free'd by the caller. */
pst_status entropy_builder_bytes(const struct entropy_builder *b, uint8_t **ret, size_t *ret_length, pst_error *reterr);

/* Finds JPEGs in records and their points; one thread at a time. */
struct entropy_scanner;
pst_status entropy_scanner_create(struct entropy_scanner **ret, pst_error *reterr);
struct entropy_scanner *entropy_scanner_destroy(struct entropy_scanner *s); /* NULL ok; returns NULL */
/* Adds the JPEGs of a record: those among the bytes of an Example, or the record itself. Only memory can fail. */
pst_status entropy_scanner_add(struct entropy_scanner *s, struct entropy_builder *b, uint64_t record, const void *payload,
                               size_t length, pst_error *reterr);

#endif
