/* meta.h: the files that describe the shards to their readers, as TensorFlow Datasets lays them out: dataset_info.json,
 * features.json, labels.txt and LABEL.labels.txt. */
#ifndef PACK_META_H
#define PACK_META_H

#include "pack/plan.h"
#include "pack/recipe.h"
#include "pack/shard_out.h"

/* Call after all shards are done. */
pst_status pack_meta_publish(const struct pack_plan *p, const struct recipe *r, const struct out_shard *shards,
                             pst_error *reterr);

#endif
