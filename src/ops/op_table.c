/* op_table.c: the only list of operations, and looking things up in it. */
#include "ops/op_table.h"

#include "ops/example_op.h"
#include "ops/image/image_op.h"
#include "source/source.h"

#include <string.h>

const struct op_entry op_table[] = {
    {PST_OP_SOURCE, &source_tfrecord.op},
    {PST_OP_SOURCE, &source_folder.op},
    {PST_OP_SOURCE, &source_files.op},
    {PST_OP_SOURCE, &source_npy.op},
    {PST_OP_SOURCE, &source_range.op},
    {PST_OP_SOURCE, &source_arrays.op},
    {PST_OP_ORDER, &op_shuffle},
    {PST_OP_ORDER, &op_repeat},
    {PST_OP_ORDER, &op_take},
    {PST_OP_ORDER, &op_skip},
    {PST_OP_ORDER, &op_shard},
    {PST_OP_SAMPLE, &op_example.op},
    {PST_OP_SAMPLE, &op_select},
    {PST_OP_SAMPLE, &op_drop},
    {PST_OP_SAMPLE, &op_rename},
    {PST_OP_SAMPLE, &op_one_hot},
    {PST_OP_SAMPLE, &op_cast},
    {PST_OP_SAMPLE, &op_decode.op},
    {PST_OP_SAMPLE, &op_resize.op},
    {PST_OP_SAMPLE, &op_crop.op},
    {PST_OP_SAMPLE, &op_center_crop.op},
    {PST_OP_SAMPLE, &op_random_crop.op},
    {PST_OP_SAMPLE, &op_random_resized_crop.op},
    {PST_OP_SAMPLE, &op_flip.op},
    {PST_OP_SAMPLE, &op_normalize},
    {PST_OP_SAMPLE, &op_layout},
    {PST_OP_BATCHING, &op_cache},
    {PST_OP_BATCHING, &op_batch},
    {PST_OP_BATCHING, &op_prefetch},
    {0, NULL},
};

static const size_t op_count = sizeof(op_table) / sizeof(op_table[0]) - 1;

const pst_op_class *pst_op_at(size_t i)
{
    return i < op_count ? op_table[i].op : NULL;
}

const pst_op_class *pst_op_find(const char *name)
{
    for (size_t i = 0; i < op_count; i++)
        if (strcmp(op_table[i].op->name, name) == 0)
            return op_table[i].op;
    return NULL;
}

pst_op_kind pst_op_kind_of(const pst_op_class *op)
{
    for (size_t i = 0; i < op_count; i++)
        if (op_table[i].op == op)
            return op_table[i].kind;
    return PST_OP_SAMPLE; /* the user's own */
}

const struct sample_op *sample_op_of(const pst_op_class *op)
{
    return op == &op_example.op ? &op_example : op == &op_decode.op ? &op_decode : NULL;
}
