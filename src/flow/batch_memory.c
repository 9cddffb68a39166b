/* batch_memory.c: a list of blocks, filled from the first to the last. Whatever took several blocks gets one for the next round that
 * would have done, and a little more: after a few rounds there is one block, and nothing is allocated any more. */
#include "flow/batch_memory.h"

#include "base/memory.h"

#include <stdint.h>

#define FIRST_BLOCK  ((size_t)4096)
#define LARGEST_STEP ((size_t)4 << 20)
#define HEADER       ((size_t)64) /* keeps what follows on a cache line */

struct memory_block {
    struct memory_block *next;
    size_t size;
};

static void *fit(struct batch_memory *s, size_t size, size_t alignment)
{
    size_t begin = (s->used + alignment - 1) & ~(alignment - 1);
    if (!s->current || begin > s->current->size || size > s->current->size - begin)
        return NULL;
    s->used = begin + size;
    return (unsigned char *)s->current + HEADER + begin;
}

static size_t with_margin(size_t filled)
{
    return filled + filled / 4;
}

/* Others need as much, sooner or later; but one element that is far larger than all others does not justify large blocks everywhere. So each report at
 * most doubles what is usual. */
static void tell_others(const struct batch_memory *s, size_t filled)
{
    size_t size = with_margin(filled), usual = s->usual ? atomic_load_explicit(s->usual, memory_order_relaxed) : SIZE_MAX, next;
    size = size < LARGEST_STEP ? size : LARGEST_STEP;
    do
        next = usual && size > 2 * usual ? 2 * usual : size;
    while (size > usual && !atomic_compare_exchange_weak_explicit(s->usual, &usual, next, memory_order_relaxed, memory_order_relaxed));
}

/* A new block, which becomes the current one. */
static int add_block(struct batch_memory *s, size_t needed)
{
    size_t size = s->bytes < FIRST_BLOCK ? FIRST_BLOCK : s->bytes, total;
    size_t usual = s->usual ? atomic_load_explicit(s->usual, memory_order_relaxed) : 0, enough = s->enough > usual ? s->enough : usual;
    if (!s->first && enough > size)
        size = enough;
    else if (size > LARGEST_STEP)
        size = LARGEST_STEP;
    if (size < needed)
        size = needed;
    if (__builtin_add_overflow(size, HEADER, &total))
        return -1;
    struct memory_block *b = mem_aligned(total), **link = s->current ? &s->current->next : &s->first;
    if (!b)
        return -1;
    *b = (struct memory_block){.size = size};
    *link = s->current = b;
    s->used = 0;
    s->bytes += total;
    return 0;
}

void *batch_memory_alloc(struct batch_memory *s, size_t size, size_t alignment)
{
    void *p = fit(s, size, alignment);
    bool grown = !p && add_block(s, size) == 0;
    if (grown)
        p = fit(s, size, alignment);
    if (p)
        s->filled += size + alignment;
    if (grown && s->first->next && size <= s->filled / 2)
        tell_others(s, s->filled);
    return p;
}

bool batch_memory_has(const struct batch_memory *s, const void *data, size_t length)
{
    uintptr_t begin = (uintptr_t)s->current + HEADER, at = (uintptr_t)data;
    return s->current && at >= begin && at - begin <= s->used && length <= s->used - (at - begin);
}

static void free_blocks(struct batch_memory *s)
{
    while (s->first) {
        struct memory_block *next = s->first->next;
        mem_free(s->first);
        s->first = next;
    }
    s->bytes = 0;
}

void batch_memory_reset(struct batch_memory *s)
{
    if (s->first && s->first->next) {
        size_t enough = with_margin(s->filled);
        s->enough = enough > s->enough ? enough : s->enough;
        tell_others(s, s->filled);
        free_blocks(s);
    }
    s->current = s->first;
    s->used = s->filled = 0;
}

void batch_memory_finish(struct batch_memory *s)
{
    free_blocks(s);
    *s = (struct batch_memory){0};
}
