/* chunk.h: a run of consecutive records of one shard, framed in memory, with everything that is reported about them. */
#ifndef PACK_CHUNK_H
#define PACK_CHUNK_H

#include "base/text.h"
#include "record/entropy_section.h"
#include "record/index.h"
#include <penstock/image.h>

/* Statistics of the images of a set of records. */
struct pack_images {
    uint64_t count;
    uint32_t formats, channels; /* a bit for each that occurs */
    uint32_t min_width, max_width, min_height, max_height;
};

void pack_images_add(struct pack_images *s, const pst_image_info *info);
void pack_images_merge(struct pack_images *s, const struct pack_images *other);

struct chunk {
    uint8_t *data;
    size_t length, capacity;
    struct index_entry *entries; /* offsets count from the chunk's start */
    size_t count, entry_capacity;
    uint64_t payload;             /* bytes without the framing */
    struct entropy_builder jpegs; /* if requested; records count from the chunk's first */
    struct pack_images images;
    struct text skips; /* as note_add_skip writes them */
    uint64_t skip_count;
    /* Its position in the work; maintained by workers.c. */
    size_t shard;
    uint64_t begin, end; /* positions in the split's order */
    uint64_t ticket, sequence, offset;
    struct chunk *next;
};

void chunk_reset(struct chunk *c);
/* Makes room for `length` more bytes. Returns where they go, or NULL when out of memory. Does not count them yet. */
uint8_t *chunk_reserve(struct chunk *c, size_t length);
/* Counts a record of `payload` bytes that was framed at the chunk's end. */
pst_status chunk_add(struct chunk *c, size_t payload, pst_error *reterr);
void chunk_finish(struct chunk *c);

#endif
