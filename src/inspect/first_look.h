/* first_look.h: reads a few records to decide how the rest is interpreted. */
#ifndef INSPECT_FIRST_LOOK_H
#define INSPECT_FIRST_LOOK_H

#include "inspect/findings.h"

/* Reads the first records of some of the shards. Features named in `options` are used; the others are chosen.
 * Zero-initialise `ret` first; choice_finish in any case. */
pst_status take_first_look(struct choice *ret, const char *const *paths, size_t count, const pst_inspect_options *options,
                 pst_error *reterr);

#endif
