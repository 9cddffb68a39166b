/* cache.h: elements kept in memory as they are at one place of the chain, found again by their number in the source. */
#ifndef FLOW_CACHE_H
#define FLOW_CACHE_H

#include "flow/element.h"
#include "source/source.h"

struct cache; /* shared by all workers; no locks */

/* What is kept with elements of a stream, which are not asked of it again. */
struct cache_tag {
    uint64_t size; /* of the element as it was read: a shuffle buffer counts it the same every time */
    struct source_place place;
};

/* `elements` of the source, or SOURCE_STREAM; at most `bytes` are used, the table included. */
pst_status cache_create(struct cache **ret, uint64_t elements, uint64_t bytes, unsigned workers, pst_error *reterr);
struct cache *cache_destroy(struct cache *c); /* NULL ok; returns NULL */

/* The element's block (see element.h), valid as long as the cache; NULL: not kept. */
void *cache_find(const struct cache *c, uint64_t index);
/* Keeps it if it still fits; never fails. `worker` < workers. `tag` is only looked at for elements of a stream. */
void cache_keep(struct cache *c, unsigned worker, uint64_t index, const pst_spec *spec, const struct field_list *fields,
                const pst_tensor *tensors, const struct cache_tag *tag);
struct cache_tag cache_tag_of(const void *block); /* of a stream's element */
uint64_t cache_bytes(const struct cache *c);
uint64_t cache_elements(const struct cache *c); /* kept */

#endif
