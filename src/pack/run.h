/* run.h: writes all shards of a plan that are not complete yet, with any number of workers. */
#ifndef PACK_RUN_H
#define PACK_RUN_H

#include "pack/plan.h"
#include "pack/recipe.h"
#include "pack/shard_out.h"
#include "pack/report.h"

/* Bad items: how many are allowed and how many were found. */
struct bad_budget {
    bool skip;
    uint64_t allowed; /* UINT64_MAX: any number */
    uint64_t found;   /* before the run, then after it */
};

/* Packs the `count` shards, consecutive ones of the plan, that are not done. Complete shards stay complete, even after a
 * failure; the others leave no files. */
pst_status pack_run(const struct pack_plan *plan, const struct recipe *recipe, struct out_shard *shards, size_t count,
                    struct bad_budget *bad, struct pack_ticker *ticker, pst_error *reterr);

#endif
