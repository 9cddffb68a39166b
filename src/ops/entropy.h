/* entropy.h: entropy indexes of a source's JPEGs, for the operation that decodes them: read from the shards' sidecars, or made
 * on first use and kept within a budget. Shared by all workers, without locks on the way to a point.
 *
 * An entry belongs to the bytes it was made from: their length and hash are compared when an image is first seen, and an entry
 * of other bytes is counted and never used again. */
#ifndef OPS_ENTROPY_H
#define OPS_ENTROPY_H

#include "codec/jpeg/decoder.h"
#include "ops/source.h"
#include "record/entropy.h"

#include <stdatomic.h>

struct entropy;

/* Where the points of an element's JPEGs are stored. */
struct entropy_home {
    const struct entropy_section *section; /* NULL: it is damaged */
    uint64_t record;                       /* of the section */
    _Atomic uint32_t *states; /* one an entry, zeroed at first, kept by entropy.c; one in all where it is damaged */
};

/* For the JPEGs of `source`. At most `budget` bytes are spent on points that are stored nowhere; 0: none are made. */
pst_status entropy_create(struct entropy **ret, const struct source_class *source_class, const void *source, uint64_t samples,
                          uint64_t budget, pst_error *reterr);
struct entropy *entropy_destroy(struct entropy *e); /* NULL ok; returns NULL */

struct entropy_counts {
    uint64_t stored, made; /* images that had points in a sidecar; that got theirs here */
    uint64_t stale;        /* entries that belonged to other bytes, or were damaged; damaged sections */
};

/* The points of the JPEG that decoder `d` has open, of element `sample`; makes them where they are to be made. False: it has
 * none. `e` may be NULL. They stay valid as long as the source. */
bool entropy_points(struct entropy *e, uint64_t sample, struct jpeg_decoder *d, const void *jpeg, size_t length,
                    struct jpeg_points *ret);
/* The decoder found that they contradict the data. */
void entropy_refuse(struct entropy *e, uint64_t sample, const void *jpeg, size_t length);

struct entropy_counts entropy_count(const struct entropy *e); /* NULL ok */
uint64_t entropy_bytes(const struct entropy *e);              /* that are spent; NULL ok */

#endif
