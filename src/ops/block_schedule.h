/* block_schedule.h: which branch element k of a join comes from, in blocks: every block holds each branch equally often, either
 * in random order (a new one in every block) or in the order of a list. Elements of a branch keep their order. */
#ifndef OPS_BLOCK_SCHEDULE_H
#define OPS_BLOCK_SCHEDULE_H

#include "base/random.h"
#include "ops/join_facet.h"

#define BLOCK_MAX 1000 /* elements of a block, and branches */

enum block_stop { BLOCK_STOP_FIRST, BLOCK_STOP_ALL }; /* ends with the first branch, or when all are used up */

struct block_schedule {
    size_t branches, block;
    bool shuffled;
    enum block_stop stop;
    uint64_t seed;
    uint64_t plain;            /* blocks before the first one in which a branch ends */
    uint16_t order[BLOCK_MAX]; /* branch of each place of a block, before it is shuffled */
    uint16_t share[BLOCK_MAX]; /* places that each branch has in a block */
    uint64_t length[BLOCK_MAX];
};

struct block_memo {
    uint64_t block; /* number of the block plus 1; 0: none */
    uint16_t branch[BLOCK_MAX];
    uint16_t before[BLOCK_MAX]; /* places of the same branch before this one */
};

/* Makes the schedule from `order`, `block`, `branches`, `shuffled`, `stop`, `seed` and `length`, which are set, and computes the
 * number of elements. */
void block_schedule_init(struct block_schedule *s, struct block_memo *memo, uint64_t *ret_length);
/* See join_facet: `schedule` is a struct block_schedule, `memo` a struct block_memo. */
void block_schedule_map(const void *schedule, void *memo, size_t n, const uint64_t *position, uint32_t *ret_branch,
                        uint64_t *ret_at);

#endif
