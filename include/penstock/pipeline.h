/* pipeline.h: a chain of operations, planned as a whole, run by workers, delivered as batches in an exact order.
 *
 *     pst_pipeline_parse(&p, "tfrecord shards/ | shuffle | decode | resize 224 | batch 64", NULL, &err);
 *     while ((st = pst_pipeline_next(p, &batch, &err)) == PST_OK) { …; batch = pst_batch_unref(batch); }
 *
 * PST_END closes an epoch; the following call of pst_pipeline_next begins the next one. Order and content are a function of the
 * text, the seed and the data: neither the number of workers nor timing affects them.
 *
 * One thread at a time uses a pipeline, except where a function says otherwise. */
#ifndef PENSTOCK_PIPELINE_H
#define PENSTOCK_PIPELINE_H

#include <penstock/base.h>
#include <penstock/op.h>
#include <penstock/record.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_pipeline pst_pipeline;
typedef struct pst_batch pst_batch;

/* ---- Options ---- */

/* What happens when the batches of an epoch cannot be divided evenly among the ranks. */
typedef enum pst_uneven {
    PST_UNEVEN_PAD = 0, /* All ranks get the same number of batches; the first samples are repeated. */
    PST_UNEVEN_DROP,    /* All ranks get the same number of batches; the last samples are left out. */
    PST_UNEVEN_ALLOW    /* Some ranks end one batch earlier. */
} pst_uneven;

/* Options of a pipeline. The zeroed struct with its size set means the defaults. */
typedef struct pst_pipeline_options {
    size_t size;       /* sizeof(pst_pipeline_options). */
    uint64_t seed;     /* The seed of every random operation that has no seed of its own. */
    unsigned workers;  /* The number of worker threads; 0: chosen and adapted. */
    unsigned prefetch; /* The number of batches that are prepared ahead; 0: chosen and adapted. */
    uint64_t ram;      /* Bytes for batches, buffers and caches; 0: half of the available memory. */
    unsigned rank;     /* The number of this process among those that share the batches, from 0. */
    unsigned world;    /* The number of these processes; 0 means 1. */
    pst_uneven uneven; /* How batches are divided among ranks when their number is not a multiple of `world`. */
    const char *bad;   /* What happens to records that are damaged, do not decode or are refused by an operation, as text for
                          pst_policy_parse: "error", "skip", "skip:20", "skip:0.5%". NULL: "error". */
    bool no_fuse;      /* Runs every operation by itself: the same bits, slower; for tests. */
    bool no_verify;    /* Does not check the checksums of payloads. */
    const char *cache_dir; /* The folder for indexes of shards in read-only folders; NULL: they are kept in memory. */
    double stall_seconds;  /* A batch that takes longer is reported by pst_pipeline_stats; 0: 60. */
    const char *monitor;   /* The folder of a socket at which other processes of this user read statistics (penstock/monitor.h),
                              made if it does not exist; NULL: none. */
    uint64_t trace;        /* The number of events that are recorded for pst_pipeline_trace; 0: none. */
    unsigned hosts; /* The number of machines that the ranks run on, `world` / `hosts` on each, numbered one machine after the
                       other. More than 1: the ranks of a machine get the samples of one part of the data, the same part in
                       every epoch, so that each machine reads and caches its part alone; the shuffle is within the parts, and
                       every sample is still delivered once. 0 and 1: any rank may get any sample. */
} pst_pipeline_options;

/* ---- Building ---- */

/* Creates a pipeline from text: `source args | op args | …`, with # comments, "quotes", and arguments by position or as
 * name=value; "@file" inserts the text of a file, and joins take pipelines in parentheses: `zip (…) (…) | …`. `options` may be
 * NULL. On PST_EINVAL `reterr->offset` is the byte of the text, and the message has the line with a caret and a suggestion. */
PST_API pst_status pst_pipeline_parse(pst_pipeline **ret, const char *text, const pst_pipeline_options *options,
                                      pst_error *reterr);
