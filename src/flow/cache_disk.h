/* cache_disk.h: elements of a cache in files that later runs, and other processes, read again.
 *
 *   DIR/KEY/about.txt      what the cache is of, for people
 *   DIR/KEY/NAME.part      elements, written once; never changed
 *   DIR/KEY/length         of a stream: how many elements it has
 *
 * KEY is a hash of data, operations and version of the library: what would give other elements has another folder. Every file
 * appears whole or not at all. Processes write parts of their own, so that they never wait for each other; what an
 * interruption left is used, and the rest is added. docs/formats.md has the bytes. */
#ifndef FLOW_CACHE_DISK_H
#define FLOW_CACHE_DISK_H

#include "base/arena.h"
#include "flow/element.h"

struct cache_disk;

struct cache_disk_request {
    const char *dir;
    uint64_t key[2];
    const char *about; /* text of about.txt */
    uint64_t slots;    /* elements, at most… */
    bool grows;        /* …or as many as there are: then one thread at a time opens parts and adds elements */
    uint64_t bytes;    /* on disk, at most; 0: no limit */
    size_t part;       /* bytes of a part; 0: CACHE_DISK_PART */
    size_t prefix;     /* bytes that are stored before each element */
    unsigned workers;
};
#define CACHE_DISK_PART ((size_t)4 << 20) /* what a kill can lose, per worker */

/* Opens or makes the cache. */
pst_status cache_disk_open(struct cache_disk **ret, const struct cache_disk_request *request, pst_error *reterr);
/* Stores what was added, and closes. NULL ok; returns NULL. */
struct cache_disk *cache_disk_close(struct cache_disk *d);

/* Returns the block of the element; NULL: it is not there. */
void *cache_disk_find(const struct cache_disk *d, uint64_t index);
/* Points `tensors` at the fields of a block that cache_disk_find returned; arrays of bytes are built in `scratch`. false: the
 * block is damaged and is not used any more, or there is no memory. */
bool cache_disk_view(struct cache_disk *d, uint64_t index, void *block, const pst_spec *spec, const struct field_list *fields,
                     pst_tensor *tensors, struct arena *scratch);
/* Adds an element with its prefix. It can be found once its part is complete. Never fails: what cannot be stored is left out,
 * and cache_disk_note says why. */
void cache_disk_keep(struct cache_disk *d, unsigned worker, uint64_t index, const pst_spec *spec,
                     const struct field_list *fields, const pst_tensor *tensors, const void *prefix);
uint64_t cache_disk_length(const struct cache_disk *d); /* of the stream; UINT64_MAX: not known */
pst_status cache_disk_set_length(struct cache_disk *d, uint64_t length, pst_error *reterr);
/* Stores what was added; fails if anything could not be stored since the cache was opened. No worker may be adding. */
pst_status cache_disk_settle(struct cache_disk *d, pst_error *reterr);
bool cache_disk_failed(const struct cache_disk *d); /* nothing is stored any more */
size_t cache_disk_parts(struct cache_disk *d);
uint64_t cache_disk_size(const struct cache_disk *d, uint64_t index); /* bytes of an element that can be found; 0: it cannot */
const char *cache_disk_folder(const struct cache_disk *d);
uint64_t cache_disk_bytes(const struct cache_disk *d);    /* on disk */
uint64_t cache_disk_elements(const struct cache_disk *d); /* that can be found */
/* Writes why nothing is stored any more; "": everything is. */
void cache_disk_note(struct cache_disk *d, char *buffer, size_t size);

#endif
