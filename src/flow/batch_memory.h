/* batch_memory.h: bump allocation for what a batch holds besides its fixed slots. Unlike an arena it settles on one block that is
 * kept when it is emptied: a batch that is used again allocates nothing. */
#ifndef FLOW_BATCH_MEMORY_H
#define FLOW_BATCH_MEMORY_H

#include <stddef.h>

struct memory_block;
struct batch_memory {
    struct memory_block *first, *current; /* zeroed is empty */
    size_t used;                         /* of the current block */
    size_t bytes;                        /* of all blocks */
    size_t filled, enough;               /* asked for since the reset; of the first block, where it is known */
};

/* `alignment` is a power of two up to 64. NULL: out of memory. */
void *batch_memory_alloc(struct batch_memory *s, size_t size, size_t alignment);
void batch_memory_reset(struct batch_memory *s);
void batch_memory_finish(struct batch_memory *s);

#endif
