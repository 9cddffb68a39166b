/* find.h: what a shard is called. */
#ifndef INSPECT_FIND_H
#define INSPECT_FIND_H

#include <stdbool.h>

/* These take a name without its folder. */
bool find_is_shard(const char *name);      /* "x.tfrecord", "x.tfrecord-00000-of-00016.gz", an event file, … */
bool find_is_event_file(const char *name); /* "events.out.tfevents.…" */

#endif
