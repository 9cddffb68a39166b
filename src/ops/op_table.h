/* op_table.h: every operation there is. op_table.c is the only list. */
#ifndef OPS_OP_TABLE_H
#define OPS_OP_TABLE_H

#include <penstock/op.h>

struct op_entry {
    pst_op_kind kind;
    const pst_op_class *op; /* for sources: the `op` of a struct source_class */
};

extern const struct op_entry op_table[]; /* sources, order, elements, images, batching; ends with a NULL op */

/* Order operations and batching have no `run`: the engine knows them by their class and reads their config. */
struct shuffle_config {
    uint64_t buffer; /* bytes; 0: exact where there is an index, 256 MiB otherwise */
    uint64_t window; /* bytes; chunks are shuffled, then samples within windows of this size; 0: exact */
    int64_t seed;    /* -1: the pipeline's */
    bool reshuffle;  /* a new order every epoch */
};
struct count_config {
    int64_t count; /* take, skip, repeat: -1 is all, nothing, endless */
};
struct shard_config {
    uint64_t count, index;
};
struct batch_config {
    uint64_t size;
    bool drop_remainder;
};
struct prefetch_config {
    int64_t depth; /* -1: automatic */
};
struct cache_config {
    uint64_t bytes; /* 0: half of the pipeline's RAM budget */
};
extern const pst_op_class op_shuffle, op_repeat, op_take, op_skip, op_shard; /* order */
extern const pst_op_class op_batch, op_prefetch, op_cache;                   /* batching */

/* Operations on single elements. `example` is in example_op.h. */
struct cast_config {
    int to; /* the pst_dtype is cast_target(to) */
    const char *field;
    size_t number; /* of the field; noted by the plan */
};
pst_dtype cast_target(int choice);
extern const pst_op_class op_select, op_drop, op_rename, op_one_hot, op_cast;

#endif
