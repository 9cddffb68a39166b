/* test_random.c: the streams and the permutation: published vectors, frozen values, and whether they look random.
 *
 * The statistical tests have fixed seeds: they pass always or never, and a bound of 5 deviations leaves no luck. */
#include "base/random.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How many deviations chi-square is above what chance gives. */
static double excess(const uint32_t *counts, size_t cells, double expected, double freedom)
{
    double x = 0;
    for (size_t i = 0; i < cells; i++)
        x += (counts[i] - expected) * (counts[i] - expected) / expected;
    return (x - freedom) / sqrt(2 * freedom);
}

#define CHECK_CHANCE(z) CHECK_MSG(fabs(z) < 5, "%s is %.1f deviations off", #z, z)

static void check_block(uint64_t low, uint64_t high, uint64_t key, uint64_t want0, uint64_t want1)
{
    struct random r = {.counter = low, .block_hi = high, .key = key};
    CHECK(random_u64(&r) == want0);
    CHECK(random_u64(&r) == want1);
    CHECK(r.counter == low + 1);
}

/* philox4x32-10 of Random123's known answers. */
static void test_known_answers(void)
{
    check_block(0, 0, 0, 0xe169c58d6627e8d5u, 0x9b00dbd8bc57ac4cu);
    check_block(UINT64_MAX, UINT64_MAX, UINT64_MAX, 0x41c83b0e408f276du, 0x6d5451fda20bc7c6u);
    check_block(0x85a308d3243f6a88u, 0x0370734413198a2eu, 0x299f31d0a4093822u, 0x94fdccebd16cfe09u, 0x24126ea15001e420u);
}

/* Each part of the key matters, and none is mistaken for another. */
static void test_keys(void)
{
    uint64_t first[4096];
    size_t n = 0;
    for (uint64_t seed = 0; seed < 8; seed++)
        for (uint64_t epoch = 0; epoch < 8; epoch++)
            for (uint64_t sample = 0; sample < 8; sample++)
                for (uint32_t op = 0; op < 8; op++) {
                    struct random r;
                    random_init(&r, seed, epoch << 32, sample << 40, op);
                    first[n++] = random_u64(&r);
                }
    unsigned same = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            same += first[i] == first[k];
    CHECK_INT(same, 0);
}

static void test_below(void)
{
    struct random r;
    uint32_t counts[7] = {0};
    random_init(&r, 1, 0, 0, 0);
    for (int i = 0; i < 70000; i++)
        counts[random_below(&r, 7)]++;
    CHECK_CHANCE(excess(counts, 7, 10000, 6));
    for (int i = 0; i < 100; i++)
        CHECK_INT(random_below(&r, 1), 0);
    /* 2^64 draws onto 3 * 2^62 results: without rejection every third would come twice as often. */
    uint32_t thirds[3] = {0};
    uint64_t n = UINT64_C(3) << 62;
    for (int i = 0; i < 30000; i++) {
        uint64_t v = random_below(&r, n);
        CHECK(v < n);
        thirds[v % 3]++;
    }
    CHECK_CHANCE(excess(thirds, 3, 10000, 2));
    for (int i = 0; i < 1000; i++)
        CHECK(random_below(&r, UINT64_MAX) < UINT64_MAX);
}

static void test_doubles(void)
{
    struct random r;
    uint32_t counts[64] = {0};
    double sum = 0;
    random_init(&r, 2, 0, 0, 0);
    for (int i = 0; i < 64000; i++) {
        double u = random_unit(&r);
        CHECK(u >= 0 && u < 1);
        counts[(int)(u * 64)]++;
        sum += random_between(&r, -3, 5);
    }
    CHECK_CHANCE(excess(counts, 64, 1000, 63));
    CHECK(fabs(sum / 64000 - 1) < 0.05);
    for (int i = 0; i < 1000; i++) {
        double v = random_between(&r, 1, nextafter(1, 2)); /* half of the draws round up to the end */
        CHECK(v == 1);
    }
    CHECK(random_between(&r, 2, 2) == 2);
}

