/* tfrecord_stream.h: reads shards without random access, one after the other, from beginning to end. */
#ifndef SOURCE_TFRECORD_STREAM_H
#define SOURCE_TFRECORD_STREAM_H

#include "source/shard_set.h"

struct tfrecord_stream;

/* Borrows everything. `begun` has one entry per shard, zeroed at first: whether the shard was read from before. */
pst_status tfrecord_stream_open(struct tfrecord_stream **ret, const struct shard_set *set, bool *begun, bool no_verify,
                                pst_damage_log *damage, pst_error *reterr);
/* A view, valid until the next call. OK, END or < 0. */
pst_status tfrecord_stream_next(struct tfrecord_stream *t, const pst_bytes **ret, pst_error *reterr);
/* Reports where the last record is stored. */
void tfrecord_stream_locate(const struct tfrecord_stream *t, struct source_place *ret);
void tfrecord_stream_close(struct tfrecord_stream *t); /* NULL ok */

#endif
