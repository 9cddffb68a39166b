/* inspection.h: the result of pst_inspect, and what pst_inspect_sheet needs to read the shards again. */
#ifndef INSPECT_INSPECTION_H
#define INSPECT_INSPECTION_H

#include "base/arena.h"
#include "inspect/findings.h"

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

#endif
