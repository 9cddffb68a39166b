/* jpeg_points.h: entropy indexes of a source's JPEGs, for the operation that decodes them: read from the shards' sidecars, or
 * collected as decoding passes, and kept within a budget. Shared by all workers, without locks on the way to a point.
 *
 * An entry belongs to the bytes it was made from: their length and hash are compared when an image is first seen, and an entry
 * of other bytes is counted and never used again. */
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
    uint64_t record;                       /* of the section */
    _Atomic uint32_t *states; /* one an entry, zeroed at first, kept by entropy.c; one in all where it is damaged */
};

/* For the JPEGs of `source`. At most `budget` bytes are spent on points that are stored nowhere; 0: none are kept. */
pst_status entropy_create(struct entropy **ret, const struct source_class *source_class, const void *source, uint64_t samples,
                          uint64_t budget, pst_error *reterr);
struct entropy *entropy_destroy(struct entropy *e); /* NULL ok; returns NULL */

struct entropy_counts {
    uint64_t stored, made; /* images that had points in a sidecar; of which points were collected here */
    uint64_t stale;        /* entries that belonged to other bytes, or were damaged; damaged sections */
};

/* What is known of an image while a worker decodes it. */
struct entropy_use {
    struct jpeg_points points;   /* stay valid as long as the source */
    struct collected *collected; /* entropy.c's; NULL: they are stored */
};

/* The points of the JPEG that decoder `d` has open, of element `sample`, and room for more where this worker is the one to add
 * them. False: there are none, nor will be. Otherwise entropy_done, before the same worker asks again. `e` may be NULL. */
bool entropy_begin(struct entropy *e, uint64_t sample, const struct jpeg_decoder *d, const void *jpeg, size_t length,
                   struct entropy_use *ret);
/* What was added is everybody's from now on. */
void entropy_done(struct entropy *e, struct entropy_use *u);
/* The decoder found that stored points contradict the data (PST_ESTALE). */
void entropy_refuse(struct entropy *e, uint64_t sample, const void *jpeg, size_t length);

struct entropy_counts entropy_count(const struct entropy *e); /* NULL ok */
uint64_t entropy_bytes(const struct entropy *e);              /* that are spent; NULL ok */

#endif
