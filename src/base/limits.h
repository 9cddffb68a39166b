/* limits.h: the limits that control groups set for this process. Other rooms include cpu.h. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/* Both read <root>/proc and <root>/sys/fs/cgroup; the real root is "". UINT64_MAX: no limit, or nothing to read. */

/* The CPU quota in cores, rounded up. */
uint64_t limits_cores_at(const char *root);
/* MemAvailable, or less if a control group has less left. */
uint64_t limits_memory_at(const char *root);

#endif
