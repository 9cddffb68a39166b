/* block_schedule.c: see block_schedule.h. Up to the block in which a branch first ends, the block of element k is a division.
 * After that, blocks have gaps where branches have ended, and the block is found by searching the number of elements before it,
 * which is a sum over the branches. */
#include "ops/block_schedule.h"

#include "base/hash.h"

#include <string.h>

/* Computes the branches of block `q`. */
static void enter_block(const struct block_schedule *s, struct block_memo *m, uint64_t q)
{
    uint16_t seen[BLOCK_MAX] = {0};
    struct permutation order;
    if (m->block == q + 1)
        return;
    if (s->shuffled)
        permutation_init(&order, s->block, hash_combine(s->seed, q), 0);
    for (size_t j = 0; j < s->block; j++) {
        uint16_t branch = s->order[s->shuffled ? permutation_at(&order, j) : j];
        m->branch[j] = branch;
        m->before[j] = seen[branch]++;
    }
    m->block = q + 1;
}

/* How many elements of a branch the first `q` blocks have. */
static uint64_t taken(const struct block_schedule *s, size_t branch, uint64_t q)
{
    uint64_t places;
    if (__builtin_mul_overflow(q, (uint64_t)s->share[branch], &places) || places > s->length[branch])
        return s->length[branch];
    return places;
}

static uint64_t elements_before(const struct block_schedule *s, uint64_t q)
{
    uint64_t sum = 0;
    for (size_t b = 0; b < s->branches; b++)
        if (__builtin_add_overflow(sum, taken(s, b, q), &sum))
            return UINT64_MAX;
    return sum;
}

/* The block that has element `k`, where branches have ended. Every block before it has an element at least. */
static uint64_t find_block(const struct block_schedule *s, uint64_t k)
{
    uint64_t low = s->plain, high = k; /* the last block with at most k elements before it */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2 + 1;
        if (elements_before(s, middle) <= k)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void map_one(const struct block_schedule *s, struct block_memo *m, uint64_t k, uint32_t *ret_branch, uint64_t *ret_at)
{
    uint64_t q = k / s->block;
    size_t j = (size_t)(k % s->block);
    if (q < s->plain || s->stop == BLOCK_STOP_FIRST) {
        enter_block(s, m, q);
    } else {
        q = find_block(s, k);
        enter_block(s, m, q);
        uint64_t left = k - elements_before(s, q);
        for (j = 0;; j++)
            if (q * s->share[m->branch[j]] + m->before[j] < s->length[m->branch[j]] && left-- == 0)
                break;
    }
    *ret_branch = m->branch[j];
    *ret_at = q * s->share[m->branch[j]] + m->before[j];
}

void block_schedule_map(const void *schedule, void *memo, size_t n, const uint64_t *position, uint32_t *ret_branch,
                        uint64_t *ret_at)
{
    for (size_t i = 0; i < n; i++)
        map_one(schedule, memo, position[i], &ret_branch[i], &ret_at[i]);
}

void block_schedule_init(struct block_schedule *s, struct block_memo *memo, uint64_t *ret_length)
{
    memset(s->share, 0, sizeof(s->share));
    for (size_t j = 0; j < s->block; j++)
        s->share[s->order[j]]++;
    s->plain = UINT64_MAX;
    bool endless = s->stop == BLOCK_STOP_FIRST;
    for (size_t b = 0; b < s->branches; b++) {
        if (s->share[b] == 0)
            continue;
        uint64_t blocks = s->length[b] == JOIN_ENDLESS ? UINT64_MAX : s->length[b] / s->share[b];
        s->plain = blocks < s->plain ? blocks : s->plain;
        endless = s->stop == BLOCK_STOP_FIRST ? endless && blocks == UINT64_MAX : endless || blocks == UINT64_MAX;
    }
    if (endless) {
        *ret_length = JOIN_ENDLESS;
        return;
    }
    if (s->stop == BLOCK_STOP_ALL) {
        *ret_length = elements_before(s, UINT64_MAX);
        return;
    }
    size_t j = 0;
    enter_block(s, memo, s->plain);
    while (s->plain * s->share[memo->branch[j]] + memo->before[j] < s->length[memo->branch[j]])
        j++;
    *ret_length = s->plain * s->block + j;
}
