/* step_order.h: when each block runs, as numbers that rise through a step; memory is placed by them.
 *
 * Forward in order, backward in reverse order. Where activations are recomputed, blocks are divided into segments of about √blocks:
 * only values that another segment reads are kept; before a segment runs backward, it runs forward once more. */
#ifndef MODEL_STEP_ORDER_H
#define MODEL_STEP_ORDER_H

#include <stdbool.h>
#include <stddef.h>

struct step_order {
    size_t blocks;
    size_t length;  /* blocks of a segment; all of them: nothing is recomputed */
    bool *repeated; /* per segment */
    size_t *again;  /* per block: when it runs forward for the second time */
    size_t *back;   /* per block: when it runs backward */
};

/* `can_repeat[i]`: block i may run forward twice. False: out of memory. */
bool step_order_init(struct step_order *o, size_t blocks, bool recompute, const bool *can_repeat);
void step_order_finish(struct step_order *o);

static inline size_t step_order_segment(const struct step_order *o, size_t block)
{
    return block / o->length;
}

/* Whether the block runs forward twice. */
static inline bool step_order_repeats(const struct step_order *o, size_t block)
{
    return o->repeated[step_order_segment(o, block)];
}

#endif
