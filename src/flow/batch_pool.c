/* batch_pool.c: the pool of batches, and the public functions of a batch.
 *
 * A released batch is reused after its last reference is dropped. Batches may outlive the pipeline: the pool then waits for
 * the last of them. Large blocks ask for huge pages: touching fresh memory page by page costs as much as filling it. */
#include "base/error.h"
#include "base/memory.h"
#include "flow/batch.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

struct batch_pool {
    struct batch_layout layout;
    pthread_mutex_t lock;
    pst_batch *free;              /* under lock; the most recently released first: its memory is warm */
    size_t free_count, keep, out; /* under lock */
    bool closed;                  /* under lock */
    _Atomic uint64_t bytes;
    _Atomic size_t usual; /* bytes of a slice's memory */
};

pst_status batch_pool_create(struct batch_pool **ret, const struct batch_layout *layout, pst_error *reterr)
{
    struct batch_pool *p = mem_zalloc(sizeof(*p));
    if (!p)
        return fail_memory(reterr, "starting");
    p->layout = *layout;
    p->layout.column = mem_array(layout->fields, sizeof(*layout->column));
    p->layout.names = (struct name_index){0};
    bool whole = p->layout.column != NULL;
    if (whole) {
        memcpy(p->layout.column, layout->column, layout->fields * sizeof(*layout->column));
        name_index_init(&p->layout.names, p->layout.column[0].field.name, sizeof(*layout->column), layout->fields, &whole);
    }
    if (!whole) {
        batch_layout_finish(&p->layout);
        mem_free(p);
        return fail_memory(reterr, "starting");
    }
    pthread_mutex_init(&p->lock, NULL);
    *ret = p;
    return PST_OK;
}

/* Returns the memory of a batch besides its own struct. */
static uint64_t batch_memory(const pst_batch *b)
{
    uint64_t total = b->layout->block + b->layout->tables + (b->origins ? b->layout->capacity * sizeof(*b->origins) : 0);
    for (size_t i = 0; b->layout->varies && i < BATCH_MAX_SLICES; i++)
        total += b->memory[i].bytes;
    for (size_t f = 0; f < b->layout->fields; f++)
        total += b->varying[f].room;
    return total;
}

void batch_recount(pst_batch *b)
{
    uint64_t now = batch_memory(b);
    atomic_fetch_add_explicit(&b->pool->bytes, now - b->counted, memory_order_relaxed);
    b->counted = now;
}

static void batch_destroy(pst_batch *b)
{
    atomic_fetch_sub_explicit(&b->pool->bytes, b->counted, memory_order_relaxed);
    for (size_t f = 0; b->varying && f < b->layout->fields; f++) {
        mem_free(b->varying[f].elements);
        mem_free(b->varying[f].row_splits);
        mem_free(b->varying[f].gathered);
    }
    for (size_t i = 0; i < BATCH_MAX_SLICES; i++)
        batch_memory_finish(&b->memory[i]);
    mem_free(b->varying);
    mem_free(b->tensor);
    mem_free(b->block);
    mem_free(b->left_out);
    mem_free(b->origins);
    mem_free(b);
}

static void pool_destroy(struct batch_pool *p)
{
    while (p->free) {
        pst_batch *next = p->free->next_free;
        batch_destroy(p->free);
        p->free = next;
    }
    pthread_mutex_destroy(&p->lock);
    batch_layout_finish(&p->layout);
    mem_free(p);
}

void batch_pool_close(struct batch_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    bool last = p->out == 0;
    pthread_mutex_unlock(&p->lock);
    if (last)
        pool_destroy(p);
}

void batch_pool_keep(struct batch_pool *p, size_t count)
{
    pthread_mutex_lock(&p->lock);
    p->keep = count;
    pthread_mutex_unlock(&p->lock);
}

uint64_t batch_pool_bytes(struct batch_pool *p)
{
    return atomic_load_explicit(&p->bytes, memory_order_relaxed);
}

uint64_t batch_pool_mean(struct batch_pool *p)
{
    pthread_mutex_lock(&p->lock);
    size_t count = p->out + p->free_count;
    pthread_mutex_unlock(&p->lock);
    return count ? batch_pool_bytes(p) / count : 0;
}

