/* first_look.h: a first look at a few records, to decide what the rest is taken for. */
#ifndef INSPECT_FIRST_LOOK_H
#define INSPECT_FIRST_LOOK_H

#include "inspect/findings.h"

/* Looks at the first records of some of the shards. What `options` name stands; the rest is chosen. Zero-initialise
 * `ret` first; choice_finish in any case. */
pst_status take_first_look(struct choice *ret, const char *const *paths, size_t count, const pst_inspect_options *options,
                 pst_error *reterr);

#endif
