/* hash.c: libxxhash's XXH3, whose values are frozen by its specification. */
#include "base/hash.h"

#include "base/clock.h"

#include <sys/random.h>
#include <xxhash.h>

uint64_t hash_bytes(const void *data, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, length, seed);
}

uint64_t hash_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = clock_ns() ^ (uint64_t)(uintptr_t)&seed;
    return seed;
}

uint64_t hash_combine(uint64_t a, uint64_t b)
{
    uint64_t both[2] = {a, b};
    return XXH3_64bits(both, sizeof(both));
}
