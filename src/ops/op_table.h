/* op_table.h: the table of operations. op_list.c, which is generated, holds it. */
#ifndef OPS_OP_TABLE_H
#define OPS_OP_TABLE_H

#include "ops/op_decl.h"
#include <penstock/op.h>

struct op_entry {
    const pst_op_class *op;     /* for sources: the `op` of a struct source_class */
    const struct op_decl *decl; /* NULL: a source */
};

extern const struct op_entry op_unlisted[]; /* those that programs add and no text names; ends with a NULL op */
extern const struct op_entry op_table[]; /* sources, order, elements, images, batching; ends with a NULL op */

/* Configs of operations that the engine executes itself, for code that adds them without text. */
struct shuffle_config {
    pst_amount buffer; /* for a stream; 0: 256 MiB. A source with an index needs none */
    pst_amount window; /* chunks are shuffled, then samples within windows of this size; 0: exact */
    int64_t seed;      /* -1: the pipeline's */
    bool reshuffle;    /* a new order every epoch */
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
extern const pst_param batch_params[]; /* of `batch` and `rebatch`, as their step of the order */
void batch_order(const void *config, const struct order_env *env, struct order_step *ret);
struct prefetch_config {
    int64_t depth; /* -1: automatic */
};
struct cache_config {
    uint64_t bytes;   /* 0: half of the pipeline's RAM budget; on disk: no limit */
    const char *path; /* folder; "": in memory */
};

/* Operations that plug-ins added; see plugin.c. */

/* Returns operation `i` of the plug-ins that were loaded; NULL: there are fewer. */
const pst_op_class *plugin_op_at(size_t i);

#endif
