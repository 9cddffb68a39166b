/* op_list.c: the table of operations, in the order of the reference. Written by scripts/list_ops.py (make generate); do not edit. */
#include "ops/op_list.h"

#include "ops/op_table.h"

const struct op_entry op_table[] = {
    {&source_tfrecord.op, NULL},
    {&source_folder.op, NULL},
    {&source_files.op, NULL},
    {&source_npy.op, NULL},
    {&source_range.op, NULL},
    {&source_arrays.op, NULL},
    {&op_shuffle.op, &op_shuffle},
    {&op_repeat.op, &op_repeat},
    {&op_take.op, &op_take},
    {&op_skip.op, &op_skip},
    {&op_shard.op, &op_shard},
    {&op_example.op, &op_example},
    {&op_select.op, &op_select},
    {&op_drop.op, &op_drop},
    {&op_rename.op, &op_rename},
    {&op_one_hot.op, &op_one_hot},
    {&op_cast.op, &op_cast},
    {&op_stack.op, &op_stack},
    {&op_decode.op, &op_decode},
    {&op_resize.op, &op_resize},
    {&op_crop.op, &op_crop},
    {&op_center_crop.op, &op_center_crop},
    {&op_random_crop.op, &op_random_crop},
    {&op_random_resized_crop.op, &op_random_resized_crop},
    {&op_flip.op, &op_flip},
    {&op_normalize.op, &op_normalize},
    {&op_layout.op, &op_layout},
    {&op_cache.op, &op_cache},
    {&op_batch.op, &op_batch},
    {&op_prefetch.op, &op_prefetch},
    {NULL, NULL},
};
