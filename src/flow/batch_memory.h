/* batch_memory.h: bump allocation for the data of a batch besides its fixed slots. Unlike an arena it settles on one block
 * that is kept when it is reset: a reused batch allocates nothing, and a new one hardly more than what others needed. */
#ifndef FLOW_BATCH_MEMORY_H
#define FLOW_BATCH_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct memory_block;
struct batch_memory {
    struct memory_block *first, *current; /* empty when zeroed */
    size_t used;                         /* bytes used in the current block */
    size_t bytes;                        /* bytes in all blocks */
    size_t filled, enough;               /* bytes requested since the reset; size of the first block, once known */
    _Atomic size_t *usual; /* what others that are filled alike needed: the first block is so large. Set by the owner, kept by
                            * batch_memory_reset; NULL: not known */
};

/* `alignment` is a power of two up to 64. NULL: out of memory. */
void *batch_memory_alloc(struct batch_memory *s, size_t size, size_t alignment);
/* Whether these bytes lie in the used part of the current block. */
bool batch_memory_has(const struct batch_memory *s, const void *data, size_t length);
void batch_memory_reset(struct batch_memory *s);
void batch_memory_finish(struct batch_memory *s);

#endif
