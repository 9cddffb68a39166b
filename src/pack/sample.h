/* sample.h: how large records will be that have to be made first to be known. */
#ifndef PACK_SAMPLE_H
#define PACK_SAMPLE_H

#include "pack/plan.h"
#include "pack/recipe.h"
#include "pack/ticker.h"

/* Bytes of the average record, framing included, from a sample of them that is always the same. 0: all of it was bad. */
pst_status pack_sample(const struct pack_plan *plan, const struct recipe *recipe, struct pack_ticker *ticker, double *ret,
                       pst_error *reterr);

#endif
