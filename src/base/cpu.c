/* cpu.c: instruction sets that the processor has and the operating system saves, under the tests' mask. */
#include "base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>

#define DETECTED (1u << 31)

static _Atomic unsigned detected;             /* with DETECTED once known; every thread finds the same */
static _Atomic unsigned allowed = UINT32_MAX; /* the mask */

#if defined(__x86_64__)
#include <cpuid.h>

static unsigned saved_by_system(void)
{
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(unsigned flags, unsigned wanted)
{
    return (flags & wanted) == wanted;
}

static unsigned detect(void)
{
    enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xe6 };
    unsigned eax, ebx, ecx, edx, features = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        return 0;
    unsigned basic = ecx;
    if (has(basic, bit_SSE4_2 | bit_PCLMUL))
        features |= CPU_SSE42;
    if (!has(basic, bit_OSXSAVE | bit_AVX) || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return features;
    unsigned saved = saved_by_system();
    if (has(saved, SAVES_YMM) && has(basic, bit_FMA | bit_F16C) && has(ebx, bit_AVX2 | bit_BMI | bit_BMI2))
        features |= CPU_AVX2;
    if (!(features & CPU_AVX2) || !has(saved, SAVES_ZMM) || !has(ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return features;
    features |= CPU_AVX512;
    if (has(ecx, bit_AVX512VNNI))
        features |= CPU_VNNI;
    if (has(ecx, bit_VPCLMULQDQ))
        features |= CPU_CLMUL512;
    return features;
}
#else
static unsigned detect(void)
{
    return 0;
}
#endif

unsigned cpu_features(void)
{
    unsigned features = atomic_load_explicit(&detected, memory_order_relaxed);
    if (!features) {
        features = detect() | DETECTED;
        atomic_store_explicit(&detected, features, memory_order_relaxed);
    }
    return features & ~DETECTED & atomic_load_explicit(&allowed, memory_order_relaxed);
}

void cpu_set_mask(unsigned features)
{
    atomic_store_explicit(&allowed, features, memory_order_relaxed);
}
