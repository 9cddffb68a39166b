/* spill.h: bump allocation for what a batch holds besides its fixed slots. Unlike an arena it settles on one block that is
 * kept when it is emptied: a batch that is used again allocates nothing. */
#ifndef FLOW_SPILL_H
#define FLOW_SPILL_H

#include <stddef.h>

struct spill_block;
struct spill {
    struct spill_block *first, *current; /* zeroed is empty */
    size_t used;                         /* of the current block */
    size_t bytes;                        /* of all blocks */
    size_t filled, enough;               /* asked for since the reset; of the first block, where it is known */
};

/* `alignment` is a power of two up to 64. NULL: out of memory. */
void *spill_alloc(struct spill *s, size_t size, size_t alignment);
void spill_reset(struct spill *s);
void spill_finish(struct spill *s);

#endif
