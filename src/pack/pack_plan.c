/* pack_plan.c: see pack_plan.h. An item's split depends on its key alone: it stays where it is when others come or go. */
#include "pack/pack_plan.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

static unsigned split_of(const struct pack_source *s, uint64_t item)
{
    char buffer[PACK_KEY_BYTES];
    if (s->split_count)
        return s->class->split(s, item);
    const char *key = s->class->key(s, item, buffer);
    double unit = (double)(hash_bytes(key, strlen(key), 0) >> 11) * 0x1p-53;
    unsigned i = 0;
    while (unit >= s->config->shares[i].upto) /* the last is infinite */
        i++;
    return i;
}

static uint64_t unit_at(const struct pack_plan *p, uint64_t position)
{
    return p->source->config->options.shuffle ? permutation_at(&p->permutation, position) : position;
}

/* Writes down the units of every split in order, two bytes an item and eight a unit. */
static pst_status deal(struct pack_plan *p, pst_error *reterr)
{
    pst_status st = PST_OK;
    const struct pack_source *s = p->source;
    uint16_t *splits = mem_array((size_t)s->count, sizeof(*splits));
    uint64_t *filled = mem_array(p->split_count, sizeof(*filled));
    if (!splits || !filled)
        st = fail_memory(reterr, "planning the shards");
    for (uint64_t i = 0; st == PST_OK && i < s->count; i++) {
        splits[i] = (uint16_t)split_of(s, i);
        p->splits[splits[i]].count += p->copies;
    }
    for (size_t i = 0; st == PST_OK && i < p->split_count; i++) {
        p->splits[i].order = mem_array((size_t)p->splits[i].count, sizeof(uint64_t));
        if (!p->splits[i].order)
            st = fail_memory(reterr, "planning the shards");
    }
    for (uint64_t i = 0; st == PST_OK && i < p->units; i++) {
        uint64_t unit = unit_at(p, i);
        unsigned split = splits[unit / p->copies];
        p->splits[split].order[filled[split]++] = unit;
    }
    mem_free(splits);
    mem_free(filled);
    return st;
}

pst_status pack_plan_init(struct pack_plan *p, const struct pack_source *s, pst_error *reterr)
{
    const struct pack_config *c = s->config;
    p->source = s;
    p->copies = 1 + c->options.augment;
    if (__builtin_mul_overflow(s->count, p->copies, &p->units))
        return pst_fail(reterr, PST_ELIMIT, "augment: more records than can be counted");
    p->split_count = s->split_count ? s->split_count : c->share_count;
    if (p->split_count > UINT16_MAX)
        return pst_fail(reterr, PST_ELIMIT, "split: more than %d splits", UINT16_MAX);
    p->splits = mem_array(p->split_count, sizeof(*p->splits));
    if (!p->splits)
        return fail_memory(reterr, "planning the shards");
    for (size_t i = 0; i < p->split_count; i++)
        p->splits[i].name = s->split_count ? s->split_names[i] : c->shares[i].name;
    if (c->options.shuffle)
        permutation_init(&p->permutation, p->units, c->options.seed, 0);
    if (p->split_count > 1)
        return deal(p, reterr);
    p->splits[0].count = p->units;
    return PST_OK;
}

void pack_plan_divide(struct pack_plan *p, size_t split, uint64_t shards)
{
    struct plan_split *s = &p->splits[split];
    shards = shards ? shards : 1;
    s->shards = (uint32_t)(shards < s->count ? shards : s->count);
    s->first_shard = split ? s[-1].first_shard + s[-1].shards : 0;
    p->shard_count = s->first_shard + s->shards;
}

void pack_plan_finish(struct pack_plan *p)
{
    for (size_t i = 0; p->splits && i < p->split_count; i++)
        mem_free(p->splits[i].order);
    mem_free(p->splits);
    *p = (struct pack_plan){0};
}

uint64_t pack_plan_unit(const struct pack_plan *p, size_t split, uint64_t position)
{
    const uint64_t *order = p->splits[split].order;
    return order ? order[position] : unit_at(p, position);
}

size_t pack_plan_shard(const struct pack_plan *p, size_t shard, uint64_t *ret_begin, uint64_t *ret_end)
{
    size_t split = 0;
    while (shard >= p->splits[split].first_shard + p->splits[split].shards)
        split++;
    const struct plan_split *s = &p->splits[split];
    /* The first `larger` shards have one unit more than the others. */
    uint64_t k = shard - s->first_shard, each = s->count / s->shards, larger = s->count % s->shards;
    *ret_begin = k * each + (k < larger ? k : larger);
    *ret_end = *ret_begin + each + (k < larger);
    return split;
}

char *pack_plan_shard_name(const struct pack_plan *p, size_t shard)
{
    uint64_t begin, end;
    const struct plan_split *s = &p->splits[pack_plan_shard(p, shard, &begin, &end)];
    return mem_format("%s-%s.tfrecord-%05zu-of-%05" PRIu32, p->source->config->name, s->name, shard - s->first_shard,
                      s->shards);
}
