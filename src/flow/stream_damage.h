/* stream_damage.h: damage that a stream meets while it is read ahead, until the consumer judges it in its turn. */
#ifndef FLOW_STREAM_DAMAGE_H
#define FLOW_STREAM_DAMAGE_H

#include "io/walk.h"
#include <penstock/record.h>

struct stream_damage {           /* zeroed at first; one thread at a time */
    pst_damage_log *log; /* what is told to this log comes here */
    bool tolerant;       /* otherwise the reader is told to stop */
    pst_damage *damage;
    size_t count, capacity;
    uint64_t total;         /* ever */
    struct path_list paths; /* what `damage` points to, each once */
};

pst_status stream_damage_init(struct stream_damage *b, bool tolerant, pst_error *reterr);
void stream_damage_finish(struct stream_damage *b);

#endif
