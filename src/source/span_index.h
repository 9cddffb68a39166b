/* span_index.h: where the elements of a file begin, for files that are cut into pieces of different lengths: rows of a table,
 * lines, samples of a tar. Kept beside the file or in the cache folder. Format: docs/formats.md. */
#ifndef SOURCE_SPAN_INDEX_H
#define SOURCE_SPAN_INDEX_H

#include "io/mapping.h"
#include <penstock/record.h>

#define SPAN_BLOCK 256u /* spans whose offsets are stored relative to the first of them */

/* An index in memory or mapped. A mapped one may change whenever another process writes to the file: offsets are checked
 * when they are used. */
struct span_index {
    const uint8_t *blocks;
    uint64_t count;
    uint64_t end;         /* of the last span */
    const char *note;     /* what the scan noted; not terminated, and as changeable as offsets */
    size_t note_bytes;
    unsigned width;       /* bytes of an offset within a block: 4 or 8 */
    pst_index_place place; /* PST_INDEX_MEMORY: it could not be kept */
    bool built;           /* made now, not found */
    char *path;           /* NULL: in memory only */
    void *memory;
    struct mapping mapping;
};

/* The file that an index belongs to, and how it was cut. */
struct span_subject {
    const char *path;
    const char *kind; /* of the spans: "rows"; part of the index' name */
    uint64_t bytes, fingerprint;
    bool remote;   /* reading from a bucket must not write to it */
    uint64_t form; /* hash of everything that decides where the spans begin */
};

/* Receives the begin of one span after the other, in the order of the file. */
struct span_builder;
pst_status span_builder_add(struct span_builder *b, uint64_t begin, pst_error *reterr);
/* Adds to the note about the file, which the index keeps beside the spans. */
pst_status span_builder_note(struct span_builder *b, const void *note, size_t length, pst_error *reterr);

/* Scans the file: calls span_builder_add for every span and stores the end of the last. `*ret_partial` is set where damage
 * was tolerated: such an index is not kept. */
typedef pst_status (*span_scan)(void *user, struct span_builder *b, uint64_t *ret_end, bool *ret_partial, pst_error *reterr);

/* Finds the index of the file, or makes it and keeps it if that is possible. `copied`: nothing is mapped. */
pst_status span_index_open(struct span_index *ret, const struct span_subject *subject, const char *cache_dir, bool copied,
                           span_scan scan, void *user, pst_error *reterr);
void span_index_finish(struct span_index *x); /* zeroed ok; leaves it zeroed */

/* Returns where span `i` begins. */
static inline uint64_t span_index_begin(const struct span_index *x, uint64_t i)
{
    const uint8_t *block = x->blocks + i / SPAN_BLOCK * (8 + (uint64_t)SPAN_BLOCK * x->width);
    uint64_t base = __atomic_load_n((const uint64_t *)(const void *)block, __ATOMIC_RELAXED), delta;
    const uint8_t *at = block + 8 + i % SPAN_BLOCK * x->width;
    delta = x->width == 4 ? __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED)
                          : __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
    return base + delta;
}

/* Returns where span `i` ends. */
static inline uint64_t span_index_end(const struct span_index *x, uint64_t i)
{
    return i + 1 < x->count ? span_index_begin(x, i + 1) : x->end;
}

#endif
