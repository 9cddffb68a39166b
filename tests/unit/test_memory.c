/* test_memory.c: allocation, its faults and its books; the arena; hashes, clocks and other small things of base. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/memory.h"
#include "harness.h"

#include <string.h>

static void test_blocks(void)
{
    uint64_t before = mem_live();
    unsigned char *p = mem_alloc(100), *z = mem_zalloc(100), *a = mem_array(10, 10), *empty = mem_alloc(0);
    REQUIRE(p && z && a && empty);
    CHECK_INT(mem_live() - before, 4);
    for (int i = 0; i < 100; i++)
        CHECK(z[i] == 0 && a[i] == 0);
    memset(p, 7, 100);
    p = mem_realloc(p, 100000);
    REQUIRE(p);
    CHECK(p[0] == 7 && p[99] == 7);
    CHECK_INT(mem_live() - before, 4);
    p = mem_realloc(p, 0);
    CHECK(p != NULL);
    unsigned char *fresh = mem_realloc(NULL, 5);
    CHECK_INT(mem_live() - before, 5);
    mem_free(p), mem_free(z), mem_free(a), mem_free(empty), mem_free(fresh), mem_free(NULL);
    CHECK_INT(mem_live(), before);
}

static void test_overflow(void)
{
    uint64_t before = mem_live();
    CHECK(mem_array(SIZE_MAX / 2, 3) == NULL);
    CHECK(mem_aligned(SIZE_MAX - 3) == NULL);
    CHECK(mem_alloc(SIZE_MAX) == NULL);
    CHECK(mem_zalloc(SIZE_MAX / 2 + 1) == NULL);
    CHECK(mem_aligned(SIZE_MAX / 2 + 1) == NULL);
    CHECK(mem_realloc(NULL, SIZE_MAX - 8) == NULL);
    void *p = NULL;
    size_t capacity = 0;
    CHECK_INT(mem_grow(&p, &capacity, SIZE_MAX / 4, 8), -1);
    CHECK(p == NULL && capacity == 0);
    CHECK_INT(mem_live(), before);
}

static void test_aligned(void)
{
    for (size_t n = 0; n < 300; n += 13) {
        unsigned char *p = mem_aligned(n);
        REQUIRE(p);
        CHECK_INT((uintptr_t)p % 64, 0);
        memset(p, 1, n ? (n + 63) / 64 * 64 : 64); /* the rounded size is ours */
        mem_free(p);
    }
}

static void test_strings(void)
{
    char *a = mem_strdup("abc"), *b = mem_strndup("abcdef", 4), *c = mem_strndup("ab", 10), *d = mem_format("%s-%d", "x", 42);
    CHECK_STR(a, "abc");
    CHECK_STR(b, "abcd");
    CHECK_STR(c, "ab");
    CHECK_STR(d, "x-42");
    mem_free(a), mem_free(b), mem_free(c), mem_free(d);
}

static void test_grow(void)
{
    uint32_t *p = NULL;
    size_t capacity = 0;
    unsigned moves = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        size_t old = capacity;
        REQUIRE(mem_grow((void **)&p, &capacity, i + 1, sizeof(*p)) == 0);
        CHECK(capacity > i);
        moves += capacity != old;
        p[i] = i;
    }
    CHECK(moves < 20);
    for (uint32_t i = 0; i < 10000; i++)
        CHECK(p[i] == i);
    test_fault_arm(FAULT_MEMORY, 0, true);
    size_t old = capacity;
    CHECK_INT(mem_grow((void **)&p, &capacity, 1 << 20, sizeof(*p)), -1);
    CHECK(capacity == old && p[9999] == 9999);
    test_fault_clear();
    mem_free(p);
}

