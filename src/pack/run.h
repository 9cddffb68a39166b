/* run.h: the work itself: all shards of a plan that are not complete yet, by any number of workers. */
#ifndef PACK_RUN_H
#define PACK_RUN_H

#include "pack/plan.h"
#include "pack/recipe.h"
#include "pack/shard_out.h"
#include "pack/ticker.h"

/* Bad items: how many there may be and how many there are. */
struct bad_budget {
    bool skip;
    uint64_t allowed; /* UINT64_MAX: any number */
    uint64_t found;   /* before the run, then after it */
};

/* Packs what is not done in `shards`. Complete shards stay complete, whatever the outcome; the others leave no trace. */
pst_status pack_run(const struct pack_plan *plan, const struct recipe *recipe, struct out_shard *shards, struct bad_budget *bad,
                    struct pack_ticker *ticker, pst_error *reterr);

#endif
