/* read_shards.h: reads shards in parallel and collects statistics of their contents. */
#ifndef INSPECT_READ_SHARDS_H
#define INSPECT_READ_SHARDS_H

#include "inspect/findings.h"

/* `shards` has `count` elements with their paths set; everything else in them is filled in. `options` has its sample set.
 * Zero-initialise `ret_choice` and `ret_findings` first and finish both in any case. The result depends only on the shards
 * and the options, not on the number of workers. */
pst_status survey(pst_inspect_shard *shards, size_t count, const pst_inspect_options *options, struct choice *ret_choice,
                  struct findings *ret_findings, pst_error *reterr);

/* Reads the first records of some of the shards. Features named in `options` are used; the others are chosen.
 * Zero-initialise `ret` first; choice_finish in any case. */
pst_status take_first_look(struct choice *ret, const char *const *paths, size_t count, const pst_inspect_options *options,
                           pst_error *reterr);

#endif