/* Sets `*ret` to the text with the operations of each "@file" in place of it: it means the same without these files. Free it with
 * pst_free. `folder` is for texts from elsewhere: only files below it are read, and none if it is empty; NULL: as pst_pipeline_parse
 * does. A text without files is copied as it is. */
PST_API pst_status pst_pipeline_expand(char **ret, const char *text, const char *folder, pst_error *reterr);
/* Creates an empty pipeline, to which operations are added. `options` may be NULL. */
PST_API pst_status pst_pipeline_create(pst_pipeline **ret, const pst_pipeline_options *options, pst_error *reterr);
/* Appends the built-in operation `op` with its arguments as text; `args` may be NULL. */
PST_API pst_status pst_pipeline_add(pst_pipeline *p, const char *op, const char *args, pst_error *reterr);
/* Appends a custom operation. `op`, and everything that the config points to, must outlive the pipeline; `config` itself is
 * copied. A `config` of NULL means the defaults of all parameters. */
PST_API pst_status pst_pipeline_add_op(pst_pipeline *p, const pst_op_class *op, const void *config, pst_error *reterr);
/* Appends a join of `count` pipelines as the source: `op` is "zip", "concatenate", "sample", "choose" or "interleave", `args`
 * are its arguments as text, or NULL. The pipelines must not be planned yet. On PST_OK they belong to `p` and must not be used
 * any more; their options are not used. On failure the caller still owns them, but they may be empty. */
PST_API pst_status pst_pipeline_add_pipelines(pst_pipeline *p, const char *op, const char *args, pst_pipeline *const *branches,
                                              size_t count, pst_error *reterr);
/* Appends arrays in memory as the source: `count` fields with these names, one tensor each, all with the same first dimension,
 * which counts the elements. Names and shapes are copied; the data must outlive the pipeline. */
PST_API pst_status pst_pipeline_add_arrays(pst_pipeline *p, const char *const *names, const pst_tensor *arrays, size_t count,
                                           pst_error *reterr);
/* Appends the source `files` with a list in memory: `count` paths, and as many labels or NULL. Labels are numbers or names, as
 * in the text of a list. Everything is copied. */
PST_API pst_status pst_pipeline_add_files(pst_pipeline *p, const char *const *paths, const char *const *labels, size_t count,
                                          pst_error *reterr);

