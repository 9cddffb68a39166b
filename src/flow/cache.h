/* cache.h: elements kept in memory as they are at one place of the chain, found again by their number in the source. */
#ifndef FLOW_CACHE_H
#define FLOW_CACHE_H

#include <penstock/op.h>

struct cache; /* shared by all workers; no locks */

/* `elements` of the source, or SOURCE_STREAM; at most `bytes` are used, the table included. */
pst_status cache_create(struct cache **ret, uint64_t elements, uint64_t bytes, unsigned workers, pst_error *reterr);
struct cache *cache_destroy(struct cache *c); /* NULL ok; returns NULL */

/* The element's block (see element.h), valid as long as the cache; NULL: not kept. */
void *cache_find(const struct cache *c, uint64_t index);
/* Keeps it if it still fits; never fails. `worker` < workers. `weight` is kept with elements of a stream: a shuffle buffer must
 * count an element the same whether it is read again or not. */
void cache_keep(struct cache *c, unsigned worker, uint64_t index, const pst_spec *spec, uint64_t fields,
                const pst_tensor *tensors, uint64_t weight);
uint64_t cache_weight(const void *block);
uint64_t cache_bytes(const struct cache *c);
uint64_t cache_elements(const struct cache *c); /* kept */
uint64_t cache_budget(const struct cache *c);

#endif
