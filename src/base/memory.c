/* memory.c: the C allocator behind a fault point and a count of live blocks.
 *
 * A size of zero yields a block of its own, so NULL always means failure. Every block, aligned or not, goes back
 * through mem_free. */
#include "base/memory.h"

#include "base/digits.h"
#include "base/fault.h"
#include <penstock/base.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define ALIGNMENT ((size_t)64) /* a cache line, and the widest vector load */

static _Atomic uint64_t live; /* relaxed: a statistic, it orders nothing */

/* Beyond PTRDIFF_MAX a block could not be indexed; some allocators abort instead of saying no. */
static bool refused(size_t size, const char *what)
{
    return size > PTRDIFF_MAX || fault_hit(FAULT_MEMORY, what);
}

static void *counted(void *block)
{
    if (block)
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return block;
}

void *mem_alloc(size_t size)
{
    return refused(size, "malloc") ? NULL : counted(malloc(size ? size : 1));
}

void *mem_zalloc(size_t size)
{
    return mem_array(1, size);
}

void *mem_array(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total) || refused(total, "calloc"))
        return NULL;
    return counted(calloc(1, total ? total : 1));
}

void *mem_realloc(void *p, size_t size)
{
    if (!p)
        return mem_alloc(size);
    return refused(size, "realloc") ? NULL : realloc(p, size ? size : 1);
}

void *mem_aligned(size_t size)
{
    size_t rounded;
    if (__builtin_add_overflow(size, ALIGNMENT - 1, &rounded) || refused(rounded, "aligned_alloc"))
        return NULL;
    rounded &= ~(ALIGNMENT - 1);
    return counted(aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT));
}

void *mem_large(size_t size)
{
    size_t rounded;
    if (size < HUGE_PAGE)
        return mem_aligned(size);
    if (__builtin_add_overflow(size, HUGE_PAGE - 1, &rounded) || refused(rounded, "aligned_alloc"))
        return NULL;
    rounded &= ~(HUGE_PAGE - 1);
    void *p = counted(aligned_alloc(HUGE_PAGE, rounded));
    if (p)
        madvise(p, rounded, MADV_HUGEPAGE); /* advice: without it the pages are small */
    return p;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
    n = strnlen(s, n);
    char *copy = mem_alloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *mem_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = digits_vprint(NULL, 0, format, args);
    va_end(args);
    char *s = n < 0 ? NULL : mem_alloc((size_t)n + 1);
    if (!s)
        return NULL;
    va_start(args, format);
    digits_vprint(s, (size_t)n + 1, format, args);
    va_end(args);
    return s;
}

void pst_free(void *memory)
{
    mem_free(memory);
}

void mem_free(void *p)
{
    if (p)
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

int mem_grow(void **p, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity)
        return 0;
    size_t doubled = *capacity > SIZE_MAX / 2 ? SIZE_MAX : *capacity * 2;
    size_t wanted = doubled > needed ? doubled : needed, total;
    if (__builtin_mul_overflow(wanted, size, &total)) {
        wanted = needed; /* doubling is a courtesy, `needed` is the demand */
        if (__builtin_mul_overflow(wanted, size, &total))
            return -1;
    }
    void *grown = mem_realloc(*p, total);
    if (!grown)
        return -1;
    *p = grown;
    *capacity = wanted;
    return 0;
}

uint64_t mem_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}