/* A source whose elements the program makes one after the other: a stream. One worker at a time calls its functions. */
typedef struct pst_generator {
    size_t size;   /* sizeof(pst_generator). */
    pst_spec spec; /* The fields of an element; copied. */
    /* Begins a new pass from the first element and stores the program's state of it in `*ret_pass`. */
    pst_status (*open)(void *user, void **ret_pass, pst_error *reterr);
    /* Fills the tensors of one element, one per field: `data` of those with a fixed shape, `data` and `shape` of the others.
     * The memory, in pst_scratch or of the pass, must stay valid until the following call. Returns PST_OK, PST_END after the
     * last element, or a failure. */
    pst_status (*next)(void *pass, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
    void (*close)(void *pass); /* Ends a pass; NULL: nothing is to be done. */
    void *user;                /* The argument of `open`; what it points to must outlive the pipeline. */
    uint64_t fingerprint;      /* A value that is equal for equal data; a cursor is checked against it. */
} pst_generator;

/* Appends a generator as the source. The struct is copied. */
PST_API pst_status pst_pipeline_add_generator(pst_pipeline *p, const pst_generator *generator, pst_error *reterr);

/* Stops the workers, waits for them and frees the pipeline. Accepts NULL; returns NULL. */
PST_API pst_pipeline *pst_pipeline_destroy(pst_pipeline *p);

/* ---- Planning ---- */

/* Plans the whole chain without starting it: opens the source and reports every error that can be known before the start. */
PST_API pst_status pst_pipeline_plan(pst_pipeline *p, pst_error *reterr);
/* Plans, if that has not been done, and starts the workers. The first pst_pipeline_next does this by itself. */
PST_API pst_status pst_pipeline_start(pst_pipeline *p, pst_error *reterr);
/* Chooses fields of a batch: `keep` has one entry per field of `spec`, all false. Where none is set, all fields stay. */
typedef void (*pst_keep_fn)(void *user, const pst_spec *spec, bool *keep);
/* Leaves out all fields but those that `choose` keeps, as a last `select` would: what is only needed for others is not read, parsed or
 * decoded. A cursor does not depend on it. Call this before the plan; the plan calls `choose` with a copy of the `size` bytes at `user`. */
PST_API pst_status pst_pipeline_keep(pst_pipeline *p, pst_keep_fn choose, const void *user, size_t size, pst_error *reterr);
/* Returns the fields of a batch, valid as long as the pipeline; NULL before the plan. */
PST_API const pst_spec *pst_pipeline_spec(pst_pipeline *p);
/* Stores the names of the classes that the field "label" of the source numbers, in the order of the numbers: the class folders
 * of `folder`, the labels of a list of `files` that are text, or the lines of labels.txt beside the shards of `tfrecord`.
 * `*ret` has `*ret_count` texts and is valid as long as the pipeline; 0: the names are not known. Plans the pipeline, if that
 * has not been done. */
PST_API pst_status pst_pipeline_class_names(pst_pipeline *p, const char *const **ret, size_t *ret_count, pst_error *reterr);
/* Returns the number of batches per epoch on this rank; PST_NOWHERE if it is endless or not known. */
PST_API uint64_t pst_pipeline_length(const pst_pipeline *p);
/* Returns whether an epoch never ends, because of a `repeat` without a count. False before the plan. */
PST_API bool pst_pipeline_endless(const pst_pipeline *p);
/* Returns whether the data can only be read as it comes, as from a pipe, a generator or compressed shards: the next element may be long in
 * coming. False before the plan. */
PST_API bool pst_pipeline_streams(const pst_pipeline *p);
/* Returns whether the chain combines elements into batches. Without such an operation, pst_pipeline_next returns every element
 * as a batch of one. False before the plan. */
PST_API bool pst_pipeline_batched(const pst_pipeline *p);
/* Returns the number of elements of a full batch; 0 before the plan. */
PST_API uint64_t pst_pipeline_batch_size(const pst_pipeline *p);
/* Stores the plan as text in `*ret`, or as JSON if `json`: which operations are fused, what the order is based on, memory and
 * workers, each with its reason. Release it with pst_free. */
PST_API pst_status pst_pipeline_describe(pst_pipeline *p, bool json, char **ret, pst_error *reterr);

/* ---- Running ---- */

/* Stores the next batch in `*ret`; the caller owns one reference to it. Returns PST_OK, PST_END at the end of an epoch, or a
 * failure, after which every further call fails alike until a seek. */
PST_API pst_status pst_pipeline_next(pst_pipeline *p, pst_batch **ret, pst_error *reterr);
/* Computes batch `k` of epoch `epoch` on the calling thread and stores it in `*ret`; the caller owns one reference to it. It is
 * the batch that pst_pipeline_next delivers as number `k` of that epoch, counted from 0, of this rank. The position of
 * pst_pipeline_next does not change, and nothing is counted in the statistics. Plans the pipeline, if that has not been done;
 * once it is planned, any number of threads may call this at the same time, also while another one calls pst_pipeline_next.
 * Damage is judged as always; a batch may have no element left. PST_EINVAL: the epoch has fewer batches. PST_EUNSUPPORTED: the
 * source is a stream, so that a batch needs those before it. */
PST_API pst_status pst_pipeline_at(pst_pipeline *p, uint64_t epoch, uint64_t k, pst_batch **ret, pst_error *reterr);
/* Starts the pipeline, if that has not been done, and waits up to `seconds` for a batch. PST_OK: pst_pipeline_next returns
 * without waiting. PST_TIMEOUT: the time is up. */
PST_API pst_status pst_pipeline_wait(pst_pipeline *p, double seconds, pst_error *reterr);
/* Makes the present and all further calls of pst_pipeline_next return PST_ECANCELLED. May be called from any thread. */
PST_API void pst_pipeline_cancel(pst_pipeline *p);
/* Stops the workers, if any are running, and waits for them up to `seconds`: an operation of the program may take long to
 * return. PST_OK: they have stopped, and neither seek nor destroy waits for them any more. PST_TIMEOUT: the time is up. If
 * workers were running, pst_pipeline_next returns PST_ECANCELLED until a seek. */
PST_API pst_status pst_pipeline_halt(pst_pipeline *p, double seconds);

/* ---- Batches: reference-counted and writable; they may outlive the pipeline ---- */

/* Returns the number of elements; the last batch of an epoch may have fewer than the others. */
PST_API size_t pst_batch_size(const pst_batch *b);
/* Returns the number of fields. */
PST_API size_t pst_batch_fields(const pst_batch *b);
/* Returns the name of field `i`; NULL if there are fewer fields. */
PST_API const char *pst_batch_name(const pst_batch *b, size_t i);
/* Returns the data of field `i`, valid until the batch is released; NULL if there are fewer fields. */
PST_API const pst_tensor *pst_batch_at(const pst_batch *b, size_t i);
/* Returns the data of the field called `field`, valid until the batch is released; NULL if there is none. */
PST_API const pst_tensor *pst_batch_get(const pst_batch *b, const char *field);
/* Adds a reference, and returns the batch. */
PST_API pst_batch *pst_batch_ref(pst_batch *b);
/* Releases a reference; the last one frees the batch. Accepts NULL; returns NULL. */
PST_API pst_batch *pst_batch_unref(pst_batch *b);

/* The place of an element in the data. */
typedef struct pst_place {
    const char *path; /* The file, valid as long as the pipeline; NULL: the element is not in a file. */
    uint64_t record;  /* The number of the record in the file, or in the source; PST_NOWHERE if the element is a whole file. */
    uint64_t offset;  /* The byte at which the record begins; PST_NOWHERE if that does not apply. */
} pst_place;

/* Stores the place that element `element` of the batch came from. May be called from any thread while the pipeline exists. */
PST_API pst_status pst_pipeline_locate(pst_pipeline *p, const pst_batch *b, size_t element, pst_place *ret, pst_error *reterr);

/* ---- Resuming ---- */

#define PST_CURSOR_BYTES 4096 /* the largest cursor */

/* A position in a pipeline, as bytes that a program can store and load: `bytes`, of which the first `size` are used. They mean
 * the same on every machine. */
typedef struct pst_cursor {
    size_t size;                     /* The number of bytes that are used, up to PST_CURSOR_BYTES. */
    uint8_t bytes[PST_CURSOR_BYTES]; /* The bytes. */
} pst_cursor;

/* The numbers in a cursor. */
typedef struct pst_position {
    uint64_t fingerprint; /* A hash of the data and of every operation that affects order or content. */
    uint64_t seed;        /* The seed of the pipeline. */
    uint64_t epoch;       /* The number of the epoch, from 0. */
    uint64_t next;        /* The number of batches, of all ranks together, that were delivered in this epoch. */
} pst_position;

/* Stores the present position. Plans the pipeline, if that has not been done. */
PST_API pst_status pst_pipeline_tell(pst_pipeline *p, pst_cursor *ret, pst_error *reterr);
/* Continues at a position. The number of workers, the number of ranks and the memory may have changed since. PST_ESTALE: the
 * cursor belongs to another pipeline or to other data; the message says what differs. PST_EINVAL: it is not a cursor.
 * PST_EUNSUPPORTED: a later version of the library made it. */
PST_API pst_status pst_pipeline_seek(pst_pipeline *p, const pst_cursor *cursor, pst_error *reterr);
/* Stores the numbers of a cursor. Fails as pst_pipeline_seek does. */
PST_API pst_status pst_cursor_get(const pst_cursor *cursor, pst_position *ret, pst_error *reterr);
/* Makes a cursor from numbers. */
PST_API void pst_cursor_set(pst_cursor *ret, const pst_position *position);

/* ---- Statistics ---- */

/* The cost of one stage. */
typedef struct pst_stage_stats {
    char name[48];  /* The name, such as "read" or "decode+crop+resize". */
    uint64_t calls; /* The number of elements that went through it. */
    uint64_t bytes; /* The bytes that it wrote, where they are known. */
    uint64_t ns;    /* The time that it took, summed over all workers, in nanoseconds. */
} pst_stage_stats;

#define PST_MAX_STAGES 40 /* the largest number of stages in pst_stats; further stages share the last one */

/* What a pipeline has done so far. */
typedef struct pst_stats {
    size_t size;                           /* sizeof(pst_stats); set it before the call. */
    uint64_t samples, batches;             /* The elements and batches that were delivered. */
    uint64_t bytes;                        /* The bytes of the data in these batches. */
    uint64_t read_bytes;                   /* The bytes that were read from the source. */
    uint64_t skipped;                      /* The elements that were left out as damaged. */
    uint64_t cache_hits;                   /* The elements that came from the cache. */
    uint64_t consumer_wait_ns;             /* The time that pst_pipeline_next waited for a batch. */
    uint64_t worker_wait_ns;               /* The time that workers waited for room, summed. */
    uint64_t worker_busy_ns;               /* The time that workers worked, summed. */
    unsigned workers;                      /* The present number of workers. */
    unsigned prefetch;                     /* The present number of batches that are prepared ahead. */
    char workers_reason[160];              /* Why there are so many workers. */
    char prefetch_reason[160];             /* Why so many batches are prepared. */
    uint64_t ram_planned;                  /* The memory that the plan allows, in bytes. */
    uint64_t ram_used;                     /* The memory in use, in bytes. */
    double ready_mean;                     /* The mean number of batches that were ready when pst_pipeline_next was called. */
    bool stalled;                          /* A batch has taken longer than `stall_seconds`. */
    char stall[192];                       /* Which stage takes so long, on what, since when. */
    size_t stages;                         /* The number of stages. */
    pst_stage_stats stage[PST_MAX_STAGES]; /* The stages, in order. */
    uint64_t entropy_stored;               /* Images whose entropy index was in a sidecar. */
    uint64_t entropy_made;                 /* Images whose entropy index was collected while decoding. */
    uint64_t entropy_stale; /* Entries of entropy indexes that belong to other bytes or are damaged, and were not used. */
    char cache_note[160];   /* Why a cache on disk stores nothing more; empty: it does, or there is none. */
} pst_stats;

/* Stores statistics. May be called at any time, from any thread. */
PST_API pst_status pst_pipeline_stats(pst_pipeline *p, pst_stats *ret, pst_error *reterr);
/* Writes what workers and consumer did when to the file `path`, in the Trace Event Format, for Perfetto (ui.perfetto.dev) and
 * Chrome (chrome://tracing): the slices and stages of each worker, the consumer's waits and steps, and each batch. Needs
 * options.trace. Call it when no other thread uses the pipeline. `overwrite`: replaces a file that exists. */
PST_API pst_status pst_pipeline_trace(pst_pipeline *p, const char *path, bool overwrite, pst_error *reterr);
/* Returns the log of damage that was found and tolerated, valid as long as the pipeline. */
PST_API const pst_damage_log *pst_pipeline_damage(const pst_pipeline *p);

/* ---- Caches on disk ---- */

/* A cache below the folder that `cache path=` names. */
typedef struct pst_cache_info {
    char key[33];     /* The name of its folder: a hash of what it is of. */
    uint64_t bytes;   /* Its size on disk. */
    uint64_t parts;   /* The number of its files with elements. */
    int64_t changed;  /* When it last changed, in seconds since 1970. */
    char about[1024]; /* The pipeline, the fields and the version of the library, one per line. */
} pst_cache_info;

/* Stores the caches in folder `dir` in `*ret`, an array of `*ret_count`; release it with pst_free. */
PST_API pst_status pst_cache_list(const char *dir, pst_cache_info **ret, size_t *ret_count, pst_error *reterr);
/* Removes the cache `key` from folder `dir`. Pipelines that use it continue. */
PST_API pst_status pst_cache_remove(const char *dir, const char *key, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
