/* tfrecord_stream.h: shards without random access, one after the other, from front to back. */
#ifndef OPS_TFRECORD_STREAM_H
#define OPS_TFRECORD_STREAM_H

#include "ops/shard_set.h"

/* What is remembered from one pass to the next, by shard. */
enum shard_past {
    SHARD_NEW,
    SHARD_BEGUN,
    SHARD_KNOWN /* read to its end: its damage has been told */
};

struct tfrecord_stream;

/* Borrows everything. `past` has an entry a shard, zeroed at first. */
pst_status tfrecord_stream_open(struct tfrecord_stream **ret, const struct shard_set *set, enum shard_past *past,
                                bool no_verify, pst_damage_log *damage, pst_error *reterr);
/* A view, valid until the next call. OK, END or < 0. */
pst_status tfrecord_stream_next(struct tfrecord_stream *t, const pst_bytes **ret, pst_error *reterr);
void tfrecord_stream_close(struct tfrecord_stream *t); /* NULL ok */

#endif
