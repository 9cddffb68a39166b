/* memory.c: who keeps the memory of a tensor: a reference of its batch, or of a block of our own. No part of it needs the GIL.
 */
#include "core.h"

#include <stdatomic.h>
#include <stdlib.h>

struct block {
    _Atomic unsigned refs;
    void *data;
};

struct block *block_create(size_t size)
{
    struct block *b = malloc(sizeof(*b));
    void *data = NULL;
    if (!b || posix_memalign(&data, 64, size ? size : 1) != 0) {
        free(b);
        return NULL;
    }
    atomic_init(&b->refs, 1);
    b->data = data;
    return b;
}

void *block_data(struct block *b)
{
    return b->data;
}

keeper keeper_ref(const keeper *k)
{
    if (k->batch && k->generation == fork_generation())
        pst_batch_ref(k->batch);
    if (k->block)
        atomic_fetch_add(&k->block->refs, 1);
    return *k;
}

void keeper_unref(keeper *k)
{
    if (k->batch && k->generation == fork_generation())
        pst_batch_unref(k->batch); /* the parent's pool may be locked for ever in a fork: its batches stay there */
    if (k->block && atomic_fetch_sub(&k->block->refs, 1) == 1) {
        free(k->block->data);
        free(k->block);
    }
    *k = (keeper){0};
}