static void test_faults(void)
{
    uint64_t before = mem_live();
    unsigned char *kept = mem_alloc(8);
    REQUIRE(kept);
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK(!mem_alloc(1) && !mem_zalloc(1) && !mem_array(1, 1) && !mem_aligned(1) && !mem_realloc(kept, 9) &&
          !mem_realloc(NULL, 1));
    CHECK(!mem_strdup("a") && !mem_strndup("a", 1) && !mem_format("%d", 1));
    CHECK_INT(test_fault_calls(), 9);
    test_fault_arm(FAULT_IO, 0, true);
    unsigned char *other = mem_alloc(1);
    CHECK(other != NULL);
    CHECK(fault_hit(FAULT_IO, "pread"));
    test_fault_clear();
    CHECK(!fault_hit(FAULT_IO, "pread"));
    kept[7] = 1; /* a failed realloc left it alone */
    mem_free(kept), mem_free(other);
    CHECK_INT(mem_live(), before);
}

/* Returns how many allocations succeeded. */
static int use_arena(struct arena *a, int count)
{
    for (int i = 0; i < count; i++) {
        size_t n = (size_t)(i * 37 % 700);
        unsigned char *p = arena_alloc(a, n);
        if (!p)
            return i;
        CHECK_INT((uintptr_t)p % 16, 0);
        memset(p, i, n);
    }
    return count;
}

static void test_arena(void)
{
    uint64_t before = mem_live();
    struct arena a;
    arena_init(&a);
    arena_reset(&a); /* empty: fine */
    unsigned char *first = arena_alloc(&a, 10), *second = arena_alloc(&a, 10), *zero = arena_alloc(&a, 0);
    CHECK(first && second && zero && first + 16 <= second && second + 16 <= zero);
    CHECK_STR(arena_strndup(&a, "hello", 3), "hel");
    CHECK_STR(arena_strndup(&a, "hello", 99), "hello");
    CHECK_INT(use_arena(&a, 3000), 3000);
    unsigned char *large = arena_alloc(&a, 5 << 20);
    REQUIRE(large);
    memset(large, 1, 5 << 20);
    CHECK(arena_alloc(&a, SIZE_MAX) == NULL);
    CHECK(arena_alloc(&a, SIZE_MAX - 40) == NULL);
    arena_reset(&a);
    CHECK_INT(mem_live() - before, 1); /* the largest */
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK_INT(use_arena(&a, 3000), 3000); /* fits into what was kept */
    test_fault_clear();
    arena_finish(&a);
    arena_finish(&a);
    CHECK_INT(mem_live(), before);
}

static void test_arena_faults(void)
{
    uint64_t before = mem_live();
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t n = 0;; n++) {
            struct arena a;
            arena_init(&a);
            test_fault_arm(FAULT_MEMORY, n, forever);
            int done = use_arena(&a, 200);
            bool hit = test_fault_calls() > n;
            test_fault_clear();
            CHECK_INT(done == 200, !hit);
            CHECK(arena_alloc(&a, 10000) != NULL); /* a refusal does not spoil it */
            arena_finish(&a);
            if (!hit)
                break;
        }
    }
    CHECK_INT(mem_live(), before);
}

static void test_hash(void)
{
    CHECK(hash_bytes("", 0, 0) == UINT64_C(0x2d06800538d394c2)); /* published for XXH3-64 */
    CHECK(hash_bytes("abc", 3, 0) == UINT64_C(0x78af5f94892f3950));
    CHECK(hash_bytes("abc", 3, 1) != hash_bytes("abc", 3, 0));
    CHECK(hash_combine(1, 2) != hash_combine(2, 1));
    CHECK(hash_combine(1, 2) == hash_bytes("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16, 0)); /* frozen: it is stored in files */
}

static void test_clock(void)
{
    uint64_t a = clock_ns(), b = clock_ns();
    CHECK(b >= a && a > 0);
}

static const struct test tests[] = {
    {"blocks are counted", test_blocks},
    {"sizes that overflow", test_overflow},
    {"aligned blocks", test_aligned},
    {"strings", test_strings},
    {"growing", test_grow},
    {"every allocation may fail", test_faults},
    {"arena", test_arena},
    {"arena: the Nth allocation fails", test_arena_faults},
    {"hash values are frozen", test_hash},
    {"clock and stage counters", test_clock},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
