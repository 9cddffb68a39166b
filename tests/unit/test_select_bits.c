/* test_select_bits.c: rank and select against counting. */
#include "harness.h"

#include "base/bitmap.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void check(uint64_t count, unsigned percent, struct random *r)
{
    uint64_t *words = calloc(bitmap_word_count(count) + 1, sizeof(*words));
    uint64_t *rank = calloc(bitmap_block_count(count) + 1, sizeof(*rank));
    uint64_t *members = calloc(count + 1, sizeof(*members)), ones = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (random_below(r, 100) < percent) {
            words[i / 64] |= UINT64_C(1) << i % 64;
            members[ones++] = i;
        }
    }
    CHECK_INT(bitmap_fill_rank(words, count, rank), ones);
    uint32_t *hint = calloc(bitmap_hint_count(ones), sizeof(*hint));
    bitmap_fill_hint(rank, count, ones, hint);
    struct bitmap b = {.words = words, .rank = rank, .hint = hint, .count = count, .ones = ones};
    uint64_t wrong = 0;
    for (uint64_t k = 0; k < ones; k++)
        wrong += bitmap_select(&b, k) != members[k] || bitmap_rank(&b, members[k]) != k;
    uint32_t *stored = calloc(ones + 1, sizeof(*stored));
    uint64_t *all = calloc(ones + 1, sizeof(*all));
    for (int kept = 0; kept < 2; kept++) {
        for (uint64_t k = 0; k < ones; k++)
            all[k] = ones - 1 - k;
        bitmap_fill_members(words, count, stored);
        b.members = kept ? stored : NULL;
        bitmap_select_all(&b, ones, all);
        for (uint64_t k = 0; k < ones; k++)
            wrong += all[k] != members[ones - 1 - k];
    }
    free(stored);
    free(all);
    CHECK_MSG(wrong == 0, "%" PRIu64 " bits, %u %%: %" PRIu64 " members are wrong", count, percent, wrong);
    free(words);
    free(rank);
    free(members);
    free(hint);
}

static void test_select(void)
{
    struct random r;
    random_init(&r, 7, 0, 0, 0);
    static const uint64_t counts[] = {0, 1, 2, 63, 64, 65, 511, 512, 513, 1000, 5000, 70000};
    static const unsigned percents[] = {0, 1, 10, 50, 99, 100};
    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++)
        for (size_t p = 0; p < sizeof(percents) / sizeof(*percents); p++)
            check(counts[c], percents[p], &r);
}

static const struct test tests[] = {
    {"the k-th member is found for any density", test_select},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
