/* block_conv.h: what other blocks share with the convolution block: reading its lazy values, and serving its gradient. */
#ifndef MODEL_BLOCK_CONV_H
#define MODEL_BLOCK_CONV_H

#include "model/block.h"
#include "model/kernel_table.h"
#include "model/layer_pool.h"

/* The shape of a convolution as kernels see it. Returns false where the node is another layer. */
bool block_conv_shape(const struct graph_node *n, struct conv_shape *ret);
/* Whether the block takes node `node`, and so reads lazy values. */
bool block_conv_reads(const struct step_view *v, size_t node);
/* The same, of any number type. */
bool block_conv_reads_numbers(const struct step_view *v, size_t node);
/* The kernel of a convolution block. Returns false where `b` is another. */
bool block_conv_entry(const struct block *b, struct kernel_entry *ret);
bool block_add_reads(const struct step_view *v, size_t node);

/* In the plan of the only reader of `value`: true where a convolution block made it and leaves masking its gradient, and the
 * sums for its batch normalisation, to the reader. */
bool block_conv_offer(const struct step_view *v, size_t value);

/* What such a reader does to each gradient g: 0 unless low < y < high; where `sum` is given, sum += g, sum2 += g · (z − centre). */
struct conv_service {
    float low, high;
    const void *z; /* of the whole batch, of the value's number type */
    const float *centre;
    double *sum, *sum2; /* of the lane */
};
struct conv_service block_conv_serve(struct step *s, struct block *producer, unsigned lane);

#endif
