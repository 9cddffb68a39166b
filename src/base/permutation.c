/* permutation.c: an order of [0, n) that is computed instead of stored.
 *
 * An index is a cell of a grid that is nearly square. A round turns every row, or every column, by an amount that depends
 * on the row and a key: a Feistel network whose halves need not be powers of two, so that few cells are too many. All values
 * are frozen: the order of an epoch must outlive the version that chose it. */
#include "base/random.h"

#include <assert.h>

__extension__ typedef unsigned __int128 uint128;

#define PERMUTATION_OP UINT32_MAX /* a key that no operation has */
#define KEYS           8
#define LANES          4

/* The square root, rounded up; n <= 2^63. */
static uint64_t root_up(uint64_t n)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
        if ((root | bit) * (root | bit) < n)
            root |= bit;
    return root + 1; /* root * root < n <= (root + 1) * (root + 1) */
}

/* Turning lines of even length makes odd permutations too; on an odd grid half of all orders would never come. */
static uint64_t even_up(uint64_t n)
{
    return n < 2 ? 2 : n + n % 2;
}

void permutation_init(struct permutation *p, uint64_t n, uint64_t seed, uint64_t epoch)
{
    struct random r;
    *p = (struct permutation){.n = n, .rows = even_up(root_up(n))};
    p->columns = even_up(n / p->rows + (n % p->rows != 0));
    random_init(&r, seed, epoch, n, PERMUTATION_OP);
    for (int i = 0; i < KEYS; i++)
        p->keys[i] = random_u64(&r);
}

/* Eight rounds pass for random on wide grids; on the smallest, chi-square over all orders of 7 wants more than sixteen. */
static unsigned round_count(const struct permutation *p)
{
    return p->rows < 64 ? 3 * KEYS : KEYS;
}

/* How far round `round` turns a line of `size` cells, given the other coordinate. Any function makes a permutation; one
 * that mixes well makes a good one. */
static uint64_t turn(const struct permutation *p, unsigned round, uint64_t other, uint64_t size)
{
    uint64_t x = other + p->keys[round % KEYS] + (round / KEYS) * UINT64_C(0x9e3779b97f4a7c15);
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    x *= UINT64_C(0x94d049bb133111eb);
    return (uint64_t)((uint128)x * size >> 64);
}

static uint64_t shuffle_once(const struct permutation *p, uint64_t cell)
{
    uint64_t row = cell / p->columns, column = cell % p->columns;
    for (unsigned round = 0; round < round_count(p); round += 2) {
        row += turn(p, round, column, p->rows);
        row -= row >= p->rows ? p->rows : 0;
        column += turn(p, round + 1, row, p->columns);
        column -= column >= p->columns ? p->columns : 0;
    }
    return row * p->columns + column;
}

static uint64_t unshuffle_once(const struct permutation *p, uint64_t cell)
{
    uint64_t row = cell / p->columns, column = cell % p->columns;
    for (unsigned round = round_count(p); round > 0; round -= 2) {
        column -= turn(p, round - 1, row, p->columns);
        column += column >= p->columns ? p->columns : 0; /* it wrapped below zero */
        row -= turn(p, round - 2, column, p->rows);
        row += row >= p->rows ? p->rows : 0;
    }
    return row * p->columns + column;
}

/* The grid has a few cells more than n. Going on until back below n follows the cycles of the grid's permutation, which
 * stays one-to-one. */
uint64_t permutation_at(const struct permutation *p, uint64_t i)
{
    assert(i < p->n);
    do
        i = shuffle_once(p, i);
    while (i >= p->n);
    return i;
}

/* Several at a time: the rounds of one wait for each other, those of its neighbours need not wait for them. */
static void shuffle_lanes(const struct permutation *p, uint64_t *cells)
{
    uint64_t row[LANES], column[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        row[i] = cells[i] / p->columns;
        column[i] = cells[i] % p->columns;
    }
    for (unsigned round = 0; round < round_count(p); round += 2) {
        for (unsigned i = 0; i < LANES; i++) {
            row[i] += turn(p, round, column[i], p->rows);
            row[i] -= row[i] >= p->rows ? p->rows : 0;
        }
        for (unsigned i = 0; i < LANES; i++) {
            column[i] += turn(p, round + 1, row[i], p->columns);
            column[i] -= column[i] >= p->columns ? p->columns : 0;
        }
    }
    for (unsigned i = 0; i < LANES; i++)
        cells[i] = row[i] * p->columns + column[i];
}

void permutation_map(const struct permutation *p, uint64_t *index, size_t count)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        shuffle_lanes(p, index + i);
        for (size_t k = i; k < i + LANES; k++)
            while (index[k] >= p->n)
                index[k] = shuffle_once(p, index[k]);
    }
    for (; i < count; i++)
        index[i] = permutation_at(p, index[i]);
}

uint64_t permutation_inverse(const struct permutation *p, uint64_t j)
{
    assert(j < p->n);
    do
        j = unshuffle_once(p, j);
    while (j >= p->n);
    return j;
}
