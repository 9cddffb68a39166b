/* loss_scale.h: the factor that keeps small gradients within the range of float16, by the rules of Keras: it starts at 2^15 and is
 * doubled after 2000 steps in a row with finite gradients; where a gradient is not finite, the update is left out and it is halved. */
#ifndef TRAIN_LOSS_SCALE_H
#define TRAIN_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define LOSS_SCALE_START  32768.0
#define LOSS_SCALE_GROWTH 2000 /* finite steps in a row */
#define LOSS_SCALE_LEAST  0x1p-24 /* Keras has no limit; below this one a run would go on without ever learning */

struct loss_scale {
    double factor;    /* 1: not scaled */
    uint64_t finite;  /* steps in a row */
    uint64_t skipped; /* updates that were left out */
};

/* After the gradients of a step are known: whether to apply them. */
static inline bool loss_scale_judge(struct loss_scale *s, bool finite)
{
    if (!finite) {
        s->factor /= 2;
        s->finite = 0;
        s->skipped++;
        return false;
    }
    if (++s->finite == LOSS_SCALE_GROWTH) {
        s->factor *= 2;
        s->finite = 0;
    }
    return true;
}

#endif
