/* pipeline.h: a chain of operations, planned as a whole, run by workers, delivered as batches in an exact order.
 *
 *     pst_pipeline_parse(&p, "tfrecord shards/ | shuffle | decode | resize 224 | batch 64", NULL, &err);
 *     while ((st = pst_pipeline_next(p, &batch, &err)) == PST_OK) { …; batch = pst_batch_unref(batch); }
 *
 * PST_END closes an epoch; calling next again begins the following one. Order and content are a function of the text, the
 * seed and the data: neither threads nor time show in them. */
#ifndef PENSTOCK_PIPELINE_H
#define PENSTOCK_PIPELINE_H

#include <penstock/base.h>
#include <penstock/op.h>
#include <penstock/record.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pst_uneven { /* what happens when the ranks do not divide the batches evenly */
    PST_UNEVEN_PAD = 0,   /* every rank gets as many: the first samples come again */
    PST_UNEVEN_DROP,      /* every rank gets as many: the last samples are left out */
    PST_UNEVEN_ALLOW      /* some ranks end one batch earlier */
} pst_uneven;

typedef struct pst_options {
    size_t size;
    uint64_t seed;       /* of everything random that has no seed of its own */
    unsigned workers;    /* 0: chosen and adapted */
    unsigned prefetch;   /* batches prepared ahead; 0: chosen and adapted */
    uint64_t ram;        /* bytes for batches, buffers and caches; 0: half of what is available */
    unsigned rank, world; /* world 0 means 1 */
    pst_uneven uneven;
    pst_policy bad;      /* records that are damaged, do not decode or are refused by an operation */
    bool no_fuse;        /* run every operation by itself: the same bits, slower; for tests */
    bool no_verify;      /* skip payload checksums */
    const char *cache_dir; /* for indexes of read-only folders */
    double stall_seconds;  /* a batch that takes longer is reported by pst_pipeline_stats; 0: 60 */
} pst_options;

typedef struct pst_pipeline pst_pipeline;
typedef struct pst_batch pst_batch;

/* Text: `source args | op args | …`; # comments, "quotes", name=value or positional arguments; "@file" reads it from a
 * file. On a mistake `reterr->offset` is the byte of the text, and the message has the line with a caret and a suggestion. */
PST_API pst_status pst_pipeline_parse(pst_pipeline **ret, const char *text, const pst_options *options, pst_error *reterr);
PST_API pst_status pst_pipeline_create(pst_pipeline **ret, const pst_options *options, pst_error *reterr);
PST_API pst_status pst_pipeline_add(pst_pipeline *p, const char *op, const char *args, pst_error *reterr);
/* A custom operation: `op` and what its config points to must outlive the pipeline; `config` is copied. */
PST_API pst_status pst_pipeline_add_op(pst_pipeline *p, const pst_op_class *op, const void *config, pst_error *reterr);
/* Arrays in memory as the source: one tensor a field, first dimension equal; the data is borrowed. */
PST_API pst_status pst_pipeline_add_arrays(pst_pipeline *p, const char *const *names, const pst_tensor *arrays, size_t count,
                                           pst_error *reterr);

/* `files` of a list that is in memory: paths, and as many labels or NULL; labels are numbers or names, as in the text of a
 * list. Everything is copied. */
PST_API pst_status pst_pipeline_add_files(pst_pipeline *p, const char *const *paths, const char *const *labels, size_t count,
                                          pst_error *reterr);

