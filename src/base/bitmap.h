/* bitmap.h: a set of numbers below n as bits, with a directory that finds the k-th member in constant time.
 *
 * The words may lie in a mapped file: the bitmap only borrows them. */
#ifndef BASE_BITMAP_H
#define BASE_BITMAP_H

#include <stddef.h>
#include <stdint.h>

#define BITMAP_BLOCK 512 /* bits that one entry of `rank` covers */

struct bitmap {
    const uint64_t *words; /* bit i is bit i % 64 of word i / 64; bits from `count` on are 0 */
    const uint64_t *rank;  /* members before each block, and their total */
    uint64_t count, ones;
    const uint32_t *hint; /* block of every BITMAP_BLOCK-th member, and the last block */
    const uint32_t *members; /* all of them, which saves counting; NULL: not stored */
};

static inline uint64_t bitmap_word_count(uint64_t count)
{
    return count / 64 + (count % 64 > 0);
}
static inline uint64_t bitmap_block_count(uint64_t count)
{
    return count / BITMAP_BLOCK + (count % BITMAP_BLOCK > 0);
}
static inline uint64_t bitmap_ones(const struct bitmap *b)
{
    return b->ones;
}

/* Computes `rank` (bitmap_block_count + 1 entries) from the words; returns the number of members. */
uint64_t bitmap_fill_rank(const uint64_t *words, uint64_t count, uint64_t *rank);
/* Number of entries of `hint`, and the entries. */
uint64_t bitmap_hint_count(uint64_t ones);
void bitmap_fill_hint(const uint64_t *rank, uint64_t count, uint64_t ones, uint32_t *hint);
/* Stores all members of a set of numbers below 2^32. */
void bitmap_fill_members(const uint64_t *words, uint64_t count, uint32_t *members);
/* Replaces each of `n` numbers k < ones by the k-th member. */
void bitmap_select_all(const struct bitmap *b, size_t n, uint64_t *k);
/* Returns the k-th member, from 0; k < ones. */
uint64_t bitmap_select(const struct bitmap *b, uint64_t k);
/* Returns the number of members below `i` < count. */
uint64_t bitmap_rank(const struct bitmap *b, uint64_t i);

#endif
