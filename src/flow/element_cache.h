/* element_cache.h: keeps the elements of one place in the chain in memory, indexed by their number in the source. */
#ifndef FLOW_ELEMENT_CACHE_H
#define FLOW_ELEMENT_CACHE_H

#include "base/arena.h"
#include "flow/element.h"
#include "source/source.h"

struct cache; /* shared by all workers; no locks */

/* Data stored with an element of a stream, because the stream is not asked for it again. */
struct cache_tag {
    uint64_t size; /* bytes of the element as it was read: a shuffle buffer counts the same size every time */
    struct source_place place;
};

/* `elements`: number of elements of the source, or SOURCE_STREAM. It uses up to `bytes` bytes, the table included. */
pst_status cache_create(struct cache **ret, uint64_t elements, uint64_t bytes, unsigned workers, pst_error *reterr);
/* The same in files below `dir`; see cache_disk.h. `bytes` on disk, 0: as many as there are. */
pst_status cache_create_on_disk(struct cache **ret, const char *dir, const uint64_t key[2], const char *about, uint64_t elements,
                                uint64_t bytes, unsigned workers, pst_error *reterr);
struct cache *cache_destroy(struct cache *c); /* NULL ok; returns NULL */

/* Returns the element's block (see element.h), valid as long as the cache; NULL: not in the cache. */
void *cache_find(const struct cache *c, uint64_t index);
/* Points `tensors` at the fields of a block that cache_find returned; `scratch` lives as long as the element is used. false: it
 * cannot be used after all. */
bool cache_view(struct cache *c, uint64_t index, void *block, const pst_spec *spec, const struct field_list *fields,
                pst_tensor *tensors, struct arena *scratch);
/* Stores the element if it still fits; never fails. `worker` < workers. `tag` is used only for elements of a stream. */
void cache_keep(struct cache *c, unsigned worker, uint64_t index, const pst_spec *spec, const struct field_list *fields,
                const pst_tensor *tensors, const struct cache_tag *tag);
struct cache_tag cache_tag_of(const void *block); /* for elements of a stream */
uint64_t cache_bytes(const struct cache *c);
uint64_t cache_elements(const struct cache *c); /* number of elements in the cache */
uint64_t cache_length(const struct cache *c);   /* of the stream, from an earlier run; UINT64_MAX: not known */
void cache_set_length(struct cache *c, uint64_t length);
/* Writes why nothing is stored any more, if something went wrong; otherwise "". */
void cache_note(const struct cache *c, char *buffer, size_t size);

#endif
