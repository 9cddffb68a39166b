/* pack_plan.h: which record goes where: a pure function of the source and the options.
 *
 * A unit is a record to be: copy `unit % copies` of item `unit / copies`. Units are ordered (as in the source, or by a
 * permutation from the seed), assigned to splits by the hash of their item's key, and each split is divided into shards of
 * equal count. */
#ifndef PACK_PACK_PLAN_H
#define PACK_PACK_PLAN_H

#include "base/random.h"
#include "pack/pack_source.h"

struct plan_split {
    const char *name;
    uint64_t count;  /* units */
    uint64_t *order; /* unit at each position; NULL: all units are in this split, in the plan's own order */
    uint32_t shards;
    size_t first_shard; /* among those of all splits */
};

struct pack_plan {
    const struct pack_source *source;
    uint32_t copies; /* of each item, the original included */
    uint64_t units;
    struct permutation permutation; /* if the options shuffle */
    struct plan_split *splits;
    size_t split_count, shard_count;
};

/* Zero-initialise `p` first. Assigns the units to splits; the number of shards is set later. */
pst_status pack_plan_init(struct pack_plan *p, const struct pack_source *s, pst_error *reterr);
/* Sets a split's shards, at most one per unit. Call for all splits in turn. */
void pack_plan_divide(struct pack_plan *p, size_t split, uint64_t shards);
void pack_plan_finish(struct pack_plan *p);

/* The unit at a position of a split. */
uint64_t pack_plan_unit(const struct pack_plan *p, size_t split, uint64_t position);
/* The positions [*ret_begin, *ret_end) of the split that a shard holds; returns the split. */
size_t pack_plan_shard(const struct pack_plan *p, size_t shard, uint64_t *ret_begin, uint64_t *ret_end);
/* "NAME-SPLIT.tfrecord-00000-of-00016", mem_free'd by the caller. NULL: out of memory. */
char *pack_plan_shard_name(const struct pack_plan *p, size_t shard);

#endif
