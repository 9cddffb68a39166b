/* transform.h: what happens to one image between its source and its record. A pure function of the image, the options,
 * the item's number and the copy's. */
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

/* A worker's own memory; zeroed to begin with. */
struct transform {
    pst_image decoded; /* kept for the copies that may follow */
    uint64_t item;     /* whose it is, counted from 1; 0: nobody's */
    pst_image result;
    uint8_t *encoded;
};

/* `copy` 0 is the original, 1 and up are augmented. Where nothing is to be done the output is the input itself. The
 * output holds until the next call. */
pst_status transform_run(struct transform *t, const struct pack_config *c, uint64_t item, uint32_t copy,
                         const struct transform_input *in, struct transform_output *ret, pst_error *reterr);
void transform_finish(struct transform *t);

#endif
