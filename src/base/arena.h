/* arena.h: bump allocation for objects that are freed together. Not thread-safe. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used;                /* bytes used in the newest block */
};

void arena_init(struct arena *a);
void *arena_alloc(struct arena *a, size_t size);             /* 16-byte aligned, not zeroed; NULL when out of memory */
char *arena_strndup(struct arena *a, const char *s, size_t n);
void arena_reset(struct arena *a);                           /* keeps the largest block for reuse */
void arena_finish(struct arena *a);

#endif
