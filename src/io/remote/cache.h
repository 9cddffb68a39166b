/* cache.h: the local copy of one object: a sparse file of its size, and which blocks of it are there.
 *
 * Copies in a cache folder are shared by all processes of the machine and kept for later runs. A block counts as there when its
 * checksum is in the map; the checksum is compared when a process uses the block for the first time, so that neither a crash
 * nor a damaged disk is ever read. Copies outside of a folder are private and vanish with the process. */
#ifndef IO_REMOTE_CACHE_H
#define IO_REMOTE_CACHE_H

#include "io/remote/room.h"
#include "io/remote/store.h"

#define CACHE_BLOCK ((size_t)64 << 10)

struct cache {  /* zeroed: none */
    int fd;     /* the copy */
    int map_fd; /* -1: private */
    uint64_t size;
    size_t blocks;
    _Atomic uint32_t *sums; /* of each block; 0: not there */
    void *map;
    size_t map_bytes;
    struct room room; /* of the folder; zeroed: private */
};

/* A copy in the folder of `room`, if there is one and room in it, and on its disk, for a beginning; otherwise, or if `room` is NULL, a private
 * one. */
pst_status cache_open(struct cache *c, const struct room *room, const char *path, const struct store_facts *facts,
                      pst_error *reterr);
/* A private one that lies in memory, where a disk has no room for what has to be mapped. */
pst_status cache_open_memory(struct cache *c, const char *path, const struct store_facts *facts, pst_error *reterr);
void cache_close(struct cache *c);
/* Whether a write failed with this errno because the disk, or a quota, has no more room. */
bool cache_is_full(int code);

size_t cache_block_bytes(const struct cache *c, size_t block); /* the last one is shorter */
/* Whether the block is there and its bytes are those that were written. */
bool cache_check(const struct cache *c, size_t block);
/* The checksum as it is stored: never 0. */
uint32_t cache_sum(uint32_t crc);
/* Makes this process the only one that fetches the blocks; false: another one does. Always true for a private copy. */
bool cache_claim(const struct cache *c, size_t first, size_t count);
void cache_release(const struct cache *c, size_t first, size_t count);

/* The bytes that must be taken from the room before these blocks are written: those of blocks that are not there. */
uint64_t cache_price(const struct cache *c, size_t first, size_t count);
/* Copies a block that is there to the same place of another copy. */
bool cache_copy(const struct cache *from, const struct cache *to, size_t block);

#endif
