/* arena_plan.c: see arena_plan.h. */
#include "model/arena_plan.h"

#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>

#define ALIGNMENT 64

bool arena_plan_add(struct arena_plan *p, size_t *ret_offset, size_t bytes, size_t begin, size_t end)
{
    if (mem_grow((void **)&p->items, &p->capacity, p->count + 1, sizeof(*p->items)) < 0)
        return false;
    p->items[p->count] = (struct arena_item){.ret = ret_offset,
                                             .number = p->count,
                                             .bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
                                             .begin = begin,
                                             .end = end};
    p->count++;
    return true;
}

static int larger_first(const void *a, const void *b)
{
    const struct arena_item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number; /* a total order: the plan is a function of the graph */
}

static int lower_first(const void *a, const void *b)
{
    const struct arena_item *const *x = a, *const *y = b;
    return (*x)->offset < (*y)->offset ? -1 : (*x)->offset > (*y)->offset;
}

bool arena_plan_solve(struct arena_plan *p, size_t *ret_bytes)
{
    struct arena_item **near = mem_array(p->count ? p->count : 1, sizeof(struct arena_item *)); /* those that live at the same time */
    size_t total = 0;
    if (!near)
        return false;
    qsort(p->items, p->count, sizeof(*p->items), larger_first);
    for (size_t i = 0; i < p->count; i++) {
        struct arena_item *item = &p->items[i];
        size_t count = 0, at = 0;
        for (size_t k = 0; k < i; k++)
            if (p->items[k].begin <= item->end && item->begin <= p->items[k].end)
                near[count++] = &p->items[k];
        qsort(near, count, sizeof(struct arena_item *), lower_first);
        for (size_t k = 0; k < count && at + item->bytes > near[k]->offset; k++)
            if (near[k]->offset + near[k]->bytes > at)
                at = near[k]->offset + near[k]->bytes;
        item->offset = at;
        *item->ret = at;
        total = at + item->bytes > total ? at + item->bytes : total;
    }
    mem_free(near);
    *ret_bytes = total;
    return true;
}

void arena_plan_finish(struct arena_plan *p)
{
    mem_free(p->items);
    *p = (struct arena_plan){0};
}
