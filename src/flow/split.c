/* split.c: ranks take turns over the global batches.
 *
 * Ranks get whole batches, not samples: the global order is the same for any number of ranks, and a cursor counts global
 * batches, so that another number of ranks can resume where this one stopped. */
#include "flow/split.h"

unsigned split_turn(unsigned rank, unsigned world, unsigned hosts)
{
    unsigned each = hosts > 1 ? world / hosts : world; /* ranks of a host */
    return hosts > 1 ? rank % each * hosts + rank / each : rank;
}

uint64_t split_steps(const struct split *s, uint64_t batches, uint64_t base)
{
    if (batches == SPLIT_ENDLESS)
        return SPLIT_ENDLESS;
    if (base >= batches)
        return 0;
    uint64_t left = batches - base, whole = left / s->world, rest = left % s->world;
    switch (s->uneven) {
    case PST_UNEVEN_PAD:
        return whole + (rest > 0);
    case PST_UNEVEN_ALLOW:
        return whole + (rest > s->rank);
    case PST_UNEVEN_DROP:
        break;
    }
    return whole;
}

uint64_t split_batch(const struct split *s, uint64_t batches, uint64_t base, uint64_t step)
{
    uint64_t batch = base + step * s->world + s->rank;
    return batch < batches ? batch : (batch - batches) % batches; /* padding begins again at the front */
}

uint64_t split_after(const struct split *s, uint64_t batches, uint64_t base, uint64_t step)
{
    uint64_t after = base + step * s->world;
    return after < batches ? after : batches;
}
