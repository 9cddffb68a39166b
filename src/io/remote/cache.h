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

/* Opens a copy in the folder of `room` if that and its disk have room for a beginning; otherwise, or if `room` is NULL, a private
 * one. */
pst_status cache_open(struct cache *c, const struct room *room, const char *path, const struct store_facts *facts,
                      pst_error *reterr);
/* Opens a private copy in memory, for an object that must be mapped when the disk has no room for it. */
pst_status cache_open_memory(struct cache *c, const char *path, const struct store_facts *facts, pst_error *reterr);
void cache_close(struct cache *c);
/* Returns whether this errno of a write means that the disk, or a quota, is full. */
bool cache_is_full(int code);

size_t cache_block_bytes(const struct cache *c, size_t block); /* the last one is shorter */
/* Returns whether the block is there and has the checksum that was stored with it. */
bool cache_check(const struct cache *c, size_t block);
/* Returns the checksum as it is stored: never 0. */
uint32_t cache_sum(uint32_t crc);
/* Makes this process the only one that fetches the blocks; false: another process has claimed them. Always true for a private copy. A claim ends with the
 * process that made it. */
bool cache_claim(const struct cache *c, size_t first, size_t count);
void cache_release(const struct cache *c, size_t first, size_t count);

/* Returns the bytes that must be taken from the room before these blocks are written: those of absent blocks. */
uint64_t cache_price(const struct cache *c, size_t first, size_t count);
/* Copies a block to the same place of another copy. */
bool cache_copy(const struct cache *from, const struct cache *to, size_t block);
/* Reads the address of the object of `size` bytes that a map belongs to, at most its last `room` - 1 bytes; "": it has none. */
void cache_read_address(int map_fd, uint64_t size, char *ret, size_t room);

#endif
