/* bitmap.c: rank and select. The k-th member lies between the blocks that two neighbouring hints name; the ranks find the
 * block, counting bits finds the word, and clearing the lowest set bits finds the bit. */
#include "base/bitmap.h"

#define WORDS (BITMAP_BLOCK / 64)

uint64_t bitmap_fill_rank(const uint64_t *words, uint64_t count, uint64_t *rank)
{
    uint64_t ones = 0, n = bitmap_word_count(count);
    for (uint64_t w = 0; w < n; w++) {
        if (w % WORDS == 0)
            rank[w / WORDS] = ones;
        ones += (uint64_t)__builtin_popcountll(words[w]);
    }
    rank[bitmap_block_count(count)] = ones;
    return ones;
}

uint64_t bitmap_hint_count(uint64_t ones)
{
    return ones / BITMAP_BLOCK + 2;
}

void bitmap_fill_hint(const uint64_t *rank, uint64_t count, uint64_t ones, uint32_t *hint)
{
    uint64_t blocks = bitmap_block_count(count), block = 0;
    for (uint64_t h = 0; h <= ones / BITMAP_BLOCK; h++) {
        while (block + 1 < blocks && rank[block + 1] <= h * BITMAP_BLOCK)
            block++;
        hint[h] = (uint32_t)block;
    }
    hint[ones / BITMAP_BLOCK + 1] = (uint32_t)(blocks ? blocks - 1 : 0);
}

uint64_t bitmap_select(const struct bitmap *b, uint64_t k)
{
    uint64_t low = b->hint[k / BITMAP_BLOCK], high = b->hint[k / BITMAP_BLOCK + 1];
    while (low < high) { /* the last block whose rank is at most k */
        uint64_t middle = low + (high - low + 1) / 2;
        if (b->rank[middle] <= k)
            low = middle;
        else
            high = middle - 1;
    }
    uint64_t left = k - b->rank[low], w = low * WORDS;
    for (uint64_t ones; left >= (ones = (uint64_t)__builtin_popcountll(b->words[w])); w++)
        left -= ones;
    uint64_t word = b->words[w];
    while (left-- > 0)
        word &= word - 1;
    return w * 64 + (uint64_t)__builtin_ctzll(word);
}

uint64_t bitmap_rank(const struct bitmap *b, uint64_t i)
{
    uint64_t ones = b->rank[i / BITMAP_BLOCK];
    for (uint64_t w = i / BITMAP_BLOCK * WORDS; w < i / 64; w++)
        ones += (uint64_t)__builtin_popcountll(b->words[w]);
    return ones + (uint64_t)__builtin_popcountll(b->words[i / 64] & ((UINT64_C(1) << i % 64) - 1));
}

void bitmap_fill_members(const uint64_t *words, uint64_t count, uint32_t *members)
{
    for (uint64_t w = 0, n = bitmap_word_count(count); w < n; w++)
        for (uint64_t word = words[w]; word; word &= word - 1)
            *members++ = (uint32_t)(w * 64 + (uint64_t)__builtin_ctzll(word));
}

void bitmap_select_all(const struct bitmap *b, size_t n, uint64_t *k)
{
    const uint32_t *members = b->members;
    if (!members) {
        for (size_t i = 0; i < n; i++)
            k[i] = bitmap_select(b, k[i]);
        return;
    }
    for (size_t i = 0; i < n; i++) /* all of them are on their way before the first is needed */
        __builtin_prefetch(&members[k[i]]);
    for (size_t i = 0; i < n; i++)
        k[i] = members[k[i]];
}
