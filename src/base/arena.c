/* arena.c: blocks that double in size; allocation is an addition, release is all at once. */
#include "base/arena.h"

#include "base/memory.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#define ALIGNMENT    ((size_t)16)
#define FIRST_BLOCK  ((size_t)4096)
#define LARGEST_STEP ((size_t)1 << 20) /* blocks double up to here; a larger request gets a block of its own size */

struct arena_block {
    struct arena_block *older;
    size_t size;
    alignas(16) unsigned char bytes[];
};

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

static int add_block(struct arena *a, size_t needed)
{
    size_t size = a->blocks ? a->blocks->size * 2 : FIRST_BLOCK, total;
    if (size > LARGEST_STEP)
        size = LARGEST_STEP;
    if (size < needed)
        size = needed;
    if (__builtin_add_overflow(size, sizeof(struct arena_block), &total))
        return -1;
    struct arena_block *b = mem_alloc(total);
    if (!b)
        return -1;
    b->older = a->blocks;
    b->size = size;
    a->blocks = b;
    a->used = 0;
    return 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t rounded;
    if (__builtin_add_overflow(size ? size : 1, ALIGNMENT - 1, &rounded))
        return NULL;
    rounded &= ~(ALIGNMENT - 1);
    if ((!a->blocks || a->blocks->size - a->used < rounded) && add_block(a, rounded) < 0)
        return NULL;
    void *p = a->blocks->bytes + a->used;
    a->used += rounded;
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    n = strnlen(s, n);
    char *copy = arena_alloc(a, n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

static void free_blocks(struct arena_block *b, const struct arena_block *except)
{
    while (b) {
        struct arena_block *older = b->older;
        if (b != except)
            mem_free(b);
        b = older;
    }
}

void arena_reset(struct arena *a)
{
    struct arena_block *largest = a->blocks;
    for (struct arena_block *b = a->blocks; b; b = b->older)
        if (b->size > largest->size)
            largest = b;
    free_blocks(a->blocks, largest);
    if (largest)
        largest->older = NULL;
    a->blocks = largest;
    a->used = 0;
}

void arena_finish(struct arena *a)
{
    free_blocks(a->blocks, NULL);
    arena_init(a);
}
