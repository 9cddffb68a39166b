/* op_cache.c: the declaration of `cache`; the engine carries it out. */
#include "ops/op_table.h"

static const pst_param params[] = {
    {"bytes", PST_PARAM_BYTES, offsetof(struct cache_config, bytes), "0", 0, 0, NULL,
     "size of the cache; 0: half of the pipeline's RAM budget, or as much as the disk has"},
    {"path", PST_PARAM_STRING, offsetof(struct cache_config, path), "", 0, 0, NULL,
     "folder for a cache on disk, which later runs use, too; empty: in memory"},
    {0},
};

static uint64_t amount(const void *config)
{
    return ((const struct cache_config *)config)->bytes;
}

static const char *folder(const void *config)
{
    const char *path = ((const struct cache_config *)config)->path;
    return path && *path ? path : NULL;
}

static const struct resource_facet resource = {.kind = RESOURCE_CACHE, .amount = amount, .folder = folder};

const struct op_decl op_cache = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "cache",
            .doc = "Keeps elements in memory, or on disk (path=), as they are at this place in the chain, so that later "
                   "epochs do not read or compute them again. A cache on disk serves later runs and other processes, too; "
                   "it belongs to the data, the operations before it and the version of the library, so that a changed "
                   "pipeline never reads an old cache. If it fills its disk, the pipeline continues without it. Data are "
                   "recognised by their size and samples of their bytes: after a change of single bytes, remove the cache. "
                   "Cached elements are never evicted: if the data is twice as large as the "
                   "cache, half of the work is still saved. Put random operations after the cache; the plan refuses "
                   "random operations before it, because every epoch would get the same result.",
            .example = "tfrecord shards/ | example | cache 4G | shuffle | batch 64",
            .params = params,
            .config_size = sizeof(struct cache_config),
        },
    .kind = PST_OP_BATCHING,
    .resource = &resource,
};
