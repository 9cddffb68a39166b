/* compose.h: one item to one framed record at the end of a chunk. */
#ifndef PACK_COMPOSE_H
#define PACK_COMPOSE_H

#include "pack/chunk.h"
#include "pack/recipe.h"
#include "pack/transform.h"

struct feature_slot;

/* State of one worker. */
struct composer {
    const struct recipe *recipe;
    void *loader; /* state of the source for this worker */
    struct pack_value *values;
    struct feature_slot *slots;
    struct transform transform;
    uint8_t *scratch;
    size_t scratch_capacity;
    struct text key;
    int64_t sizes[3];                /* width, height, channels */
    struct entropy_scanner *scanner; /* NULL: no points inside JPEGs are requested */
};

/* One for each worker. */
pst_status composers_create(struct composer **ret, const struct recipe *r, unsigned count, pst_error *reterr);
void composers_destroy(struct composer *composers, unsigned count); /* NULL ok */

/* Appends the record of `item` (`copy` 0: as it is, else augmented). On failure the chunk is unchanged. */
pst_status composer_add(struct composer *c, struct chunk *chunk, uint64_t item, uint32_t copy, pst_error *reterr);
/* Returns the name of an item's record: its key, followed by #COPY for copies. Valid until the next call. */
const char *composer_key(struct composer *c, uint64_t item, uint32_t copy, pst_error *reterr);

#endif
