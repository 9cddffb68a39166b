/* source.h: the class of a source of elements. A source maps an index to an element or, where that is not possible
 * (compressed shards, pipes), is a stream. */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include "io/file.h"
#include <penstock/op.h>
#include <penstock/pipeline.h>
#include <penstock/record.h>

#define SOURCE_STREAM UINT64_MAX
#define SOURCE_WHOLE  SIZE_MAX /* no field in particular: the element as a whole */

/* Provided by the engine. */
struct source_env {
    const char *cache_dir;
    bool no_verify;
    uint64_t ram;           /* bytes a source may use for its buffers */
    pst_damage_log *damage; /* not NULL; receives damage found while opening and decides what is tolerated */
    struct file_stop stop;  /* stops scans and reads, also of streams; lives as long as the source */
    pst_damage_log *met;    /* not NULL, lives as long as the source; receives damage found by a stream, every time it is found
                               */
};

/* Where an element is stored, for errors. */
struct source_place {
    const char *path; /* owned by the source; NULL: not in a file */
    uint64_t record;  /* within the file */
    uint64_t offset;  /* of its first byte; PST_NOWHERE where the element is a whole file */
};

/* Memory of the batch that an element goes into. */
struct source_room {
    void *(*take)(void *memory, size_t size); /* NULL: out of memory */
    void *memory;
};

struct bitmap;
struct entropy_home;
struct path_list;
struct pipeline_plan;

struct source_class {
    pst_op_class op; /* plan, start, run, stop unused */

    pst_status (*open)(const void *config, const struct source_env *env, void **ret, pst_error *reterr);
    void (*close)(void *source); /* NULL ok */
    void (*spec)(const void *source, pst_spec *ret); /* the fields are owned by the source and live as long as it */
    /* Does what must be done before the elements can be counted or read, such as computing and storing them: called once the types of
     * the chain are known. `damage` receives damage that is found meanwhile. Optional. */
    pst_status (*prepare)(void *source, pst_damage_log *damage, pst_error *reterr);
    uint64_t (*count)(const void *source); /* SOURCE_STREAM: only as a stream */
    uint64_t (*fingerprint)(const void *source); /* fingerprint fingerprint fingerprint fingerprint of the data: equal data,
                                                    equal value */
    /* Writes a line for the plan: "8 shards, 1.5 GB, mapped; index: sidecar". */
    void (*describe)(const void *source, char *buffer, size_t size);
    /* Adds the names of the classes that the field "label" numbers, in the order of the numbers; none: they are not known.
     * Optional. */
    pst_status (*class_names)(const void *source, struct path_list *ret, pst_error *reterr);
    /* Fields for which `fields` has false are not used and need not be produced. Called at most once, while no worker is
     * started and no stream open; the array is valid until the source is closed. Until the call, as while records are read to
     * infer a schema, all fields are used. Optional. */
    void (*need)(void *source, const bool *fields);
    /* Only the elements of the set are read from now on: the source may arrange them in memory, within `ram` bytes, so that they are
     * read as fast as if there were no others. Called at most once, like `need`; the set lives as long as the source. Returns the
     * bytes of memory. Optional. */
    uint64_t (*keep)(void *source, const struct bitmap *only, uint64_t ram);
    /* The elements [first, end) are the part of this machine: hardly any other is read, so that nothing else is worth fetching
     * ahead. Called at most once, like `need`. Optional. */
    void (*part)(void *source, uint64_t first, uint64_t end);

    /* Returns the plan of the part of the chain that the elements come from. Such a source has data and operations of its own, and points
     * into its own part in errors. Optional: without it, the source is the beginning of the chain. */
    const struct pipeline_plan *(*inner)(const void *source);
    /* Whether the element with a number is the same in every pass. Optional: without it, it is. */
    bool (*is_fixed)(const void *source);

    /* Random access, from many workers at once. Views stay valid until the worker's next load. */
    size_t worker_size; /* zeroed by the engine */
    pst_status (*worker_start)(void *source, void *worker, pst_error *reterr);
    void (*worker_stop)(void *source, void *worker);
    /* Announces the next elements, in this order, so that the source can sort, coalesce and read ahead. Optional; never
     * fails. */
    void (*ahead)(void *source, void *worker, const uint64_t *index, size_t count);
    /* The bytes of the elements that are loaded from now on go into a batch unchanged: a source that has to copy them anyway may copy them to memory of
     * the batch, and they are not copied again. The room is valid for the elements that are announced next, until they
     * are loaded. Optional. */
    void (*offer)(void *worker, const struct source_room *room);
    pst_status (*load)(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
    /* Called after the element was used if some mapped file of the process has lost pages (io/mapping.h): fails unless the
     * files behind the element's views are complete. Optional: without it no view points into a mapped file. */
    pst_status (*intact)(void *source, uint64_t index, pst_error *reterr);
    pst_cause cause; /* the cause counted for a load that fails with PST_ECORRUPT */
    bool sets_cause; /* a load that fails stores the cause in the ctx instead; it may return PST_SKIP */
    uint64_t (*bytes_of)(const void *source, uint64_t index); /* stored size, for budgets and statistics; optional */
    /* Reports where the entropy index of the element's JPEGs is stored (jpeg_points.h); false: nowhere. Optional. */
    bool (*entropy)(const void *source, uint64_t index, struct entropy_home *ret);
    /* Reports where the element is stored. `field` is the field in question, or SOURCE_WHOLE: fields may be stored in
     * different files. Optional: without it, errors name a number. */
    void (*locate)(const void *source, uint64_t index, size_t field, struct source_place *ret);

    /* Streams: one consumer at a time. `next` views stay valid until the following call. OK, END or < 0. */
    pst_status (*stream_open)(void *source, void **ret, pst_error *reterr);
    pst_status (*stream_next)(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
    void (*stream_locate)(const void *stream, struct source_place *ret); /* place of the last element; optional */
    void (*stream_close)(void *stream);
};

/* Config of `arrays`: everything is borrowed and must outlive the source. */
struct arrays_config {
    const char *const *names;
    const pst_tensor *arrays; /* the first dimension counts the elements */
    size_t count;
};

/* Config of `files`. */
struct files_config {
    const char *list, *root;
    const char *const *paths, *const *labels; /* not NULL: used instead of the file `list`; labels may be NULL; borrowed */
    size_t count;
};

extern const struct source_class source_tfrecord, source_folder, source_files, source_npy, source_range, source_arrays;
extern const struct source_class source_generator; /* its config is a pst_generator; not in the table */

#endif
