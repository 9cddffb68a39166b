/* step_order.c: see step_order.h. */
#include "model/step_order.h"

#include "base/memory.h"

bool step_order_init(struct step_order *o, size_t blocks, bool recompute, const bool *can_repeat)
{
    *o = (struct step_order){.blocks = blocks, .length = blocks};
    for (o->length = 1; recompute && o->length * o->length < blocks; o->length++)
        continue;
    o->length = recompute ? o->length : blocks;
    size_t segments = (blocks + o->length - 1) / o->length, time = blocks;
    o->repeated = mem_array(segments, sizeof(*o->repeated));
    o->again = mem_array(blocks, sizeof(*o->again));
    o->back = mem_array(blocks, sizeof(*o->back));
    if (!o->repeated || !o->again || !o->back)
        return false;
    for (size_t s = segments; s-- > 0;) {
        size_t begin = s * o->length, end = begin + o->length < blocks ? begin + o->length : blocks;
        o->repeated[s] = s + 1 < segments; /* backward follows the last one at once */
        for (size_t i = begin; i < end; i++)
            o->repeated[s] &= can_repeat[i];
        for (size_t i = begin; o->repeated[s] && i < end; i++)
            o->again[i] = time++;
        for (size_t i = end; i-- > begin;)
            o->back[i] = time++;
    }
    return true;
}

void step_order_finish(struct step_order *o)
{
    mem_free(o->repeated);
    mem_free(o->again);
    mem_free(o->back);
    *o = (struct step_order){0};
}