/* Every n up to 2000: each value once, and the inverse leads back. */
static void test_bijection(void)
{
    static uint64_t seen[2001]; /* n + 1 when taken by this n */
    for (uint64_t n = 0; n <= 2000; n++) {
        struct permutation p;
        permutation_init(&p, n, n * 31, 5);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = permutation_at(&p, i);
            if (j >= n || seen[j] == n + 1 || permutation_inverse(&p, j) != i)
                CHECK_MSG(false, "n = %d, i = %d, j = %d", (int)n, (int)i, (int)j);
            else
                seen[j] = n + 1;
        }
    }
}

/* Many at once are what each is by itself, however many and from wherever. */
static void test_map(void)
{
    static const uint64_t sizes[] = {1, 2, 7, 63, 1000, 4097, 1281167, (1ull << 32) + 1, 1ull << 63};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct permutation p;
        struct random r;
        permutation_init(&p, sizes[k], 7, k);
        random_init(&r, 5, k, 0, 0);
        for (size_t count = 0; count <= 40; count++) {
            uint64_t index[40], mapped[40];
            for (size_t i = 0; i < count; i++)
                index[i] = mapped[i] = random_below(&r, sizes[k]);
            permutation_map(&p, mapped, count);
            for (size_t i = 0; i < count; i++)
                CHECK(mapped[i] == permutation_at(&p, index[i]));
        }
    }
}

static void test_large_inverse(void)
{
    static const uint64_t sizes[] = {4095,
                                     4096,
                                     4097,
                                     65535,
                                     65536,
                                     65537,
                                     1000003,
                                     1281167,
                                     1000000000,
                                     UINT32_MAX,
                                     1ull << 32,
                                     (1ull << 32) + 1,
                                     999999999999989,
                                     1ull << 62,
                                     (1ull << 63) - 1,
                                     1ull << 63};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct permutation p;
        struct random r;
        uint64_t n = sizes[k];
        permutation_init(&p, n, 99, k);
        random_init(&r, 3, k, 0, 0);
        for (uint64_t s = 0; s < 2000; s++) {
            uint64_t i = s < 3 ? s : s < 6 ? n - 1 - (s - 3) : random_below(&r, n), j = permutation_at(&p, i);
            CHECK(j < n && permutation_inverse(&p, j) == i);
            CHECK(permutation_at(&p, permutation_inverse(&p, i)) == i);
        }
    }
}

/* The rank of the order of n <= 7 elements among all n! orders. */
static unsigned rank_of(const struct permutation *p)
{
    unsigned n = (unsigned)p->n, rank = 0;
    uint64_t order[8];
    for (unsigned i = 0; i < n; i++)
        order[i] = permutation_at(p, i);
    for (unsigned i = 0; i < n; i++) {
        unsigned smaller = 0;
        for (unsigned k = i + 1; k < n; k++)
            smaller += order[k] < order[i];
        rank = rank * (n - i) + smaller;
    }
    return rank;
}

/* All orders of a few elements come equally often. */
static void test_all_orders(void)
{
    static uint32_t counts[5040];
    unsigned orders = 1;
    for (unsigned n = 2; n <= 7; n++) {
        unsigned seeds = 60000;
        orders *= n;
        memset(counts, 0, sizeof(counts));
        for (uint64_t seed = 0; seed < seeds; seed++) {
            struct permutation p;
            permutation_init(&p, n, seed, n);
            counts[rank_of(&p)]++;
        }
        double z = excess(counts, orders, (double)seeds / orders, orders - 1);
        CHECK_MSG(fabs(z) < 5, "orders of %u: %.1f deviations off", n, z);
    }
}

/* Every element comes to every position equally often, over seeds and over epochs. */
static void test_positions(void)
{
    static const unsigned sizes[] = {5, 52, 61};
    static uint32_t counts[61 * 61];
    for (size_t k = 0; k < 6; k++) {
        unsigned n = sizes[k / 2], draws = 500 * n;
        memset(counts, 0, sizeof(counts));
        for (uint64_t d = 0; d < draws; d++) {
            struct permutation p;
            permutation_init(&p, n, k % 2 ? d : 7, k % 2 ? 7 : d);
            for (uint64_t i = 0; i < n; i++)
                counts[i * n + permutation_at(&p, i)]++;
        }
        double z = excess(counts, n * n, 500, (n - 1) * (n - 1));
        CHECK_MSG(fabs(z) < 5, "positions of %u: %.1f deviations off", n, z);
    }
}

