/* source.h: what a source of elements adds to its declaration. A source is a function from an index to an element, or,
 * where that cannot be had (compressed shards, pipes), a stream. */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include "io/file.h"
#include <penstock/op.h>
#include <penstock/pipeline.h>
#include <penstock/record.h>

#define SOURCE_STREAM UINT64_MAX
#define SOURCE_WHOLE  SIZE_MAX /* no field in particular: the element as a whole */

/* What the engine brings. */
struct source_env {
    const char *cache_dir;
    bool no_verify;
    uint64_t ram;           /* bytes a source may use for its buffers */
    pst_damage_log *damage; /* not NULL; of what is found while opening; decides what is tolerated */
    struct file_stop stop;  /* ends scans and reads, of streams too; as long as the source */
    pst_damage_log *met;    /* not NULL, as long as the source; of what a stream meets, every time that it does */
};

/* Where an element lies, for errors. */
struct source_place {
    const char *path; /* the source's own; NULL: it is in no file */
    uint64_t record;  /* within the file */
    uint64_t offset;  /* of its first byte; PST_NOWHERE where the element is a whole file */
};

struct entropy_home;
struct path_list;

struct source_class {
    pst_op_class op; /* plan, start, run, stop unused */

    pst_status (*open)(const void *config, const struct source_env *env, void **ret, pst_error *reterr);
    void (*close)(void *source); /* NULL ok */
    void (*spec)(const void *source, pst_spec *ret); /* the fields are the source's own and live as long as it */
    uint64_t (*count)(const void *source); /* SOURCE_STREAM: only as a stream */
    uint64_t (*fingerprint)(const void *source); /* of the data: equal data, equal value */
    /* A line for the plan: "8 shards, 1.5 GB, mapped; index: sidecar". */
    void (*describe)(const void *source, char *buffer, size_t size);
    /* Adds the names of the classes that the field "label" numbers, in the order of the numbers; none: they are not known.
     * Optional. */
    pst_status (*class_names)(const void *source, struct path_list *ret, pst_error *reterr);
    /* Fields for which `fields` has false are not used and need not be produced. Called at most once, while no worker is
     * started and no stream open; the array is valid until the source is closed. Until the call, as while records are read to
     * infer a schema, all fields are used. Optional. */
    void (*need)(void *source, const bool *fields);

    /* Random access, from many workers at once. Views stay valid until the worker's next load. */
    size_t worker_size; /* zeroed by the engine */
    pst_status (*worker_start)(void *source, void *worker, pst_error *reterr);
    void (*worker_stop)(void *source, void *worker);
    /* These elements come soon, in this order: a chance to sort, coalesce and read ahead. Optional; never fails. */
    void (*ahead)(void *source, void *worker, const uint64_t *index, size_t count);
    pst_status (*load)(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
    /* Asked when the element was used, and some mapped file of the process has lost pages (io/mapping.h): fails unless the
     * files that the element's views lie in are whole. Optional: without it no view lies in a mapped file. */
    pst_status (*intact)(void *source, uint64_t index, pst_error *reterr);
    pst_cause cause; /* what a load is counted as that fails with PST_ECORRUPT */
    uint64_t (*bytes_of)(const void *source, uint64_t index); /* stored size, for budgets and statistics; optional */
    /* Where the entropy index of the element's JPEGs is stored (entropy.h); false: nowhere. Optional. */
    bool (*entropy)(const void *source, uint64_t index, struct entropy_home *ret);
    /* `field` is the one in question, or SOURCE_WHOLE: fields may lie in different files. Optional: without it, errors name a
     * number. */
    void (*locate)(const void *source, uint64_t index, size_t field, struct source_place *ret);

    /* Streams: one consumer at a time. `next` views stay valid until the following call. OK, END or < 0. */
    pst_status (*stream_open)(void *source, void **ret, pst_error *reterr);
    pst_status (*stream_next)(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
    void (*stream_locate)(const void *stream, struct source_place *ret); /* of the element that came last; optional */
    void (*stream_close)(void *stream);
};

/* What `arrays` is made from: everything is borrowed, and must outlive the source. */
struct arrays_config {
    const char *const *names;
    const pst_tensor *arrays; /* the first dimension counts the elements */
    size_t count;
};

/* What `files` is made from. */
struct files_config {
    const char *list, *root;
    const char *const *paths, *const *labels; /* not NULL: instead of the file `list`; labels may be NULL; borrowed */
    size_t count;
};

extern const struct source_class source_tfrecord, source_folder, source_files, source_npy, source_range, source_arrays;
extern const struct source_class source_generator; /* its config is a pst_generator; not in the table */

#endif
