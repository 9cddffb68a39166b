/* blocks.h: memory for blocks of objects without a cache. One pool of bounded size per process, whose memory is reused: the system neither clears pages nor
 * writes a file. */
#ifndef IO_REMOTE_BLOCKS_H
#define IO_REMOTE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns room for CACHE_BLOCK bytes. NULL: the pool is used up. */
uint8_t *blocks_take(void);
/* The same past the limit, for a reader that cannot continue otherwise. NULL: out of memory. */
uint8_t *blocks_take_more(void);
/* Returns the number of blocks that the pool still has. */
size_t blocks_room(void);
/* Returns the limit of the pool in bytes. */
uint64_t blocks_most_bytes(void);
/* Returns how many bytes of objects are kept for the next epoch; see blocks_keep. */
uint64_t blocks_kept_bytes(void);
/* Gives back a block; NULL ok. When no block is used and no object is open, the memory goes back to the system. */
void blocks_give(uint8_t *block);
/* Gives back a block of a thread that stayed with the parent. Only in the child, before the locks are released. */
void blocks_give_forked(uint8_t *block);
/* Counts the bytes of an object that is opened, or closed (negative). */
void blocks_expect(int64_t bytes);
/* Returns whether a block that has been read may stay for the next epoch: true if all open objects fit into three quarters of the pool. Otherwise most of
 * their blocks would be fetched again anyway, and memory that is reused at once is the fastest. */
bool blocks_keep(void);

/* Sets the limit of the pool in bytes, rounded to 16 MiB; 0: as the machine allows. Used blocks stay. */
void blocks_limit(uint64_t bytes);

#endif
