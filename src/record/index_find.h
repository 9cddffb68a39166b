/* index_find.h: finds the index of a shard and creates it if there is none. */
#ifndef RECORD_INDEX_FIND_H
#define RECORD_INDEX_FIND_H

#include "record/index.h"

/* An open shard file, its size and its fingerprint. */
struct shard_file {
    int fd;
    char *path;
    uint64_t bytes, fingerprint;
    enum index_hold hold; /* how a found index is held */
    char version[FILE_VERSION]; /* see file_version; "": there is none */
    struct { /* an index that was looked at before the fingerprint was known, in order to save its samples */
        bool trusted;          /* it did: its fingerprint is the shard's, and index_find finds this one */
        pst_index_place place; /* of the trusted one */
        bool tried;            /* the sidecar was opened: its index, until it is found, or why there is none */
        pst_status status;
        pst_error error;
        struct index index;
    } early;
};

/* `f` is zeroed by the caller. PST_EUNSUPPORTED for pipes and compressed shards, which have no random access. */
pst_status shard_file_open(struct shard_file *f, const char *path, pst_error *reterr);
/* The same, for shards that are read. In a store, an index that notes the version of the shard's object (an ETag) takes the place of the fingerprint's
 * samples, one request each: of the same version, it is of the same bytes. */
pst_status shard_file_open_trusting(struct shard_file *f, const char *path, const pst_shard_options *options, pst_error *reterr);
void shard_file_close(struct shard_file *f); /* half-opened ok */

struct found_index {
    struct index index;
    pst_index_place place;
    char *path; /* NULL: in memory */
    bool built; /* it was just built by a scan */
};
void found_index_finish(struct found_index *x); /* zeroed ok */

/* Finds an index that matches these bytes: sidecar, cache, text, in this order. PST_ENOTFOUND: there is none. Otherwise the
 * error is that of the first index that exists and cannot be used. */
pst_status index_find(struct found_index *ret, struct shard_file *f, const pst_shard_options *options, pst_error *reterr);
/* Scans the shard, reports damage to options->damage, and stores the index in the first place that is writable; if there is
 * none, keeps it in memory, which is a failure if `must_keep`. */
pst_status index_make(struct found_index *ret, const struct shard_file *f, const pst_shard_options *options, bool must_keep,
                      pst_error *reterr);

/* Compares the JPEG section of an index, if it has one, with the points that the shard's JPEGs have now. PST_ESTALE names the
 * first record whose points differ. Records that are damaged are not compared. `progress` may be NULL; it may cancel. */
pst_status entropy_check(const struct found_index *x, const struct shard_file *f, const pst_shard_options *options,
                         unsigned workers, pst_progress_fn progress, void *user, pst_error *reterr);

#endif