/* Neighbours in one order are independent: 32 x 32 regions of (here, next), ascents, steps of one. */
static void test_neighbours(void)
{
    static const uint64_t sizes[] = {10007, 65536, 1281167, 1000000000, UINT64_C(1) << 63};
    static uint32_t counts[32 * 32];
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct permutation p;
        uint64_t n = sizes[k], draws = n - 1 < 200000 ? n - 1 : 200000, ascents = 0, steps = 0;
        memset(counts, 0, sizeof(counts));
        permutation_init(&p, n, 11, k);
        for (uint64_t i = 0, here = permutation_at(&p, 0), next; i < draws; i++, here = next) {
            next = permutation_at(&p, i + 1);
            counts[(unsigned)((double)here / (double)n * 32) * 32 + (unsigned)((double)next / (double)n * 32)]++;
            ascents += next > here;
            steps += next == here + 1;
        }
        /* Whole permutations have exact margins, hence the smaller freedom; parts are near it too. */
        double z = excess(counts, 1024, (double)draws / 1024, 31 * 31);
        CHECK_MSG(fabs(z) < 5, "neighbours of %llu: %.1f deviations off", (unsigned long long)n, z);
        double up = ((double)ascents - (double)draws / 2) / sqrt((double)draws / 12);
        CHECK_MSG(fabs(up) < 5, "ascents of %llu: %.1f deviations off", (unsigned long long)n, up);
        CHECK(steps < 10);
    }
}

/* Two epochs, two seeds or two lengths have nothing in common. */
static void test_independence(void)
{
    struct permutation a, b[3];
    unsigned same[3] = {0};
    permutation_init(&a, 10000, 1, 1);
    permutation_init(&b[0], 10000, 1, 2);
    permutation_init(&b[1], 10000, 2, 1);
    permutation_init(&b[2], 10001, 1, 1);
    for (uint64_t i = 0; i < 10000; i++)
        for (int k = 0; k < 3; k++)
            same[k] += permutation_at(&a, i) == permutation_at(&b[k], i);
    for (int k = 0; k < 3; k++)
        CHECK(same[k] < 8);
}

/* Changing any of these values breaks every saved cursor and every packed order: they may only be added to. */
static void test_goldens(void)
{
    static const uint64_t stream[] = {0x1c7929faa2e054e0u, 0x5f79258c6c83ddb0u, 0x54a3b71008103977u, 0x10595e77e9b0fd91u};
    static const uint64_t small[] = {3, 1, 2, 9, 8, 5, 7, 4, 6, 0};
    static const uint64_t large[] = {998906228, 16729358, 740243363, 794160984};
    struct random r;
    struct permutation p;
    random_init(&r, 7, 3, 1000000007, 42);
    for (int i = 0; i < 4; i++)
        CHECK(random_u64(&r) == stream[i]);
    CHECK_INT(random_below(&r, 1000), 80);
    CHECK(random_unit(&r) == 0x1.e9d9430a70b16p-1);
    permutation_init(&p, 10, 7, 3);
    for (uint64_t i = 0; i < 10; i++)
        CHECK_INT(permutation_at(&p, i), small[i]);
    permutation_init(&p, 1000000000, 7, 3);
    for (uint64_t i = 0; i < 4; i++)
        CHECK_INT(permutation_at(&p, i * 333333333), large[i]);
    permutation_init(&p, UINT64_C(1) << 63, 7, 3);
    CHECK(permutation_at(&p, 12345) == UINT64_C(1901103552046724720));
}

static const struct test tests[] = {
    {"known answers", test_known_answers},
    {"every part of the key counts", test_keys},
    {"below n", test_below},
    {"doubles", test_doubles},
    {"one-to-one for every n to 2000", test_bijection},
    {"many at once", test_map},
    {"inverse up to 2^63", test_large_inverse},
    {"all orders are equally likely", test_all_orders},
    {"all positions are equally likely", test_positions},
    {"neighbours are independent", test_neighbours},
    {"epochs, seeds and lengths are independent", test_independence},
    {"frozen values", test_goldens},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
