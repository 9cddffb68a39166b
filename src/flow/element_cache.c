/* element_cache.c: a table of element blocks that only grows.
 *
 * Nothing is evicted: elements that fit are found in every later pass, in any order. A lookup is one load. Each worker fills
 * its own blocks; if two workers store the same element at once, both copies are kept and one of them is never used. */
#include "flow/element_cache.h"

#include "base/error.h"
#include "flow/cache_disk.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <string.h>

#define SLAB          ((size_t)1 << 20)
#define HEADER        ((size_t)64)
#define PREFIX        ((sizeof(struct cache_tag) + 15) & ~(size_t)15) /* blocks stay aligned */
#define MAX_SLOTS     (UINT64_C(1) << 27)                             /* of a stream, whose length is not known */
#define LEAST_ELEMENT 64                                              /* bytes, for the same guess */

struct slab {
    struct slab *older;
    size_t size, used;
};

struct cache_worker {
    _Alignas(64) struct slab *slabs; /* newest first; only the worker's own */
};

struct cache {
    struct cache_disk *disk; /* not NULL: everything else is unused */
    _Atomic(void *) *table;
    uint64_t slots; /* elements beyond are never kept */
    size_t prefix;  /* bytes before a block, for the tag if there is one */
    uint64_t budget;
    _Atomic uint64_t used, kept;
    unsigned workers;
    struct cache_worker *worker;
};

pst_status cache_create(struct cache **ret, uint64_t elements, uint64_t bytes, unsigned workers, pst_error *reterr)
{
    struct cache *c = mem_zalloc(sizeof(*c));
    if (!c)
        goto fail;
    c->budget = bytes;
    c->workers = workers;
    c->slots = bytes / 2 / sizeof(void *); /* half for the table is more than enough for all but the smallest elements */
    c->prefix = elements == SOURCE_STREAM ? PREFIX : 0;
    if (elements == SOURCE_STREAM)
        elements = bytes / LEAST_ELEMENT < MAX_SLOTS ? bytes / LEAST_ELEMENT : MAX_SLOTS;
    if (elements < c->slots)
        c->slots = elements;
    c->used = c->prefix ? 0 : c->slots * sizeof(void *); /* a stream's table is larger than needed: what is filled counts */
    c->table = mem_array((size_t)c->slots, sizeof(*c->table));
    c->worker = mem_aligned(workers * sizeof(*c->worker));
    if (!c->table || !c->worker)
        goto fail;
    memset(c->worker, 0, workers * sizeof(*c->worker));
    *ret = c;
    return PST_OK;
fail:
    cache_destroy(c);
    return fail_memory(reterr, "cache");
}

#define MOST_ON_DISK (UINT64_C(1) << 24) /* elements of a stream, whose length is not known */

pst_status cache_create_on_disk(struct cache **ret, const char *dir, const uint64_t key[2], const char *about, uint64_t elements,
                                uint64_t bytes, unsigned workers, pst_error *reterr)
{
    struct cache *c = mem_zalloc(sizeof(*c));
    if (!c)
        return fail_memory(reterr, "cache");
    bool is_stream = elements == SOURCE_STREAM;
    struct cache_disk_request request = {.dir = dir,
                                         .key = {key[0], key[1]},
                                         .about = about,
                                         .slots = is_stream ? MOST_ON_DISK : elements,
                                         .bytes = bytes,
                                         .prefix = is_stream ? PREFIX : 0,
                                         .workers = workers};
    pst_status st = cache_disk_open(&c->disk, &request, reterr);
    if (st < 0) {
        cache_destroy(c);
        return st;
    }
    *ret = c;
    return PST_OK;
}

struct cache *cache_destroy(struct cache *c)
{
    if (!c)
        return NULL;
    cache_disk_close(c->disk);
    for (unsigned i = 0; c->worker && c->table && i < c->workers; i++) {
        for (struct slab *s = c->worker[i].slabs; s;) {
            struct slab *older = s->older;
            mem_free(s);
            s = older;
        }
    }
    mem_free(c->worker);
    mem_free((void *)c->table);
    mem_free(c);
    return NULL;
}

bool cache_view(struct cache *c, uint64_t index, void *block, const pst_spec *spec, const struct field_list *fields,
                pst_tensor *tensors, struct arena *scratch)
{
    if (c->disk)
        return cache_disk_view(c->disk, index, block, spec, fields, tensors, scratch);
    element_view(block, spec, fields, tensors);
    return true;
}

