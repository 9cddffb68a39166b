/* level.h: one level of a bucket. Whoever looks whether a folder is there lists it next: the first page of the list is kept for a
 * second, so that it is asked for once. */
#ifndef IO_REMOTE_LEVEL_H
#define IO_REMOTE_LEVEL_H

#include "io/remote/listing.h"

/* Whether objects lie below `prefix`, which ends with a slash. `no_object`: the store has just said that no object has the name
 * without the slash. */
pst_status level_look(const char *prefix, bool no_object, bool *ret_any, pst_error *reterr);
/* True when that was found a moment ago, `no_object` included. */
bool level_is_folder(const char *prefix);
/* As listing_visit_all, of one level; a list that is kept serves. */
pst_status level_visit(const char *prefix, listing_visit visit, void *user, pst_error *reterr);
/* This process changed something in a bucket. */
void level_forget(void);

#endif