/* Elements that the program makes one after the other, as the source: a stream. Called by one worker at a time. */
typedef struct pst_generator {
    pst_spec spec; /* of one element */
    pst_status (*open)(void *user, void **ret_pass, pst_error *reterr); /* a new pass from the beginning */
    /* Fills the tensors: data that is planned to be of fixed shape, data and shape otherwise. What they point to (pst_scratch,
     * or memory of the pass) must hold until the following call. OK, END or < 0. */
    pst_status (*next)(void *pass, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
    void (*close)(void *pass); /* NULL: nothing to do */
    void *user;
    uint64_t fingerprint; /* equal data, equal value: what a cursor is checked against */
} pst_generator;
/* Copied; what `user` points to must outlive the pipeline. */
PST_API pst_status pst_pipeline_add_generator(pst_pipeline *p, const pst_generator *generator, pst_error *reterr);

/* Plans the whole chain, then starts the workers. Called by the first `next` if not before. */
PST_API pst_status pst_pipeline_start(pst_pipeline *p, pst_error *reterr);
/* Only plans: every error of the chain shows here. */
PST_API pst_status pst_pipeline_plan(pst_pipeline *p, pst_error *reterr);
PST_API const pst_spec *pst_pipeline_spec(pst_pipeline *p);  /* of a batch; NULL before the plan */
PST_API uint64_t pst_pipeline_length(const pst_pipeline *p); /* batches an epoch on this rank; PST_NOWHERE: endless or unknown */
/* Returns the number of elements of a full batch; 0 before the plan. */
PST_API uint64_t pst_pipeline_batch_size(const pst_pipeline *p);
/* The plan in words: what is fused, where the order comes from, bytes and workers and why. mem: pst_bytes_free. */
PST_API pst_status pst_pipeline_describe(pst_pipeline *p, bool json, char **ret, pst_error *reterr);

PST_API pst_status pst_pipeline_next(pst_pipeline *p, pst_batch **ret, pst_error *reterr); /* OK, END or < 0 */
/* Starts if need be, then waits until `next` would not wait, at most so long. PST_OK: ask `next`; PST_END: the time is up. */
PST_API pst_status pst_pipeline_wait(pst_pipeline *p, double seconds, pst_error *reterr);
PST_API void pst_pipeline_cancel(pst_pipeline *p);             /* from any thread; next returns PST_ECANCELLED */
/* For the consumer: stops the workers, if any are running, and waits for them, at most so long: an operation of the program may
 * not return. PST_OK: they have, and neither seek nor destroy waits for them any more; PST_END: the time is up. Where workers
 * were running, `next` says PST_ECANCELLED until a seek. */
PST_API pst_status pst_pipeline_halt(pst_pipeline *p, double seconds);
PST_API pst_pipeline *pst_pipeline_destroy(pst_pipeline *p);   /* NULL ok; joins; returns NULL */

/* ---- Batches: reference-counted, writable, may outlive the pipeline ---- */

PST_API size_t pst_batch_size(const pst_batch *b); /* elements; less than asked for in the last one */
PST_API size_t pst_batch_fields(const pst_batch *b);
PST_API const char *pst_batch_name(const pst_batch *b, size_t i);
PST_API const pst_tensor *pst_batch_at(const pst_batch *b, size_t i);
PST_API const pst_tensor *pst_batch_get(const pst_batch *b, const char *field); /* borrowed until unref; NULL: none */
PST_API pst_batch *pst_batch_ref(pst_batch *b);
PST_API pst_batch *pst_batch_unref(pst_batch *b); /* NULL ok; returns NULL */

/* Where an element of a batch came from. */
typedef struct pst_place {
    const char *path; /* the pipeline's; NULL: it is in no file */
    uint64_t record;  /* within the file, or within the source; PST_NOWHERE where it is a whole file */
    uint64_t offset;  /* of its first byte; PST_NOWHERE where it has none */
} pst_place;
/* For those who find something wrong with a batch; from any thread, while the pipeline lives. */
PST_API pst_status pst_pipeline_locate(pst_pipeline *p, const pst_batch *b, size_t element, pst_place *ret, pst_error *reterr);

/* ---- Resume ---- */

typedef struct pst_cursor {
    uint64_t fingerprint; /* of the data and of every operation that shapes order or content */
    uint64_t seed, epoch;
    uint64_t next;        /* global batches (of all ranks) already delivered in this epoch */
} pst_cursor;
PST_API pst_status pst_pipeline_tell(pst_pipeline *p, pst_cursor *ret, pst_error *reterr);
PST_API pst_status pst_pipeline_seek(pst_pipeline *p, const pst_cursor *cursor, pst_error *reterr); /* refuses a foreign one */

/* ---- What it does and why ---- */

typedef struct pst_stage_stats {
    char name[48]; /* "read", "decode+crop+resize", … */
    uint64_t calls, bytes, ns;
} pst_stage_stats;

#define PST_MAX_STAGES 40

typedef struct pst_stats {
    size_t size;
    uint64_t samples, batches, bytes; /* delivered; bytes of batch data */
    uint64_t read_bytes, skipped, cache_hits;
    uint64_t consumer_wait_ns;        /* next() waited for a batch */
    uint64_t worker_wait_ns;          /* workers waited for room (all together) */
    uint64_t worker_busy_ns;
    unsigned workers, prefetch;       /* as chosen now… */
    char workers_reason[160], prefetch_reason[160]; /* …and why */
    uint64_t ram_planned, ram_used;
    double ready_mean;                /* batches that were ready when next() came */
    bool stalled;
    char stall[192];                  /* which stage, waiting for what, since when */
    size_t stages;
    pst_stage_stats stage[PST_MAX_STAGES];
    uint64_t entropy_stored, entropy_made; /* images whose entropy index was in a sidecar; is collected here, part by part */
    uint64_t entropy_stale;                /* entries that belong to other bytes, or are damaged: not used */
} pst_stats;
PST_API pst_status pst_pipeline_stats(pst_pipeline *p, pst_stats *ret, pst_error *reterr); /* any time, any thread */
PST_API const pst_damage_log *pst_pipeline_damage(const pst_pipeline *p);

#ifdef __cplusplus
}
#endif
#endif
