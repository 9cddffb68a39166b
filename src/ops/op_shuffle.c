/* op_shuffle.c: the declaration of `shuffle`; the engine carries it out. */
#include "ops/op_table.h"

#include <math.h>

static const pst_param params[] = {
    {"buffer", PST_PARAM_BYTES, offsetof(struct shuffle_config, buffer), "0", 0, 0, NULL,
     "bytes of elements to choose from where the source has no index; 0: 256 MiB"},
    {"window", PST_PARAM_BYTES, offsetof(struct shuffle_config, window), "0", 0, 0, NULL,
     "for storage that is slow at random reads: shuffles runs of neighbours, then the elements within windows of so many "
     "bytes; 0: exact"},
    {"seed", PST_PARAM_INT, offsetof(struct shuffle_config, seed), "-1", -1, INFINITY, NULL,
     "of the order; -1: the pipeline's"},
    {"reshuffle", PST_PARAM_BOOL, offsetof(struct shuffle_config, reshuffle), "true", 0, 0, NULL,
     "a new order in every epoch, otherwise the same one"},
    {0},
};

const pst_op_class op_shuffle = {
    .abi = PST_OP_ABI,
    .name = "shuffle",
    .doc = "Puts the elements in random order. Over an indexed source the shuffle is exact and global and takes no memory: "
           "the next element is computed, not drawn from a buffer. A stream (compressed shards, pipes) is shuffled within a "
           "buffer instead. The order follows from the seed and the epoch alone.",
    .example = "tfrecord shards/ | shuffle seed=7 | batch 64",
    .params = params,
    .config_size = sizeof(struct shuffle_config),
};
