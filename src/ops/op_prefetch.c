/* op_prefetch.c: the declaration of `prefetch`; the engine carries it out. */
#include "ops/op_table.h"

static const pst_param params[] = {
    {"depth", PST_PARAM_INT, offsetof(struct prefetch_config, depth), "-1", -1, 1e6, NULL,
     "number of batches; -1 and 0: automatic"},
    {0},
};

static uint64_t amount(const void *config)
{
    int64_t depth = ((const struct prefetch_config *)config)->depth;
    return depth > 0 ? (uint64_t)depth : 0;
}

static const struct resource_facet resource = {.kind = RESOURCE_PREFETCH, .amount = amount};

const struct op_decl op_prefetch = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "prefetch",
            .doc = "Sets how many batches are prepared before they are requested. Prefetching is always on, even "
                   "without this operation. Automatic means: as many batches as the measured variation in speed "
                   "requires, within the RAM budget.",
            .example = "tfrecord shards/ | shuffle | batch 64 | prefetch 4",
            .params = params,
            .config_size = sizeof(struct prefetch_config),
        },
    .kind = PST_OP_BATCHING,
    .resource = &resource,
};
