/* test_cpu.c: features under a mask; cores and memory as the control groups of a made-up machine leave them. */
#include "base/cpu.h"
#include "harness.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[256];

/* A new machine without files. */
static void new_root(void)
{
    static int number;
    snprintf(root, sizeof(root), "%s/root%d", test_folder(), number++);
    mkdir(root, 0755);
}

static void put(const char *path, const char *text)
{
    char full[1024];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    test_write_file(full, text, strlen(text));
}

#define CG       "sys/fs/cgroup/"
#define NO_LIMIT UINT64_MAX
#define CORES()  limits_cores_at(root)
#define MEMORY() limits_memory_at(root)
#define MEBI(n)  ((uint64_t)(n) << 20)

static void test_features(void)
{
    unsigned all = cpu_features();
    CHECK_INT(cpu_features(), all);
    CHECK(!(all & CPU_AVX512) || all & CPU_AVX2);
#if defined(__x86_64__)
    CHECK_INT(!!(all & CPU_SSE42), __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"));
    CHECK(!(all & CPU_AVX2) ||
          (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")));
    CHECK(!(all & CPU_AVX512) || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")));
    CHECK_INT(!!(all & CPU_VNNI), all & CPU_AVX512 && __builtin_cpu_supports("avx512vnni"));
    CHECK_INT(!!(all & CPU_CLMUL512), all & CPU_AVX512 && __builtin_cpu_supports("vpclmulqdq"));
#endif
    cpu_set_mask(CPU_AVX2);
    CHECK_INT(cpu_features(), all & CPU_AVX2);
    cpu_set_mask(0);
    CHECK_INT(cpu_features(), 0);
    cpu_set_mask(UINT32_MAX);
    CHECK_INT(cpu_features(), all);
}

static void test_cores_v2(void)
{
    new_root();
    CHECK(CORES() == NO_LIMIT); /* nothing to read */
    put("proc/self/cgroup", "0::/a/b/c\n");
    CHECK(CORES() == NO_LIMIT);
    put(CG "a/b/c/cpu.max", "max 100000\n");
    CHECK(CORES() == NO_LIMIT);
    put(CG "a/b/c/cpu.max", "400000 100000\n");
    CHECK_INT(CORES(), 4);
    put(CG "a/b/c/cpu.max", "350000 100000\n");
    CHECK_INT(CORES(), 4); /* rounded up */
    put(CG "a/cpu.max", "150000 100000\n");
    CHECK_INT(CORES(), 2); /* a parent is tighter */
    put(CG "a/b/cpu.max", "max 100000\n");
    CHECK_INT(CORES(), 2);
    put(CG "a/cpu.max", "1000 100000\n");
    CHECK_INT(CORES(), 1);
    put(CG "a/cpu.max", "0 100000\n");
    CHECK_INT(CORES(), 1);
}

static void test_cores_container(void)
{
    new_root();
    put("proc/self/cgroup", "0::/docker/0123456789\n"); /* the host's name for it, which does not exist inside */
    put(CG "cpu.max", "250000 100000\n");
    CHECK_INT(CORES(), 3);
    put("proc/self/cgroup", "0::/\n");
    CHECK_INT(CORES(), 3);
    put("proc/self/cgroup", "0::/../elsewhere\n");
    CHECK_INT(CORES(), 3);
}

static void test_cores_v1(void)
{
    new_root();
    put("proc/self/cgroup", "12:pids:/x\n11:memory:/x\n4:cpuset:/x\n3:cpu,cpuacct:/x/y\n1:name=systemd:/x\n");
    CHECK(CORES() == NO_LIMIT);
    put(CG "cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1\n");
    put(CG "cpu,cpuacct/x/y/cpu.cfs_period_us", "100000\n");
    CHECK(CORES() == NO_LIMIT);
    put(CG "cpu,cpuacct/x/y/cpu.cfs_quota_us", "50000\n");
    CHECK_INT(CORES(), 1);
    put(CG "cpu,cpuacct/x/y/cpu.cfs_quota_us", "600000\n");
    CHECK_INT(CORES(), 6);
    put(CG "cpu/x/cpu.cfs_quota_us", "500000\n"); /* through the link's name only, and a level up */
    put(CG "cpu/x/cpu.cfs_period_us", "100000\n");
    CHECK_INT(CORES(), 5);
    put(CG "cpuset/x/cpu.cfs_quota_us", "100000\n"); /* another controller */
    put(CG "cpuset/x/cpu.cfs_period_us", "100000\n");
    CHECK_INT(CORES(), 5);
}

static void test_cores_hybrid(void)
{
    new_root();
    put("proc/self/cgroup", "3:cpuacct,cpu:/v1\n0::/v2\n");
    put(CG "cpuacct,cpu/v1/cpu.cfs_quota_us", "700000\n");
    put(CG "cpuacct,cpu/v1/cpu.cfs_period_us", "100000\n");
    CHECK_INT(CORES(), 7);
    put(CG "unified/v2/cpu.max", "200000 100000\n");
    CHECK_INT(CORES(), 2);
}

static void test_nonsense(void)
{
    static const char *const texts[] = {
        "\n", "x\n", "100000", "100000 0\n", "100000 x\n", "-5 10\n", "max\n", "99999999999999999999999 1\n", " 1 1\n"};
    new_root();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put("proc/self/cgroup", "0::/a\n");
        put(CG "a/cpu.max", texts[i]);
        CHECK_MSG(CORES() == NO_LIMIT, "cpu.max \"%s\"", texts[i]);
        put("proc/self/cgroup", texts[i]);
        CHECK(CORES() == NO_LIMIT);
    }
    put("proc/self/cgroup", ":\n::\n:::\n0:\n3:cpu\n");
    CHECK(CORES() == NO_LIMIT);
    char deep[8000] = "0::";
    for (size_t n = 3; n + 3 < sizeof(deep); n += 2)
        memcpy(deep + n, "/a", 3);
    put("proc/self/cgroup", deep); /* longer than a path may be */
    put(CG "cpu.max", "300000 100000\n");
    CHECK_INT(CORES(), 3);
}

static void test_memory(void)
{
    new_root();
    CHECK(MEMORY() == NO_LIMIT);
    put("proc/meminfo", "MemTotal:       16384000 kB\nMemFree:          100000 kB\nMemAvailable:    8192000 kB\n");
    CHECK_INT(MEMORY(), 8192000 * UINT64_C(1024));
    put("proc/self/cgroup", "0::/a/b\n");
    put(CG "a/memory.max", "max\n");
    put(CG "a/memory.current", "1048576\n");
    CHECK_INT(MEMORY(), 8192000 * UINT64_C(1024));
    put(CG "a/memory.max", "1073741824\n");
    put(CG "a/memory.current", "943718400\n");
    CHECK_INT(MEMORY(), MEBI(124));
    put(CG "a/memory.stat", "anon 1\nfile 2\ninactive_file 104857600\nactive_file 209715200\n");
    CHECK_INT(MEMORY(), MEBI(124 + 300)); /* cache is given back */
    put(CG "a/b/memory.high", "536870912\n");
    put(CG "a/b/memory.max", "max\n");
    put(CG "a/b/memory.current", "524288000\n");
    CHECK_INT(MEMORY(), MEBI(12));
    put(CG "a/b/memory.current", "624288000\n");
    CHECK_INT(MEMORY(), 0); /* over it already */
}

static void test_memory_v1(void)
{
    new_root();
    put("proc/meminfo", "MemAvailable: 8192000 kB\n");
    put("proc/self/cgroup", "11:memory:/k\n0::/\n");
    put(CG "memory/memory.limit_in_bytes", "9223372036854771712\n"); /* how version 1 says none */
    put(CG "memory/memory.usage_in_bytes", "1048576\n");
    CHECK_INT(MEMORY(), 8192000 * UINT64_C(1024));
    put(CG "memory/k/memory.limit_in_bytes", "104857600\n");
    put(CG "memory/k/memory.usage_in_bytes", "94371840\n");
    put(CG "memory/k/memory.stat", "total_inactive_file 1048576\ntotal_active_file 1048576\ninactive_file 5\n");
    CHECK_INT(MEMORY(), MEBI(12));
}

static void test_this_machine(void)
{
    unsigned cores = cpu_cores();
    CHECK(cores >= 1 && cores <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
    CHECK(cpu_memory_available() > 0 && cpu_memory_available() < UINT64_C(1) << 50);
    cpu_set_t old, one;
    REQUIRE(sched_getaffinity(0, sizeof(old), &old) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &old))
            CPU_SET(i, &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
    CHECK_INT(cpu_cores(), 1);
    sched_setaffinity(0, sizeof(old), &old);
    CHECK_INT(cpu_cores(), cores);
}

static const struct test tests[] = {
    {"features and mask", test_features},
    {"cgroup v2: CPU quota up the hierarchy", test_cores_v2},
    {"cgroup v2: inside a container", test_cores_container},
    {"cgroup v1: CPU quota", test_cores_v1},
    {"both versions at once", test_cores_hybrid},
    {"files that make no sense", test_nonsense},
    {"memory under cgroup v2", test_memory},
    {"memory under cgroup v1", test_memory_v1},
    {"affinity, on this machine", test_this_machine},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
