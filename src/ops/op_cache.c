/* op_cache.c: the declaration of `cache`; the engine carries it out. */
#include "ops/op_table.h"

static const pst_param params[] = {
    {"bytes", PST_PARAM_BYTES, offsetof(struct cache_config, bytes), "0", 0, 0, NULL,
     "memory for the cache; 0: half of the pipeline's RAM budget"},
    {0},
};

static uint64_t amount(const void *config)
{
    return ((const struct cache_config *)config)->bytes;
}

static const struct resource_facet resource = {.kind = RESOURCE_CACHE, .amount = amount};

const struct op_decl op_cache = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "cache",
            .doc = "Keeps elements in memory as they are at this place in the chain, so that later epochs do not read "
                   "or compute them again. Cached elements are never evicted: if the data is twice as large as the "
                   "cache, half of the work is still saved. Put random operations after the cache; the plan refuses "
                   "random operations before it, because every epoch would get the same result.",
            .example = "tfrecord shards/ | example | cache 4G | shuffle | batch 64",
            .params = params,
            .config_size = sizeof(struct cache_config),
        },
    .kind = PST_OP_BATCHING,
    .resource = &resource,
};
