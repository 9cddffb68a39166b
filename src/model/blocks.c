/* blocks.c: the order in which implementations are asked. */
#include "model/block.h"

const struct block_class *const block_classes[] = {&block_conv, &block_add, &block_dense, &block_reference, NULL};
