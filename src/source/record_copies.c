/* record_copies.c: see record_copies.h. A copy is written once, by the worker that reads the record first, and seen by the others from
 * then on. */
#include "source/record_copies.h"

#include "base/memory.h"
#include "record/frame.h"

#include <string.h>

#define UNIT       32u /* bytes; copies begin at multiples of it, so that they span few cache lines */
#define MOST_MEAN  2048u /* of larger records, the bytes themselves are what costs */
#define SPARSE     2u  /* one of so many records is used, at most */

#define COPY_BEGUN (UINT32_C(1) << 30)
#define COPY_THERE (UINT32_C(1) << 31)
#define LENGTH     (COPY_BEGUN - 1)

void record_copies_finish(struct record_copies *c)
{
    mem_free(c->all);
    mem_free(c->bytes);
    *c = (struct record_copies){0};
}

static uint64_t units_of(uint64_t length)
{
    return (length + FRAME_BYTES + UNIT - 1) / UNIT;
}

/* Places the copies one after the other. Returns the units of all; 0: they are too large. */
static uint64_t lay_out(struct record_copies *c, const struct shard_set *s, uint64_t most)
{
    uint64_t at = 0, ones = bitmap_ones(c->only);
    for (uint64_t k = 0; k < ones; k++) {
        uint64_t index = bitmap_select(c->only, k);
        const struct set_shard *shard = &s->shards[shard_set_find(s, index)];
        uint64_t length = __atomic_load_n(&shard->entries[index - shard->first].length, __ATOMIC_RELAXED);
        if (length > LENGTH || at + units_of(length) > most)
            return 0;
        c->all[k].unit = (uint32_t)at;
        atomic_init(&c->all[k].length, (uint32_t)length);
        at += units_of(length);
    }
    return at;
}

uint64_t record_copies_init(struct record_copies *c, const struct shard_set *s, const struct bitmap *only, uint64_t ram)
{
    uint64_t ones = bitmap_ones(only), table = sizeof(struct record_copy);
    if (ones == 0 || ones > only->count / SPARSE || only->count != s->records || ones >= ram / (table + UNIT))
        return 0;
    uint64_t most = (ram - ones * table) / UNIT, small = ones * (MOST_MEAN / UNIT);
    most = most < small ? most : small;
    most = most < UINT32_MAX ? most : UINT32_MAX;
    c->only = only;
    c->all = mem_array((size_t)ones, sizeof(*c->all));
    uint64_t units = c->all ? lay_out(c, s, most) : 0;
    c->bytes = units ? mem_large((size_t)units * UNIT) : NULL;
    if (!c->bytes) { /* not needed, only faster */
        record_copies_finish(c);
        return 0;
    }
    return units * UNIT + ones * table;
}

uint64_t record_copies_number(const struct record_copies *c, uint64_t index)
{
    if (!(c->only->words[index / 64] >> (index % 64) & 1))
        return COPY_UNUSED;
    uint64_t k = bitmap_rank(c->only, index);
    __builtin_prefetch(&c->all[k]);
    return k;
}

const uint8_t *record_copies_find(const struct record_copies *c, uint64_t number, uint64_t *ret_length)
{
    uint32_t length = number == COPY_UNUSED ? 0 : atomic_load_explicit(&c->all[number].length, memory_order_acquire);
    if (!(length & COPY_THERE))
        return NULL;
    *ret_length = length & LENGTH;
    return c->bytes + (size_t)c->all[number].unit * UNIT;
}

void record_copies_put(struct record_copies *c, uint64_t index, const uint8_t *frame, uint64_t length)
{
    uint64_t k = record_copies_number(c, index);
    uint32_t expected = (uint32_t)length;
    if (k == COPY_UNUSED || length > LENGTH ||
        !atomic_compare_exchange_strong_explicit(&c->all[k].length, &expected, (uint32_t)length | COPY_BEGUN, memory_order_relaxed,
                                                 memory_order_relaxed))
        return; /* the index has changed since, or another worker has copied it */
    memcpy(c->bytes + (size_t)c->all[k].unit * UNIT, frame, (size_t)length + FRAME_BYTES);
    atomic_store_explicit(&c->all[k].length, (uint32_t)length | COPY_THERE, memory_order_release);
}
