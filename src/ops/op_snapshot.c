/* op_snapshot.c: the declaration of `snapshot`; the engine carries it out. */
#include "ops/op_table.h"

static const pst_param params[] = {
    {"path", PST_PARAM_STRING, offsetof(struct snapshot_rule, path), NULL, 0, 0, NULL, "folder on a local disk for the shards"},
    {"bytes", PST_PARAM_BYTES, offsetof(struct snapshot_rule, bytes), "64M", 4096, 1e12, NULL,
     "size of a shard; an interruption loses up to one"},
    {0},
};

static const struct snapshot_rule *snapshot(const void *config)
{
    return config;
}

const struct op_decl op_snapshot = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "snapshot",
            .doc = "Computes the elements before it once, writes them to shards in a folder, and reads these from then on: in "
                   "later epochs, in later runs and in other processes. What comes after it has an index, whatever comes before: a "
                   "compressed file, a generator or bucket can be shuffled exactly, resumed at once and divided among ranks. "
                   "The elements are those of the first epoch, and random operations before it are not repeated. Planning makes "
                   "the snapshot, once the types of the whole chain are right; processes that start together wait for the one "
                   "that makes it, and what an interruption left is completed. A snapshot belongs to the data, the operations "
                   "before it, the seed and the version of the library: a changed pipeline makes a new one. `penstock cache "
                   "FOLDER` lists and removes snapshots.",
            .example = "tfrecord zipped/ | example | decode | resize 224 | snapshot snapshots/ | shuffle | batch 64",
            .params = params,
            .config_size = sizeof(struct snapshot_rule),
        },
    .kind = PST_OP_ORDER,
    .cut = CUT_SNAPSHOT,
    .snapshot = snapshot,
};
