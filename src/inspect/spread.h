/* spread.h: `count` positions spread evenly over [0, total): one in each of `count` equal parts, somewhere in it. Where
 * exactly is a pure function of the part and the total: a fixed step could coincide with a period in the data, such as
 * alternating classes, and see only some of them. */
#ifndef INSPECT_SPREAD_H
#define INSPECT_SPREAD_H

#include "base/hash.h"

struct spread {
    uint64_t total, count;
};

/* As many positions as wanted, at most all of them. */
static inline struct spread spread_make(uint64_t total, uint64_t wanted)
{
    if (wanted >= total)
        return (struct spread){total, total};
    /* spread_part multiplies two numbers up to `count` */
    return (struct spread){total, wanted < UINT32_MAX ? wanted : UINT32_MAX};
}

/* Where part k begins: floor(k · total / count). */
static inline uint64_t spread_part(const struct spread *s, uint64_t k)
{
    return k * (s->total / s->count) + k * (s->total % s->count) / s->count;
}

static inline uint64_t spread_at(const struct spread *s, uint64_t k)
{
    if (s->total == s->count)
        return k;
    uint64_t begin = spread_part(s, k), end = spread_part(s, k + 1);
    return begin + hash_combine(s->total, k) % (end - begin);
}

/* The first k whose position is at least `position`; `count` when there is none. */
static inline uint64_t spread_first(const struct spread *s, uint64_t position)
{
    uint64_t low = 0, high = s->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (spread_at(s, middle) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
