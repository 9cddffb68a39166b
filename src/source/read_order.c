/* read_order.c: see read_order.h. */
#include "source/read_order.h"

#include "base/memory.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const struct record_place *x = *(const struct record_place *const *)a, *y = *(const struct record_place *const *)b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

bool read_order_make(struct read_order *o, const struct record_place *places, size_t count, uint64_t gap)
{
    bool sorted = true; /* as it is without a shuffle */
    o->run_count = 0;
    if (mem_grow((void **)&o->places, &o->capacity, count, sizeof(*o->places)) < 0 ||
        mem_grow((void **)&o->runs, &o->run_capacity, count, sizeof(*o->runs)) < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        o->places[i] = &places[i];
        sorted = sorted && (i == 0 || compare(&o->places[i - 1], &o->places[i]) <= 0);
    }
    if (!sorted)
        qsort(o->places, count, sizeof(*o->places), compare);
    for (size_t i = 0; i < count; i++) {
        const struct record_place *p = o->places[i];
        struct read_run *run = o->run_count ? &o->runs[o->run_count - 1] : NULL;
        if (!run || run->shard != p->shard || p->offset > run->end + gap) {
            run = &o->runs[o->run_count++];
            *run = (struct read_run){.shard = p->shard, .begin = p->offset, .end = record_place_end(p), .first = i};
        }
        if (run->end < record_place_end(p)) /* the same record may come twice */
            run->end = record_place_end(p);
        run->last = i + 1;
    }
    return true;
}

void read_order_finish(struct read_order *o)
{
    mem_free(o->places);
    mem_free(o->runs);
    *o = (struct read_order){0};
}
