/* blocks.h: memory for blocks of objects that no cache keeps. One pool for the process, of bounded size, whose memory is used again and
 * again: neither the system's zeroing of pages nor a file is in the way of the bytes. */
#ifndef IO_REMOTE_BLOCKS_H
#define IO_REMOTE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for CACHE_BLOCK bytes. NULL: the pool is used up. */
uint8_t *blocks_take(void);
/* The same past the limit, for a reader that cannot go on otherwise. NULL: out of memory. */
uint8_t *blocks_take_more(void);
/* How many blocks the pool still has. */
size_t blocks_room(void);
/* The bytes that the pool may have. */
uint64_t blocks_most_bytes(void);
/* The bytes of which objects are kept for the next epoch; see blocks_keep. */
uint64_t blocks_kept_bytes(void);
/* NULL ok. When nothing is used and no object is open, the memory goes back to the system. */
void blocks_give(uint8_t *block);
/* Gives back a block of a thread that stayed with the parent; in the child only, before locks are given back. */
void blocks_give_forked(uint8_t *block);
/* Counts the bytes of an object that is opened, or closed (negative). */
void blocks_expect(int64_t bytes);
/* Whether a block that has been read may stay, in case that it is read again: if all objects that are open fit into three quarters of the
 * pool. Otherwise most of them would have to be fetched again anyway, and memory that is used again at once is the fastest. */
bool blocks_keep(void);

/* The most bytes that the pool may have, rounded to 16 MiB; 0: as the machine allows. What is used stays. */
void blocks_limit(uint64_t bytes);

#endif
