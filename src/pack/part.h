/* part.h: packing by many processes: each writes a range of the plan's shards into a folder of its own inside the output
 * folder; joining moves the shards to their place. A part is packed, resumed and locked like any output folder. */
#ifndef PACK_PART_H
#define PACK_PART_H

#include "pack/shard_out.h"
#include "pack/state.h"

/* The shards [*ret_begin, *ret_end) of the plan that this call writes. */
void pack_part_range(const struct pack_plan *p, size_t *ret_begin, size_t *ret_end);

/* Moves the shards that are not in the output folder yet out of the parts' folders. Every part must be complete and packed
 * by the same command; PST_ENOTFOUND names those that are not. Repeats without harm. */
pst_status pack_part_gather(struct pack_state *s, const struct pack_plan *p, const struct out_shard *shards, pst_error *reterr);
/* Removes the parts' folders after their shards were moved. */
pst_status pack_part_remove(const struct pack_config *c, pst_error *reterr);

#endif
