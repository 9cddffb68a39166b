/* shard.h: internals of an open shard, for a source that holds thousands of them and reads most records without a system
 * call. A record's frame is its payload with the framing around it, as stored in the file. */
#ifndef RECORD_SHARD_H
#define RECORD_SHARD_H

#include "record/index.h"

/* pst_shard_open, with a choice of how the index is held. */
pst_status shard_open(pst_shard **ret, const char *path, const pst_shard_options *options, enum index_hold hold,
                      pst_error *reterr);

const struct index_entry *shard_entries(const pst_shard *s);
const struct index *shard_index(const pst_shard *s);
const char *shard_index_path(const pst_shard *s); /* NULL: the index is not in a file */

/* Closes the descriptor: later reads open the file themselves. Call it while no other thread uses the shard. */
void shard_release(pst_shard *s);
int shard_descriptor(const pst_shard *s); /* -1: released */

/* Maps the whole file. The file must not be empty and the descriptor not released. PST_ESTALE: the file was truncated after
 * it was opened. */
pst_status shard_map(const pst_shard *s, struct mapping *ret, pst_error *reterr);
/* Maps the local copy of a remote shard, of which only parts may be here (file_is_here). */
pst_status shard_map_sparse(const pst_shard *s, struct mapping *ret, pst_error *reterr);

/* Counts the records as seen and reports the index' gaps, as opening does to the log in its options. */
pst_status shard_report(const pst_shard *s, pst_damage_log *log, pst_error *reterr);

/* A record's place is copied from its entry once: a mapped index may change between two reads. */

/* Reads the frame of record `i`, unchecked: its length and FRAME_BYTES. */
pst_status shard_read_frame(const pst_shard *s, uint64_t i, struct index_entry place, uint8_t *frame, pst_error *reterr);
/* Reports the damage of an invalid frame, whichever way it was read. */
pst_status shard_check(const pst_shard *s, uint64_t i, struct index_entry place, const uint8_t *frame, bool verify,
                       pst_error *reterr);
/* Fails because the file ends inside record `i`, `got` bytes after its start. */
pst_status shard_fail_short(const pst_shard *s, uint64_t i, struct index_entry place, uint64_t got, pst_error *reterr);

#endif
