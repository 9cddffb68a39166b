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

/* A new block, which becomes the current one. */
static int add_block(struct batch_memory *s, size_t needed)
{
    size_t size = s->bytes < FIRST_BLOCK ? FIRST_BLOCK : s->bytes, total;
    if (!s->first && s->enough > size)
        size = s->enough;
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
    if (!p && add_block(s, size) == 0)
        p = fit(s, size, alignment);
    s->filled += p ? size + alignment : 0;
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
        size_t enough = s->filled + s->filled / 4;
        s->enough = enough > s->enough ? enough : s->enough;
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
