/* entropy_section.c: the JPEG section as bytes, written and read.
 *
 * Promises: nothing outside of the section is read, whatever it holds; points are returned only if the entry's checksum
 * matches them. The caller checks whether the entry belongs to its JPEG; entropy_scan.c finds JPEGs in records. */
#include "record/entropy_section.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/memory.h"

#include <string.h>

#define HEADER 64u

enum {
    AT_STEP = 0,
    AT_ENTRY = 4,
    AT_ENTRIES = 8,
    AT_POINTS = 16,
    AT_JPEGS = 24,
    AT_BYTES = 32,
    AT_FOREIGN = 40,
    AT_DAMAGED = 48,
    AT_CHECKSUM = 56
};

_Static_assert(sizeof(struct entropy_entry) == 48, "entries are used as they lie in the file");
_Static_assert(sizeof(struct jpeg_point) == 10, "points are used as they lie in the file");

/* ---- Reading ---- */

bool entropy_section_open(struct entropy_section *ret, const void *data, size_t length)
{
    const uint8_t *p = data;
    if (length < HEADER || hash_bytes(p, AT_CHECKSUM, 0) != le64(p + AT_CHECKSUM) || le32(p + AT_STEP) != JPEG_POINT_STEP ||
        le32(p + AT_ENTRY) != sizeof(struct entropy_entry))
        return false;
    uint64_t entries = le64(p + AT_ENTRIES), points = le64(p + AT_POINTS);
    size_t left = length - HEADER;
    if (entries > left / sizeof(struct entropy_entry))
        return false;
    left -= (size_t)entries * sizeof(struct entropy_entry);
    if (points > left / sizeof(struct jpeg_point))
        return false;
    *ret = (struct entropy_section){.entries = (const void *)(p + HEADER),
                                    .count = entries,
                                    .points = (const void *)(p + HEADER + entries * sizeof(struct entropy_entry)),
                                    .point_count = points,
                                    .sums = {.jpegs = le64(p + AT_JPEGS),
                                             .bytes = le64(p + AT_BYTES),
                                             .foreign = le64(p + AT_FOREIGN),
                                             .damaged = le64(p + AT_DAMAGED)}};
    return true;
}

const struct entropy_entry *entropy_section_find(const struct entropy_section *s, uint64_t record, size_t *ret_count)
{
    uint64_t low = 0, high = s->count;
    if (record < high && s->entries[record].record == record && (record == 0 || s->entries[record - 1].record != record))
        low = high = record; /* mostly every record holds one JPEG */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s->entries[middle].record < record)
            low = middle + 1;
        else
            high = middle;
    }
    size_t n = 0;
    while (low + n < s->count && s->entries[low + n].record == record)
        n++;
    *ret_count = n;
    return n ? &s->entries[low] : NULL;
}

static uint64_t entry_checksum(const struct entropy_entry *e, const struct jpeg_point *points, size_t count)
{
    return hash_bytes(points, count * sizeof(*points), hash_bytes(e, offsetof(struct entropy_entry, checksum), 0));
}

bool entropy_section_view(const struct entropy_section *s, const struct entropy_entry *e, struct jpeg_points *ret)
{
    struct entropy_entry copy = *e; /* other processes use the file, too */
    if (copy.first > s->point_count || copy.count > s->point_count - copy.first)
        return false;
    *ret = (struct jpeg_points){
        .step = JPEG_POINT_STEP, .count = copy.count, .known = copy.count, .sound = true, .point = s->points + copy.first};
    return true;
}

bool entropy_section_points(const struct entropy_section *s, const struct entropy_entry *e, struct jpeg_points *ret)
{
    struct jpeg_points points;
    if (!entropy_section_view(s, e, &points) || entry_checksum(e, points.point, points.count) != e->checksum)
        return false;
    *ret = points;
    return true;
}

/* ---- Making ---- */

void entropy_builder_reset(struct entropy_builder *b)
{
    b->count = b->point_count = 0;
    b->sums = (struct entropy_sums){0};
}

void entropy_builder_finish(struct entropy_builder *b)
{
    mem_free(b->entries);
    mem_free(b->points);
    *b = (struct entropy_builder){0};
}

pst_status entropy_builder_append(struct entropy_builder *b, const struct entropy_builder *other, uint64_t first_record,
                                  pst_error *reterr)
{
    if (mem_grow((void **)&b->entries, &b->capacity, b->count + other->count, sizeof(*b->entries)) < 0 ||
        mem_grow((void **)&b->points, &b->point_capacity, b->point_count + other->point_count, sizeof(*b->points)) < 0)
        return fail_memory(reterr, "allocating an entropy index of %zu JPEGs", b->count + other->count);
    for (size_t i = 0; i < other->count; i++) {
        struct entropy_entry e = other->entries[i];
        e.record += first_record;
        e.first += b->point_count;
        b->entries[b->count++] = e;
    }
    if (other->point_count)
        memcpy(b->points + b->point_count, other->points, other->point_count * sizeof(*b->points));
    b->point_count += other->point_count;
    b->sums.jpegs += other->sums.jpegs;
    b->sums.bytes += other->sums.bytes;
    b->sums.foreign += other->sums.foreign;
    b->sums.damaged += other->sums.damaged;
    return PST_OK;
}

static void put_header(uint8_t *p, const struct entropy_builder *b)
{
    put_le32(p + AT_STEP, JPEG_POINT_STEP);
    put_le32(p + AT_ENTRY, sizeof(struct entropy_entry));
    put_le64(p + AT_ENTRIES, b->count);
    put_le64(p + AT_POINTS, b->point_count);
    put_le64(p + AT_JPEGS, b->sums.jpegs);
    put_le64(p + AT_BYTES, b->sums.bytes);
    put_le64(p + AT_FOREIGN, b->sums.foreign);
    put_le64(p + AT_DAMAGED, b->sums.damaged);
    put_le64(p + AT_CHECKSUM, hash_bytes(p, AT_CHECKSUM, 0));
}

pst_status entropy_builder_bytes(const struct entropy_builder *b, uint8_t **ret, size_t *ret_length, pst_error *reterr)
{
    size_t entries = b->count * sizeof(*b->entries), points = b->point_count * sizeof(*b->points);
    uint8_t *bytes = mem_alloc(HEADER + entries + points);
    if (!bytes)
        return fail_memory(reterr, "allocating an entropy index of %zu JPEGs", b->count);
    put_header(bytes, b);
    for (size_t i = 0; i < b->count; i++) {
        struct entropy_entry e = b->entries[i];
        e.checksum = entry_checksum(&e, b->points + e.first, e.count);
        memcpy(bytes + HEADER + i * sizeof(e), &e, sizeof(e));
    }
    if (points)
        memcpy(bytes + HEADER + entries, b->points, points);
    *ret = bytes;
    *ret_length = HEADER + entries + points;
    return PST_OK;
}
