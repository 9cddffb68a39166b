/* transform.h: transforms one image between its source and its record. A pure function of the image, the options, and the
 * numbers of the item and the copy. */
#ifndef PACK_TRANSFORM_H
#define PACK_TRANSFORM_H

#include "pack/options.h"

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

#endif
