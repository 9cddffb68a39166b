/* sample.h: estimates the size of records that are known only after they are made. */
#ifndef PACK_SAMPLE_H
#define PACK_SAMPLE_H

#include "pack/plan.h"
#include "pack/recipe.h"
#include "pack/report.h"

/* Returns the bytes of the average record, framing included, from a fixed sample. 0: all sampled items were bad. */
pst_status pack_sample(const struct pack_plan *plan, const struct recipe *recipe, struct pack_ticker *ticker, double *ret,
                       pst_error *reterr);

#endif
