/* compose.h: one item to one framed record at the end of a chunk, its image transformed on the way. */
#ifndef PACK_COMPOSE_H
#define PACK_COMPOSE_H

#include "pack/chunk.h"
#include "pack/pack_options.h"
#include "pack/recipe.h"

/* transform.c: transforms one image between its source and its record. A pure function of the image, the options, and the
 * numbers of the item and the copy. */

struct transform_input {
    const void *data; /* an encoded image… */
    size_t length;
    const pst_image *pixels; /* …or, if not NULL, decoded ones */
};

struct transform_output {
    const void *data;
    size_t length;
    pst_image_info info; /* of `data` */
};

/* Memory of one worker; zeroed at first. */
struct transform {
    pst_image decoded; /* kept for the copies that may follow */
    uint64_t item;     /* the item it belongs to, counted from 1; 0: none */
    pst_image result;
    uint8_t *encoded;
};

/* `copy` 0 is the original, 1 and up are augmented. If there is nothing to do, the output is the input itself. The output is
 * valid until the next call. */
pst_status transform_run(struct transform *t, const struct pack_config *c, uint64_t item, uint32_t copy,
                         const struct transform_input *in, struct transform_output *ret, pst_error *reterr);
void transform_finish(struct transform *t);

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
