/* quota.c: cores and memory that this process may really use.
 *
 * Quotas hold for a control group and everything below it, so the smallest on the way from our group up to the root
 * counts. Inside a container the path that the kernel names may not exist: missing files are groups without limits, and
 * the walk still ends at the mount's root, which is the container's own group. */

#include "base/cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 4352
#define NONE      UINT64_MAX

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The start of <folder>/<file>, NUL-terminated; false if there is nothing to read. */
static bool read_text(const char *folder, const char *file, char *buffer, size_t size)
{
    char path[PATH_SIZE];
    int wanted = snprintf(path, sizeof(path), "%s/%s", folder, file);
    int fd = wanted < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t n;
    while (length + 1 < size && (n = read(fd, buffer + length, size - 1 - length)) > 0)
        length += (size_t)n;
    close(fd);
    buffer[length] = '\0';
    return length > 0;
}

/* Digits at `s`; anything else ("max", "-1") is NONE. */
static uint64_t number_at(const char *s)
{
    uint64_t v = 0;
    if (*s < '0' || *s > '9')
        return NONE;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return NONE;
    return v;
}

/* Returns the number after `key` at the start of a line of "key value" text. */
static uint64_t number_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == ':' || line[n] == '\t'))
            return number_at(line + n + 1 + strspn(line + n + 1, " \t"));
    return NONE;
}

static uint64_t number_in(const char *group, const char *file)
{
    char text[64];
    return read_text(group, file, text, sizeof(text)) ? number_at(text) : NONE;
}

static uint64_t cores_of(uint64_t quota, uint64_t period)
{
    if (quota == NONE || period == NONE || period == 0)
        return NONE;
    uint64_t cores = quota / period + (quota % period != 0);
    return cores ? cores : 1;
}

/* "quota period", or "max period". */
static uint64_t cores_v2(const char *group)
{
    char text[64];
    const char *period = read_text(group, "cpu.max", text, sizeof(text)) ? strchr(text, ' ') : NULL;
    return period ? cores_of(number_at(text), number_at(period + 1)) : NONE;
}

static uint64_t cores_v1(const char *group)
{
    return cores_of(number_in(group, "cpu.cfs_quota_us"), number_in(group, "cpu.cfs_period_us"));
}

/* Returns the memory left below `limit`. Page cache counts as used but is released on demand. */
static uint64_t memory_left(const char *group, uint64_t limit, const char *usage, const char *const cache[2])
{
    char text[8192];
    uint64_t used = number_in(group, usage);
    if (limit == NONE || used == NONE)
        return NONE;
    bool known = read_text(group, "memory.stat", text, sizeof(text));
    for (int i = 0; known && i < 2; i++) {
        uint64_t bytes = number_of(text, cache[i]);
        used -= bytes == NONE ? 0 : least(bytes, used);
    }
    return limit - least(used, limit);
}

static uint64_t memory_v2(const char *group)
{
    static const char *const cache[2] = {"inactive_file", "active_file"};
    uint64_t limit = least(number_in(group, "memory.max"), number_in(group, "memory.high"));
    return memory_left(group, limit, "memory.current", cache);
}

static uint64_t memory_v1(const char *group)
{
    static const char *const cache[2] = {"total_inactive_file", "total_active_file"};
    return memory_left(group, number_in(group, "memory.limit_in_bytes"), "memory.usage_in_bytes", cache);
}

/* The smallest that `measure` finds from <mount>/<path> up to <mount>. */
static uint64_t smallest_upward(const char *mount, const char *path, uint64_t (*measure)(const char *group))
{
    char group[PATH_SIZE];
    size_t end = strlen(mount);
    int n = snprintf(group, sizeof(group), "%s%s", mount, path);
    if (n < 0 || (size_t)n >= sizeof(group))
        return measure(mount);
    uint64_t found = NONE;
    for (size_t length = (size_t)n; length > end; length--) {
        if (group[length] != '\0' && group[length] != '/')
            continue;
        group[length] = '\0';
        found = least(found, measure(group));
    }
    return least(found, measure(mount));
}

static bool lists(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (; *names; names += strcspn(names, ","), names += *names == ',')
        if (strncmp(names, name, n) == 0 && (names[n] == ',' || names[n] == '\0'))
            return true;
    return false;
}

/* The smallest below <root>/sys/fs/cgroup/<a or b>, the two places where a hierarchy may be mounted. */
static uint64_t smallest_mounted(const char *root, const char *a, const char *b, const char *path,
                                 uint64_t (*measure)(const char *))
{
    char first[PATH_SIZE], second[PATH_SIZE];
    snprintf(first, sizeof(first), "%s/sys/fs/cgroup/%s", root, a);
    snprintf(second, sizeof(second), "%s/sys/fs/cgroup/%s", root, b);
    return least(smallest_upward(first, path, measure), smallest_upward(second, path, measure));
}

/* Goes through /proc/self/cgroup, "id:controllers:path" a line; the line of version 2 names no controllers. */
static uint64_t smallest(const char *root, const char *controller, uint64_t (*v2)(const char *), uint64_t (*v1)(const char *))
{
    char text[4 * PATH_SIZE], *rest = NULL;
    uint64_t found = NONE;
    if (!read_text(root, "proc/self/cgroup", text, sizeof(text)))
        return NONE;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        names++;
        *path++ = '\0';
        if (*names == '\0')
            found = least(found, smallest_mounted(root, "", "unified", path, v2));
        else if (lists(names, controller))
            found = least(found, smallest_mounted(root, names, controller, path, v1)); /* "cpu,cpuacct", and its link "cpu" */
    }
    return found;
}

uint64_t limits_cores_at(const char *root)
{
    return smallest(root, "cpu", cores_v2, cores_v1);
}

uint64_t limits_memory_at(const char *root)
{
    char text[4096];
    uint64_t available = read_text(root, "proc/meminfo", text, sizeof(text)) ? number_of(text, "MemAvailable") : NONE;
    if (available != NONE && __builtin_mul_overflow(available, 1024, &available))
        available = NONE;
    return least(available, smallest(root, "memory", memory_v2, memory_v1));
}

unsigned cpu_cores(void)
{
    cpu_set_t set[8]; /* room for 8192 processors */
    uint64_t cores = 1;
    if (sched_getaffinity(0, sizeof(set), set) == 0 && CPU_COUNT_S(sizeof(set), set) > 0)
        cores = (uint64_t)CPU_COUNT_S(sizeof(set), set);
    return (unsigned)least(cores, limits_cores_at(""));
}

uint64_t cpu_memory_available(void)
{
    uint64_t available = limits_memory_at("");
    return available != NONE ? available : (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}
