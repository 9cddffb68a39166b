/* inspection.h: the result of pst_inspect, and what pst_inspect_sheet needs to read the shards again. */
#ifndef INSPECT_INSPECTION_H
#define INSPECT_INSPECTION_H

#include "base/arena.h"
#include "inspect/findings.h"
#include "inspect/spread.h"

struct inspection {
    pst_inspection public; /* first: the caller holds a pointer to it */
    struct arena memory;   /* everything that `public` points to */
    struct choice choice;
    pst_damage_log *damage;
    pst_inspect_shard *shards;
    const char **names; /* of features as they are stored; NULL: one with a NUL inside */
    char *cache_dir;    /* NULL: none */
    uint64_t max_record_bytes;
};

static inline const struct inspection *inspection_of(const pst_inspection *inspection)
{
    return (const struct inspection *)inspection;
}

/* Reads some images from the shards of an inspection. */

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