void *cache_find(const struct cache *c, uint64_t index)
{
    if (c->disk)
        return cache_disk_find(c->disk, index);
    return index < c->slots ? atomic_load_explicit(&c->table[index], memory_order_acquire) : NULL;
}

static bool reserve(struct cache *c, size_t bytes)
{
    uint64_t used = atomic_load_explicit(&c->used, memory_order_relaxed);
    do {
        if (bytes > c->budget || used > c->budget - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&c->used, &used, used + bytes, memory_order_relaxed, memory_order_relaxed));
    return true;
}

static struct slab *add_slab(struct cache *c, struct cache_worker *w, size_t size)
{
    if (!reserve(c, size + HEADER))
        return NULL;
    struct slab *s = mem_aligned(size + HEADER);
    if (!s) {
        atomic_fetch_sub_explicit(&c->used, size + HEADER, memory_order_relaxed);
        return NULL;
    }
    *s = (struct slab){.older = w->slabs, .size = size};
    w->slabs = s;
    return s;
}

/* An element that would waste much of a slab gets one of its own size. */
static void *slab_alloc(struct cache *c, struct cache_worker *w, size_t size)
{
    struct slab *s = w->slabs;
    size = (size + 15) & ~(size_t)15;
    if (!s || s->size - s->used < size) {
        s = size > SLAB / 8 ? NULL : add_slab(c, w, SLAB);
        if (!s)
            s = add_slab(c, w, size);
        if (!s)
            return NULL;
    }
    void *p = (uint8_t *)s + HEADER + s->used;
    s->used += size;
    return p;
}

struct cache_tag cache_tag_of(const void *block)
{
    struct cache_tag tag;
    memcpy(&tag, (const uint8_t *)block - PREFIX, sizeof(tag));
    return tag;
}

void cache_keep(struct cache *c, unsigned worker, uint64_t index, const pst_spec *spec, const struct field_list *fields,
                const pst_tensor *tensors, const struct cache_tag *tag)
{
    if (c->disk) {
        struct {
            struct cache_tag tag;
            uint8_t rest[PREFIX - sizeof(struct cache_tag) + 1];
        } prefix = {.tag = *tag};
        prefix.tag.place.path = NULL; /* belongs to this process */
        cache_disk_keep(c->disk, worker, index, spec, fields, tensors, &prefix);
        return;
    }
    if (index >= c->slots)
        return;
    size_t size = element_size(spec, fields, tensors);
    size_t slot = c->prefix ? sizeof(void *) : 0; /* of the table: counted when it is filled, or from the beginning */
    if (!reserve(c, slot))
        return;
    uint8_t *begin = size > c->budget ? NULL : slab_alloc(c, &c->worker[worker], c->prefix + size);
    if (!begin) {
        atomic_fetch_sub_explicit(&c->used, slot, memory_order_relaxed);
        return;
    }
    void *block = begin + c->prefix, *none = NULL;
    if (c->prefix)
        memcpy(begin, tag, sizeof(*tag));
    element_pack(block, spec, fields, tensors);
    if (atomic_compare_exchange_strong_explicit(&c->table[index], &none, block, memory_order_release, memory_order_relaxed))
        atomic_fetch_add_explicit(&c->kept, 1, memory_order_relaxed);
}

uint64_t cache_length(const struct cache *c)
{
    return c->disk ? cache_disk_length(c->disk) : UINT64_MAX;
}

void cache_set_length(struct cache *c, uint64_t length)
{
    if (c->disk)
        (void)cache_disk_set_length(c->disk, length, NULL); /* without it the stream is read to its end again */
}

void cache_note(const struct cache *c, char *buffer, size_t size)
{
    if (c->disk)
        cache_disk_note(c->disk, buffer, size);
    else if (size)
        buffer[0] = '\0';
}

uint64_t cache_bytes(const struct cache *c)
{
    if (c->disk)
        return 0; /* of memory */
    return atomic_load_explicit(&c->used, memory_order_relaxed);
}

uint64_t cache_elements(const struct cache *c)
{
    if (c->disk)
        return cache_disk_elements(c->disk);
    return atomic_load_explicit(&c->kept, memory_order_relaxed);
}
