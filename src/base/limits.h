/* limits.h: how much of the machine the control groups leave us. cpu.h is what others include. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/* Both read <root>/proc and <root>/sys/fs/cgroup; the real root is "". UINT64_MAX: no limit, or nothing to read. */

/* The CPU quota in cores, rounded up. */
uint64_t limits_cores_at(const char *root);
/* MemAvailable, or less where a control group has less left. */
uint64_t limits_memory_at(const char *root);

#endif
