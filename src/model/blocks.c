/* blocks.c: the order in which implementations are asked, and how the values between them are stored. */
#include "model/block_conv.h"
#include "model/strip.h"

const struct block_class *const block_classes[] = {&block_conv, &block_add, &block_dense, &block_reference, NULL};

enum number block_number(const struct step_view *v, size_t value)
{
    if (v->consumers[value] == 0 || graph_shape(v->graph, value)->c > STRIP_WIDEST)
        return NUMBER_F32;
    for (size_t i = 0; i < v->nodes; i++)
        for (size_t k = 0; k < v->graph->nodes[i].inputs; k++)
            if (v->graph->nodes[i].input[k] == value && !block_conv_reads_numbers(v, i) && !block_add_reads(v, i) && !block_dense_reads(v, i))
                return NUMBER_F32;
    return v->options->store;
}
