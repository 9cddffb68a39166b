/* plan.h: a chain made ready to run: the source opened, every type and shape inferred, the order composed, the operations
 * compiled, the memory counted. Planning finds all errors of a chain that do not depend on the data. */
#ifndef FLOW_PLAN_H
#define FLOW_PLAN_H

#include "flow/damage_judge.h"
#include "flow/join_plan.h"
#include "flow/node.h"
#include "flow/order.h"
#include "flow/program.h"
#include "flow/split.h"

/* Where the entropy indexes of the source's JPEGs are. */
enum plan_entropy {
    ENTROPY_NONE, /* nothing is decoded */
    ENTROPY_STREAM,
    ENTROPY_MADE, /* not stored: they are collected while decoding */
    ENTROPY_PARTLY,
    ENTROPY_STORED
};

struct pipeline_plan {
    struct chain *chain; /* &outer, or the chain of the user */
    struct resample *resample; /* at most one */
    struct chain outer;  /* if the chain is divided: a view of its last segment */
    const struct source_class *source_class;
    void *source;
    struct join *join; /* the source, if it is a join; NULL otherwise */
    bool is_branch;    /* of a join: it has no batches */
    struct damage_intake intake; /* takes the damage that a stream reports */
    uint64_t gaps;      /* damage that was found while opening */
    struct order order;
    bool batched; /* an operation makes the batches; otherwise every element is one */
    struct kept_bits *filters; /* of the order's filters */
    bool *stream_reads;        /* one per field of the source: whether filters of a stream look at it; NULL: there are none */
    struct split split;
    unsigned rank; /* the user's number of this rank */
    struct program program;
    struct cache *cache;    /* NULL: none */
    size_t cache_node;      /* index in the chain; 0: none */
    pst_spec batch;         /* fields that the consumer receives */
    const char *const *scaled; /* by field of the last node: the operation that scaled its levels, or NULL */
    struct arena memory;    /* memory of all specs, those of the chain's nodes included, and of the compiled program */
    uint64_t element_bytes; /* stored, on average; 0: unknown */
    uint64_t fingerprint;
    uint64_t ram;         /* budget: everything below together */
    uint64_t ram_cache;   /* for the cache */
    uint64_t ram_stream;  /* for shuffle buffers */
    uint64_t ram_entropy; /* for entropy indexes that are not stored */
    uint64_t ram_kept;     /* for copies of the elements that a filter keeps */
    uint64_t ram_branches; /* for caches, copies and entropy indexes of the branches */
    enum plan_entropy entropy;
    uint64_t seed;     /* of the pipeline */
    uint64_t prefetch; /* requested in the chain; 0: not requested */
    unsigned threads;  /* maximum number of workers of the crew */
    unsigned slots;    /* numbers of workers: the crew's, then as many for readers (access.c) */
};

/* Which fields of a batch are wanted. */
struct field_choice {
    pst_keep_fn choose; /* NULL: all */
    void *user;
};

/* The inputs of a plan besides its chain. Borrowed during planning. */
struct plan_env {
    const pst_pipeline_options *options;
    struct file_stop stop; /* lives as long as the plan */
    struct damage_account *account;
};

/* `chain` is borrowed and has its specs filled in. `account` is borrowed during the call. */
pst_status pipeline_plan_create(struct pipeline_plan **ret, struct chain *chain, const pst_pipeline_options *options,
                                const struct field_choice *choice, struct file_stop stop, struct damage_account *account, pst_error *reterr);
struct pipeline_plan *pipeline_plan_destroy(struct pipeline_plan *p); /* NULL ok; returns NULL */

/* Plans a branch of the join that `parent` begins with, which has `branches` branches: everything up to its program, which
 * is compiled with the parent's. */
pst_status branch_plan_create(struct pipeline_plan **ret, struct chain *chain, const struct pipeline_plan *parent,
                              size_t branches, const struct plan_env *env, pst_error *reterr);
/* join.c: plans the branches of the join that the chain begins with, and makes the join the plan's source. */
pst_status plan_join(struct pipeline_plan *p, const struct plan_env *env, pst_error *reterr);

/* Returns what the node is of a resource; NULL: it is not one. */
struct resource_facet;
const struct resource_facet *plan_resource(const struct node *n);
/* plan_memory.c: creates the caches, then the entropy indexes, of the plan and its branches. */
pst_status plan_memory(struct pipeline_plan *p, pst_error *reterr);
pst_status plan_entropy(struct pipeline_plan *p, pst_error *reterr);

/* Returns whether the element at a position is the same in every epoch. */
bool plan_is_fixed(const struct pipeline_plan *p);
/* scaled.c: refuses a chain that scales the levels of a field twice. Its operations are planned. */
pst_status plan_check_scales(struct pipeline_plan *p, pst_error *reterr);
/* Whether the data can only be read as it comes, in a branch or an inner pipeline too. */
bool plan_streams(const struct pipeline_plan *p);

/* fuse.c: adds the operations of `chain` on single elements as steps of the program; fuses runs of image operations. */
pst_status rewrite_steps(struct pipeline_plan *p, bool no_fuse, pst_error *reterr);

/* sampling.c: gives node `i` a schema if it is an `example` that has none, otherwise checks the schema against records. */
pst_status plan_infer_schema(struct pipeline_plan *p, struct chain *c, size_t i, pst_error *reterr);

/* Adds the operation's name and the caret line to the error that a plan step of node `i` returned. */
pst_status plan_point(const struct chain *c, size_t i, pst_status st, pst_error *reterr);
pst_status plan_point_node(const struct chain *c, const struct node *n, pst_status st, pst_error *reterr);

/* cache_key.c: the key of the plan's cache, and a text about it: mem_free. */
pst_status plan_cache_key(const struct pipeline_plan *p, uint64_t seed, uint64_t ret[2], char **ret_about, pst_error *reterr);

/* The same for a snapshot of the plan's elements. */
pst_status plan_snapshot_key(const struct pipeline_plan *p, const struct field_list *fields, bool tolerant, uint64_t ret[2],
                             char **ret_about, pst_error *reterr);

/* cursor.c: the fingerprint: of the data in the upper half, of the operations in the lower half. */
pst_status plan_fingerprint(struct pipeline_plan *p, pst_error *reterr);
/* cursor.c: hashes of the data and of the first `count` operations. */
pst_status plan_hash(const struct pipeline_plan *p, size_t count, uint64_t *ret_data, uint64_t *ret_ops, pst_error *reterr);

#endif
