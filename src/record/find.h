/* find.h: from what a user names to a list of shards, and what a shard is called. */
#ifndef RECORD_FIND_H
#define RECORD_FIND_H

#include "io/walk.h"

/* These take a name without its folder. */
bool find_is_shard(const char *name);      /* "x.tfrecord", "x.tfrecord-00000-of-00016.gz", an event file, … */
bool find_is_event_file(const char *name); /* "events.out.tfevents.…" */

/* As pst_shards_find of <penstock/inspect.h>; `*ret` is finished by the caller. */
pst_status find_shards(struct path_list *ret, const char *const *paths, size_t count, pst_error *reterr);

/* PST_ENOTFOUND if `found`, which find_shards made of `paths`, lacks a shard of a numbered set (x-00003-of-00008) that a folder or
 * a pattern among the paths stands for. `remedy` ends the message. */
pst_status find_missing(const struct path_list *found, const char *const *paths, size_t count, const char *remedy,
                        pst_error *reterr);

#endif
