/* find.h: finds the shards that a user names, and recognises names of shards. */
#ifndef RECORD_FIND_H
#define RECORD_FIND_H

#include "io/walk.h"

/* These take a name without its folder. */
bool find_is_shard(const char *name);      /* "x.tfrecord", "x.tfrecord-00000-of-00016.gz", an event file, … */
bool find_is_event_file(const char *name); /* "events.out.tfevents.…" */

/* Same as pst_shards_find of <penstock/inspect.h>; the caller finishes `*ret`. */
pst_status find_shards(struct path_list *ret, const char *const *paths, size_t count, pst_error *reterr);

/* Fails with PST_ENOTFOUND if `found`, the result of find_shards for `paths`, lacks a shard of a numbered set
 * (x-00003-of-00008) that a folder or a pattern among the paths matches. `remedy` ends the message. */
pst_status find_missing(const struct path_list *found, const char *const *paths, size_t count, const char *remedy,
                        pst_error *reterr);

#endif
