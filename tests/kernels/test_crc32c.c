/* test_crc32c.c: every CRC-32C kernel against the reference; `--bench` times them instead. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct level {
    const char *name;
    unsigned features;
} levels[] = {
    {"c", 0},
    {"sse42", CPU_SSE42},
    {"avx512", CPU_SSE42 | CPU_AVX2 | CPU_AVX512 | CPU_CLMUL512},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

/* NULL where this machine cannot run the level. */
static crc32c_fn level_fn(const struct level *l)
{
    return (cpu_features() & l->features) == l->features ? crc32c_best(l->features) : NULL;
}

static uint8_t *random_bytes(size_t n, uint64_t seed)
{
    struct random r;
    uint8_t *p = malloc(n + 8);
    if (!p)
        abort();
    random_init(&r, seed, 0, 0, 0);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = random_u64(&r);
        memcpy(p + i, &v, 8);
    }
    return p;
}

/* A bit at a time: shares nothing with what it checks. */
static uint32_t crc32c_bitwise(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    crc = ~crc;
    while (n--) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static void test_known_vectors(void)
{
    uint8_t zeros[32] = {0}, ones[32], rising[32], falling[32];
    memset(ones, 0xff, sizeof(ones));
    for (int i = 0; i < 32; i++) {
        rising[i] = (uint8_t)i;
        falling[i] = (uint8_t)(31 - i);
    }
    for (size_t i = 0; i < LEVELS; i++) {
        crc32c_fn fn = level_fn(&levels[i]);
        if (!fn)
            continue;
        CHECK_INT(fn(0, "", 0), 0);
        CHECK_INT(fn(0, zeros, 32), 0x8a9136aau);
        CHECK_INT(fn(0, ones, 32), 0x62a8ab43u);
        CHECK_INT(fn(0, rising, 32), 0x46dd794eu);
        CHECK_INT(fn(0, falling, 32), 0x113fdb5cu);
        CHECK_INT(fn(0, "123456789", 9), 0xe3069283u);
        CHECK_INT(fn(0, "a", 1), 0xc1d04330u);
    }
    CHECK_INT(crc32c_mask(0), 0xa282ead8u);
    CHECK_INT(crc32c_masked("", 0), 0xa282ead8u);
    CHECK_INT(crc32c_masked("123456789", 9), (uint32_t)(((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u));
}

static void test_reference(void)
{
    uint8_t *p = random_bytes(4096, 1);
    for (size_t n = 0; n <= 300; n++)
        CHECK_INT(crc32c_c((uint32_t)n * 0x9e3779b9u, p + n % 9, n), crc32c_bitwise((uint32_t)n * 0x9e3779b9u, p + n % 9, n));
    CHECK_INT(crc32c_c(7, p, 4096), crc32c_bitwise(7, p, 4096));
    free(p);
}

static void check_level(const struct level *l, const uint8_t *p, size_t n, uint32_t start)
{
    crc32c_fn fn = level_fn(l);
    uint32_t want = crc32c_c(start, p, n), got = fn ? fn(start, p, n) : want;
    CHECK_MSG(got == want, "%s: %zu bytes at address %% 64 = %u from %08" PRIx32 ": %08" PRIx32 ", reference %08" PRIx32,
              l->name, n, (unsigned)((uintptr_t)p % 64), start, got, want);
}

static void test_every_size(void)
{
    uint8_t *p = random_bytes(8192, 2);
    for (size_t i = 0; i < LEVELS; i++)
        for (size_t n = 0; n <= 4200; n++)
            check_level(&levels[i], p + (n * 7) % 67, n, n % 3 ? (uint32_t)n * 0x85ebca6bu : 0);
    free(p);
}

static void test_every_alignment(void)
{
    uint8_t *p = random_bytes(2048, 3);
    for (size_t i = 0; i < LEVELS; i++)
        for (size_t at = 0; at < 64; at++)
            for (size_t n = 192; n <= 1025; n += 119)
                check_level(&levels[i], p + at, n, 0);
    free(p);
}

/* Blocks that end where the memory ends: a kernel that reads past them is caught by the sanitizer. */
static void test_exact_blocks(void)
{
    for (size_t n = 0; n <= 1025; n++) {
        uint8_t *p = malloc(n ? n : 1);
        if (!p)
            abort();
        memset(p, (int)n * 37, n);
        for (size_t i = 0; i < LEVELS; i++)
            check_level(&levels[i], p, n, 1);
        free(p);
    }
}

static void test_large(void)
{
    struct random r;
    uint8_t *p = random_bytes(3 << 20, 4);
    random_init(&r, 5, 0, 0, 0);
    for (int round = 0; round < 40; round++) {
        size_t n = 1025 + random_below(&r, (2 << 20)), at = random_below(&r, 1 << 16);
        for (size_t i = 0; i < LEVELS; i++)
            check_level(&levels[i], p + at, n, (uint32_t)random_u64(&r));
    }
    free(p);
}

static void test_splits(void)
{
    struct random r;
    uint8_t *p = random_bytes(8192, 6);
    random_init(&r, 7, 0, 0, 0);
    for (size_t i = 0; i < LEVELS; i++) {
        crc32c_fn fn = level_fn(&levels[i]);
        for (int round = 0; fn && round < 2000; round++) {
            size_t n = random_below(&r, 4096), a = random_below(&r, n + 1);
            CHECK_INT(fn(fn(0, p, a), p + a, n - a), crc32c_c(0, p, n));
        }
    }
    free(p);
}

static void test_dispatch(void)
{
    CHECK(crc32c_best(0) == crc32c_c);
    CHECK(crc32c_best(CPU_CLMUL512) == crc32c_c); /* the tails need SSE4.2 */
    CHECK_INT(crc32c_extend(0, "123456789", 9), 0xe3069283u);
    unsigned all = cpu_features();
    cpu_set_mask(CPU_SSE42);
    CHECK_INT(cpu_features(), all & CPU_SSE42);
    cpu_set_mask(0);
    CHECK(crc32c_best(cpu_features()) == crc32c_c);
    cpu_set_mask(UINT32_MAX);
    CHECK_INT(cpu_features(), all);
}

/* The best of several timings: noise only ever adds. */
static double seconds_of(crc32c_fn fn, const uint8_t *p, size_t n, size_t repeats)
{
    double best = 1e9;
    static volatile uint32_t sink;
    for (int round = 0; round < 7; round++) {
        uint64_t start = clock_ns();
        for (size_t i = 0; i < repeats; i++)
            sink = fn(0, p, n);
        double s = (double)(clock_ns() - start) / 1e9;
        best = s < best ? s : best;
    }
    (void)sink;
    return best;
}

static int bench(void)
{
    static const size_t sizes[] = {8, 64, 160, 512, 1024, 4096, 128 << 10, 16 << 20};
    uint8_t *p = random_bytes(16 << 20, 8);
    struct {
        const char *name;
        crc32c_fn fn;
    } rows[LEVELS + 1] = {{0}};
    for (size_t i = 0; i < LEVELS; i++) {
        rows[i].name = levels[i].name;
        rows[i].fn = level_fn(&levels[i]);
    }
    rows[LEVELS].name = "extend";
    rows[LEVELS].fn = crc32c_extend;
    printf("%-8s %10s %10s %10s\n", "kernel", "bytes", "GB/s", "ns/call");
    for (size_t i = 0; i <= LEVELS; i++) {
        for (size_t k = 0; rows[i].fn && k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            size_t repeats = (16u << 20) / sizes[k] < 200000 ? (16u << 20) / sizes[k] : 200000;
            double s = seconds_of(rows[i].fn, p, sizes[k], repeats) / (double)repeats;
            printf("%-8s %10zu %10.2f %10.1f\n", rows[i].name, sizes[k], (double)sizes[k] / s / 1e9, s * 1e9);
        }
    }
    free(p);
    return 0;
}

static const struct test tests[] = {
    {"known vectors", test_known_vectors},
    {"the reference against a bitwise one", test_reference},
    {"every size", test_every_size},
    {"every alignment", test_every_alignment},
    {"blocks without a margin", test_exact_blocks},
    {"large blocks", test_large},
    {"split anywhere", test_splits},
    {"dispatch and mask", test_dispatch},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench();
    return test_main(argc, argv, tests);
}
