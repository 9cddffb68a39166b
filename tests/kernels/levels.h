/* levels.h: what the tests of kernels share: the levels that a table may be filled to, and memory that ends where it ends, so
 * that a sanitizer catches a load beyond a row. */
#ifndef KERNELS_LEVELS_H
#define KERNELS_LEVELS_H

#include "base/cpu.h"

#include <stdbool.h>
#include <stdlib.h>

#define CANARY 0xa5 /* around outputs */

/* The first is the reference. */
static const struct level {
    const char *name;
    unsigned features;
} levels[] = {
    {"c", 0},
    {"avx2", CPU_AVX2},
    {"avx512", CPU_AVX2 | CPU_AVX512},
    {"vnni", CPU_AVX2 | CPU_AVX512 | CPU_VNNI},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static inline bool runs_here(const struct level *l)
{
    return (cpu_features() & l->features) == l->features;
}

static inline void *allocate(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p)
        abort();
    return p;
}

#endif
