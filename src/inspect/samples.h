/* samples.h: reads some images from the shards of an inspection. */
#ifndef INSPECT_SAMPLES_H
#define INSPECT_SAMPLES_H

#include "inspect/inspection.h"
#include "inspect/spread.h"

struct sample {
    uint64_t number; /* of the record, counted over all shards */
    pst_bytes image;
    pst_image_info info;
    bool has_label;
    int64_t label;
    const char *name; /* of the class; "" where unknown */
};

/* Calls `see` for every position of `spread` (over the records of all shards) whose record has an image, with `k` as the
 * position's number. Damaged records are skipped. Any result but PST_OK from `see` ends the visit. */
typedef pst_status (*sample_fn)(void *user, uint64_t k, const struct sample *sample, pst_error *reterr);
pst_status samples_visit(const struct inspection *n, const struct spread *spread, sample_fn see, void *user, pst_error *reterr);

#endif
