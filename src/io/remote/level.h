/* level.h: one level of a bucket. A program that looks whether a folder exists usually lists it next: the first page of the list is kept for one
 * second, so that it is requested once. */
#ifndef IO_REMOTE_LEVEL_H
#define IO_REMOTE_LEVEL_H

#include "io/remote/listing.h"

/* Stores whether objects lie below `prefix`, which ends with a slash. `no_object`: the store has just answered that no object has the name
 * without the slash. */
pst_status level_look(const char *prefix, bool no_object, bool *ret_any, pst_error *reterr);
/* Returns whether level_look found objects a moment ago, with `no_object`. */
bool level_is_folder(const char *prefix);
/* Visits one level as listing_visit_all does, from the kept list if there is one. */
pst_status level_visit(const char *prefix, listing_visit visit, void *user, pst_error *reterr);
/* Drops the kept list: this process has changed a bucket. */
void level_forget(void);

#endif
