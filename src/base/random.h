/* random.h: randomness as a pure function. No state is shared; the same key gives the same stream on any thread. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* A stream keyed by (seed, epoch, sample, op); draws advance `counter` only. Philox 4x32-10 underneath. */
struct random {
    uint64_t key, block_hi; /* derived from the key tuple */
    uint64_t counter;
    uint32_t buffer[4];
    unsigned left;
};

void random_init(struct random *r, uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t op);
uint64_t random_u64(struct random *r);
uint64_t random_below(struct random *r, uint64_t n); /* uniform on [0, n), n > 0, unbiased */
double random_unit(struct random *r);                /* uniform on [0, 1), 53 bits */
double random_between(struct random *r, double low, double high);

/* A permutation of [0, n), n <= 2^63, in O(1) memory: a keyed Feistel network on a nearly square grid of at least n cells,
 * with cycle walking over the few cells too many. */
struct permutation {
    uint64_t n;
    uint64_t rows, columns;
    uint64_t keys[8];
};

void permutation_init(struct permutation *p, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t permutation_at(const struct permutation *p, uint64_t i);                 /* i < n */
void permutation_map(const struct permutation *p, uint64_t *index, size_t count); /* permutation_at of each, in place */
uint64_t permutation_inverse(const struct permutation *p, uint64_t j);            /* permutation_at(inverse(j)) == j */

#endif