/* Only the part on whole huge pages can have them. */
static void ask_for_huge_pages(uint8_t *block, size_t bytes)
{
    uintptr_t begin = ((uintptr_t)block + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)block + bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
    if (end > begin)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* a wish: without it everything is the same, slower */
}

static pst_batch *batch_create(struct batch_pool *p)
{
    const struct batch_layout *l = &p->layout;
    pst_batch *b = mem_zalloc(sizeof(*b));
    if (!b)
        return NULL;
    b->pool = p;
    b->layout = l;
    b->block = mem_aligned(l->block);
    b->left_out = mem_alloc(l->capacity);
    b->tensor = mem_array(l->fields, sizeof(*b->tensor));
    b->varying = mem_array(l->fields, sizeof(*b->varying));
    bool whole = b->block && b->left_out && b->tensor && b->varying;
    for (size_t f = 0; f < l->fields && whole; f++) {
        if (l->column[f].kind == COLUMN_FIXED)
            continue;
        b->varying[f].elements = mem_array(l->capacity, sizeof(*b->varying[f].elements));
        b->varying[f].row_splits = mem_array(l->capacity + 1, sizeof(*b->varying[f].row_splits));
        whole = b->varying[f].elements && b->varying[f].row_splits;
    }
    for (size_t i = 0; i < BATCH_MAX_SLICES; i++)
        b->memory[i].usual = &p->usual;
    if (whole) {
        ask_for_huge_pages(b->block, l->block);
        batch_recount(b);
        return b;
    }
    batch_destroy(b);
    return NULL;
}

pst_status batch_pool_take(struct batch_pool *p, pst_batch **ret, pst_error *reterr)
{
    pthread_mutex_lock(&p->lock);
    pst_batch *b = p->free;
    if (b) {
        p->free = b->next_free;
        p->free_count--;
        p->out++;
    }
    pthread_mutex_unlock(&p->lock);
    if (!b) {
        b = batch_create(p);
        if (!b)
            return pst_fail(reterr, PST_ENOMEM, "batch: out of memory for %zu bytes; try a smaller batch or less prefetch",
                            p->layout.block);
        pthread_mutex_lock(&p->lock);
        p->out++;
        pthread_mutex_unlock(&p->lock);
    }
    for (size_t i = 0; p->layout.varies && i < BATCH_MAX_SLICES; i++)
        batch_memory_reset(&b->memory[i]);
    memset(b->left_out, 0, p->layout.capacity); /* it may have been given up half-way */
    b->size = 0;
    atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
    *ret = b;
    return PST_OK;
}

static void give_back(pst_batch *b)
{
    struct batch_pool *p = b->pool;
    pthread_mutex_lock(&p->lock);
    if (!p->closed && p->free_count < p->keep) {
        b->next_free = p->free;
        p->free = b;
        p->free_count++;
        p->out--;
        pthread_mutex_unlock(&p->lock);
        return;
    }
    pthread_mutex_unlock(&p->lock);
    batch_destroy(b);
    pthread_mutex_lock(&p->lock); /* still counted as in use until here, so the pool is not freed */
    bool last = --p->out == 0 && p->closed;
    pthread_mutex_unlock(&p->lock);
    if (last)
        pool_destroy(p);
}

pst_batch *pst_batch_ref(pst_batch *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

pst_batch *pst_batch_unref(pst_batch *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        give_back(b);
    return NULL;
}

size_t pst_batch_size(const pst_batch *b)
{
    return b->size;
}

size_t pst_batch_fields(const pst_batch *b)
{
    return b->layout->fields;
}

const char *pst_batch_name(const pst_batch *b, size_t i)
{
    return i < b->layout->fields ? b->layout->column[i].field.name : NULL;
}

const pst_tensor *pst_batch_at(const pst_batch *b, size_t i)
{
    return i < b->layout->fields ? &b->tensor[i] : NULL;
}

const pst_tensor *pst_batch_get(const pst_batch *b, const char *field)
{
    const struct batch_layout *l = b->layout;
    size_t i = name_index_find(&l->names, l->column[0].field.name, sizeof(*l->column), field);
    return i == NAME_INDEX_NONE ? NULL : &b->tensor[i];
}
