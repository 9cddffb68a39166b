/* random.c: Philox 4x32-10 streams.
 *
 * A stream's key is Philox's own output for (seed, epoch, op); the sample is the upper half of the block counter, so
 * two samples under one key can never meet. All values are frozen: a resumed run must draw what the first one drew. */
#include "base/random.h"

__extension__ typedef unsigned __int128 uint128;

static void philox(uint32_t ret[4], uint64_t low, uint64_t high, uint64_t key)
{
    uint32_t c0 = (uint32_t)low, c1 = (uint32_t)(low >> 32), c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xd2511f53) * c0, b = UINT64_C(0xcd9e8d57) * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    ret[0] = c0, ret[1] = c1, ret[2] = c2, ret[3] = c3;
}

void random_init(struct random *r, uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t op)
{
    uint32_t key[4];
    philox(key, epoch, op, seed);
    *r = (struct random){.key = key[0] | (uint64_t)key[1] << 32, .block_hi = sample};
}

uint64_t random_u64(struct random *r)
{
    if (r->left < 2) {
        philox(r->buffer, r->counter++, r->block_hi, r->key);
        r->left = 4;
    }
    const uint32_t *next = r->buffer + 4 - r->left;
    r->left -= 2;
    return next[0] | (uint64_t)next[1] << 32;
}

/* Lemire's multiply-and-reject: the low half of the product tells the few draws that would favour small results. */
uint64_t random_below(struct random *r, uint64_t n)
{
    uint128 product = (uint128)random_u64(r) * n;
    if ((uint64_t)product < n) {
        uint64_t surplus = -n % n; /* 2^64 mod n */
        while ((uint64_t)product < surplus)
            product = (uint128)random_u64(r) * n;
    }
    return (uint64_t)(product >> 64);
}

double random_unit(struct random *r)
{
    return (double)(random_u64(r) >> 11) * 0x1p-53;
}

double random_between(struct random *r, double low, double high)
{
    double v = low + (high - low) * random_unit(r);
    return v < high ? v : low; /* rounding may reach `high` */
}
