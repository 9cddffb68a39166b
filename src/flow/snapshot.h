/* snapshot.h: the elements of a pipeline, stored in shards once and read from then on by their number.
 *
 * The shards are those of a cache on disk (cache_disk.h): each appears whole or not at all, and has checksums. A snapshot is
 * complete when the number of its elements is stored and all of them are there. */
#ifndef FLOW_SNAPSHOT_H
#define FLOW_SNAPSHOT_H

#include "io/file.h"
#include "source/source.h"

struct snapshot;
struct snapshot_rule;

/* Everything is borrowed and outlives the snapshot. */
struct snapshot_request {
    const struct snapshot_rule *rule;
    pst_pipeline *pipeline; /* planned; its elements are stored */
    const pst_spec *spec;   /* their fields */
    bool tolerant;          /* damaged elements are left out */
    struct file_stop stop;
};

/* Opens the snapshot of these elements, whatever there is of it. */
pst_status snapshot_open(struct snapshot **ret, const struct snapshot_request *request, pst_error *reterr);
/* Completes it: computes and stores what is missing, or waits for another process that does. */
pst_status snapshot_complete(struct snapshot *s, pst_error *reterr);
struct snapshot *snapshot_close(struct snapshot *s); /* NULL ok; returns NULL */

/* Of a complete snapshot, from many workers at once: */
uint64_t snapshot_count(const struct snapshot *s);
pst_status snapshot_load(struct snapshot *s, uint64_t k, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
uint64_t snapshot_bytes_of(const struct snapshot *s, uint64_t k);
void snapshot_describe(struct snapshot *s, char *buffer, size_t size);
const char *snapshot_folder(const struct snapshot *s);

#endif
