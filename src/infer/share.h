/* share.h: how workers divide a call. */
#ifndef INFER_SHARE_H
#define INFER_SHARE_H

#include <stddef.h>

/* The part of `count` things, in units of `unit`, that belongs to worker `part`: [*begin, *end). */
static inline void share_units(size_t count, size_t unit, unsigned part, unsigned parts, size_t *begin, size_t *end)
{
    size_t units = (count + unit - 1) / unit;
    *begin = units * part / parts * unit;
    *end = units * (part + 1) / parts * unit;
    *begin = *begin < count ? *begin : count;
    *end = *end < count ? *end : count;
}

#endif
