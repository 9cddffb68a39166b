/* op_list.h: every operation by name. Written by scripts/list_ops.py (make generate); do not edit. */
#ifndef OPS_OP_LIST_H
#define OPS_OP_LIST_H

#include "ops/op_decl.h"
#include "source/source.h"

extern const struct source_class source_tfrecord;
extern const struct source_class source_folder;
extern const struct source_class source_files;
extern const struct source_class source_npy;
extern const struct source_class source_range;
extern const struct source_class source_arrays;
extern const struct source_class source_generator;
extern const struct source_class source_lines;
extern const struct source_class source_records;
extern const struct source_class source_csv;
extern const struct op_decl op_concatenate;
extern const struct op_decl op_zip;
extern const struct source_class source_tar;
extern const struct source_class source_tokens;
extern const struct op_decl op_choose;
extern const struct op_decl op_interleave;
extern const struct op_decl op_sample;
extern const struct source_class source_hdf5;
extern const struct op_decl op_shuffle;
extern const struct op_decl op_repeat;
extern const struct op_decl op_take;
extern const struct op_decl op_skip;
extern const struct op_decl op_shard;
extern const struct op_decl op_unique;
extern const struct op_decl op_filter;
extern const struct op_decl op_resample;
extern const struct op_decl op_snapshot;
extern const struct op_decl op_example;
extern const struct op_decl op_select;
extern const struct op_decl op_drop;
extern const struct op_decl op_rename;
extern const struct op_decl op_one_hot;
extern const struct op_decl op_cast;
extern const struct op_decl op_stack;
extern const struct op_decl op_decode;
extern const struct op_decl op_resize;
extern const struct op_decl op_crop;
extern const struct op_decl op_center_crop;
extern const struct op_decl op_random_crop;
extern const struct op_decl op_random_resized_crop;
extern const struct op_decl op_flip;
extern const struct op_decl op_normalize;
extern const struct op_decl op_layout;
extern const struct op_decl op_decode_raw;
extern const struct op_decl op_enumerate;
extern const struct op_decl op_expr;
extern const struct op_decl op_scale;
extern const struct op_decl op_cache;
extern const struct op_decl op_batch;
extern const struct op_decl op_prefetch;
extern const struct op_decl op_padded_batch;
extern const struct op_decl op_rebatch;
extern const struct op_decl op_unbatch;
extern const struct op_decl op_window;
extern const struct op_decl op_bucket;
extern const struct op_decl op_group;
extern const struct op_decl op_ragged_batch;

#endif
