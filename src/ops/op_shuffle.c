/* op_shuffle.c: the declaration of `shuffle`; the engine carries it out. */
#include "base/hash.h"
#include "ops/op_table.h"

#include <math.h>

#define WINDOW_CHUNKS 16 /* runs of neighbours that a window is made of */
#define MOST_CHUNK    (UINT64_C(1) << 48)
#define STREAM_BUFFER (UINT64_C(256) << 20)

static const pst_param params[] = {
    {"buffer", PST_PARAM_AMOUNT, offsetof(struct shuffle_config, buffer), "0", 0, 0, NULL,
     "size of the buffer for a source without an index, in elements (1000) or bytes (64M); 0: 256 MiB"},
    {"window", PST_PARAM_AMOUNT, offsetof(struct shuffle_config, window), "0", 0, 0, NULL,
     "for storage with slow random reads: shuffles runs of adjacent elements, then the elements within "
     "windows of this size, in elements (1000) or bytes (64M); 0: exact shuffle"},
    {"seed", PST_PARAM_INT, offsetof(struct shuffle_config, seed), "-1", -1, INFINITY, NULL,
     "seed of the order; -1: the pipeline's seed. Branches of a join with the same seed and length get the same order"},
    {"reshuffle", PST_PARAM_BOOL, offsetof(struct shuffle_config, reshuffle), "true", 0, 0, NULL,
     "true: a new order in every epoch; false: the same order"},
    {0},
};

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct shuffle_config *c = config;
    *ret = (struct order_step){.kind = ORDER_SHUFFLE, .reshuffle = c->reshuffle};
    ret->seed = c->seed >= 0 ? (uint64_t)c->seed : env->seed;
    if (env->shuffles > 0) /* the second shuffle of a chain must not undo or repeat the first */
        ret->seed = hash_combine(ret->seed, env->shuffles);
    ret->drawn = c->buffer.elements;
    if (!ret->drawn)
        ret->buffer = c->buffer.bytes ? c->buffer.bytes : STREAM_BUFFER; /* not from the RAM budget: the order depends on it */
    if (c->window.elements || c->window.bytes) {
        uint64_t elements = c->window.elements ? c->window.elements : c->window.bytes / env->element_bytes;
        uint64_t chunk = elements / WINDOW_CHUNKS;
        ret->chunk = chunk == 0 ? 1 : chunk < MOST_CHUNK ? chunk : MOST_CHUNK;
        ret->window = ret->chunk * WINDOW_CHUNKS;
    }
}

const struct op_decl op_shuffle = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "shuffle",
            .doc = "Puts the elements in random order. If the source has an index, the shuffle is exact and global and "
                   "takes no memory: the next element is computed, not taken from a buffer. A stream (compressed "
                   "shards, pipes) is shuffled within a buffer, as in tf.data; `plan` reports how good that shuffle is. "
                   "The order depends only on the seed and the epoch.",
            .example = "tfrecord shards/ | shuffle seed=7 | batch 64",
            .params = params,
            .config_size = sizeof(struct shuffle_config),
        },
    .kind = PST_OP_ORDER,
    .reorders = true,
    .order = order,
};
