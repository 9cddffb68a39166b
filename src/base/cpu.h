/* cpu.h: features of this processor, and how much of the machine this process may use. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdint.h>

enum cpu_feature {
    CPU_SSE42 = 1 << 0,   /* with PCLMUL */
    CPU_AVX2 = 1 << 1,    /* with FMA, F16C, BMI1/2 */
    CPU_AVX512 = 1 << 2,  /* F, BW, DQ, VL, with CPU_AVX2 */
    CPU_VNNI = 1 << 3,    /* AVX-512's, with CPU_AVX512 */
    CPU_CLMUL512 = 1 << 4 /* VPCLMULQDQ, with CPU_AVX512 */
};

unsigned cpu_features(void);          /* detected once, under the mask */
void cpu_set_mask(unsigned features); /* tests: features outside the mask read as absent. Call before any kernel table is
                                         filled. */

/* Returns the number of cores this process may use: affinity and the cgroup's CPU quota (v1 and v2), at least 1. */
unsigned cpu_cores(void);
/* Returns the available memory in bytes: MemAvailable under the cgroup's limit. */
uint64_t cpu_memory_available(void);

/* For tests: the limits of the control groups below <root>/proc and <root>/sys/fs/cgroup; the real root is "". UINT64_MAX:
 * there is no limit, or nothing to read. The CPU quota in cores, rounded up; MemAvailable, or less if a control group has less
 * left. */
uint64_t limits_cores_at(const char *root);
uint64_t limits_memory_at(const char *root);

#endif
