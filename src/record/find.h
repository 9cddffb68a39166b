/* find.h: from what a user names to a list of shards, and what a shard is called. */
#ifndef RECORD_FIND_H
#define RECORD_FIND_H

#include "io/walk.h"

/* These take a name without its folder. */
bool find_is_shard(const char *name);      /* "x.tfrecord", "x.tfrecord-00000-of-00016.gz", an event file, … */
bool find_is_event_file(const char *name); /* "events.out.tfevents.…" */

/* As pst_shards_find of <penstock/inspect.h>; `*ret` is finished by the caller. */
pst_status find_shards(struct path_list *ret, const char *const *paths, size_t count, pst_error *reterr);

#endif
