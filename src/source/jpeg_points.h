/* jpeg_points.h: entropy indexes of a source's JPEGs, for the operation that decodes them: read from the shards' sidecars,
 * or collected while decoding, and kept within a budget. Shared by all workers; reading a point takes no lock.
 *
 * An entry belongs to the bytes it was made from: their length and hash are compared when an image is first seen, and an
 * entry for different bytes is counted and never used again. */
#ifndef SOURCE_JPEG_POINTS_H
#define SOURCE_JPEG_POINTS_H

#include "codec/jpeg/decoder.h"
#include "source/source.h"
#include "record/entropy_section.h"

#include <stdatomic.h>

struct entropy;

/* Where the points of an element's JPEGs are stored. */
struct entropy_home {
    const struct entropy_section *section; /* NULL: it is damaged */
    uint64_t record;                       /* record number in the section */
    _Atomic uint32_t *states; /* one per entry, zeroed at first, maintained by jpeg_points.c; a single one if the section is
                                 damaged */
};

/* Creates the indexes for the JPEGs of `source`. Uses up to `budget` bytes for points that are not stored; 0: keeps none. */
pst_status entropy_create(struct entropy **ret, const struct source_class *source_class, const void *source, uint64_t samples,
                          uint64_t budget, pst_error *reterr);
struct entropy *entropy_destroy(struct entropy *e); /* NULL ok; returns NULL */

struct entropy_counts {
    uint64_t stored, made; /* images with points in a sidecar; images whose points were collected here */
    uint64_t stale;        /* entries that belonged to other bytes, or were damaged; damaged sections */
};

/* The points of an image while a worker decodes it. */
struct entropy_use {
    struct jpeg_points points;   /* stay valid as long as the source */
    struct collected *collected; /* owned by jpeg_points.c; NULL: they are stored */
};

/* Stores the points of the JPEG that decoder `d` has open, of element `sample`, and room for more if this worker is the one
 * that adds them. False: there are none and none can be added. Otherwise call entropy_done before the same worker calls this
 * again. `e` may be NULL. */
bool entropy_begin(struct entropy *e, uint64_t sample, const struct jpeg_decoder *d, const void *jpeg, size_t length,
                   struct entropy_use *ret);
/* Publishes the added points to all workers. */
void entropy_done(struct entropy *e, struct entropy_use *u);
/* Rejects stored points after the decoder found that they contradict the data (PST_ESTALE). */
void entropy_refuse(struct entropy *e, uint64_t sample, const void *jpeg, size_t length);

struct entropy_counts entropy_count(const struct entropy *e); /* NULL ok */
uint64_t entropy_bytes(const struct entropy *e);              /* bytes in use; NULL ok */

#endif
