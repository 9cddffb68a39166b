/* flow_chains.h: chains of every kind over the source and the operations of flow_fixture.h. */
#ifndef TESTS_FLOW_CHAINS_H
#define TESTS_FLOW_CHAINS_H

#include "flow_fixture.h"
#include "flow_harness.h"

static pst_status plain(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 53}, e));
    return add_batch(p, 8, false, e);
}

static pst_status unbatched(pst_pipeline *p, pst_error *e)
{
    return add_samples(p, (struct sample_config){.count = 7}, e);
}

static pst_status shuffled(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 101}, e));
    TRY(add_noise(p, 2, e));
    TRY(add_shuffle(p, 0, 0, e)); /* behind an operation: it moves in front */
    return add_batch(p, 10, true, e);
}

static pst_status windowed(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 101}, e));
    TRY(add_shuffle(p, 0, 3000, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 10, false, e);
}

static pst_status repeated(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 23}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_count(p, &op_repeat.op, 3, e));
    TRY(add_noise(p, 2, e));
    TRY(add_batch(p, 5, false, e));
    return add_count(p, &op_skip.op, 2, e); /* batches */
}

static pst_status endless(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 19}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_count(p, &op_repeat.op, -1, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 4, false, e);
}

static pst_status many_ops(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 64}, e));
    TRY(add_bulk(p, 0, 1000, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_noise(p, 2, e));
    TRY(add_noise(p, 2, e));
    TRY(add_pick(p, "id vector bulk length", e));
    TRY(add_noise(p, 1, e));
    TRY(add_batch(p, 16, false, e));
    return add_noise(p, 1, e); /* behind batch it still works on elements */
}

static pst_status cached(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 60}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_bulk(p, 0, 3, e));
    TRY(add_cache(p, 1 << 20, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 7, false, e);
}

static pst_status cached_little(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 60}, e));
    TRY(add_cache(p, 5000, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 7, false, e);
}

static pst_status streamed(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 53, .stream = true}, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 8, false, e);
}

static pst_status streamed_shuffled(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 53, .stream = true}, e));
    TRY(add_count(p, &op_skip.op, 3, e));
    TRY(add_shuffle(p, 4000, 0, e));
    TRY(add_noise(p, 2, e));
    TRY(pst_pipeline_add_op(p, &op_shard.op, &(struct shard_config){.count = 2, .index = 1}, e));
    TRY(add_count(p, &op_repeat.op, 2, e));
    TRY(add_count(p, &op_take.op, 40, e));
    TRY(add_batch(p, 4, false, e));
    return add_shuffle(p, 3000, 0, e);
}

static pst_status streamed_cached(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 40, .stream = true}, e));
    TRY(add_shuffle(p, 2000, 0, e));
    TRY(add_bulk(p, 0, 2, e));
    TRY(add_cache(p, 1 << 20, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 6, false, e);
}

static pst_status damaged(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 70, .corrupt = 9}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_bulk(p, 11, 5, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 3, false, e); /* some batches lose everything */
}

static pst_status empty(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 0}, e));
    TRY(add_shuffle(p, 0, 0, e));
    return add_batch(p, 3, false, e);
}

static const struct chain_case cases[] = {
    {"plain", .build = plain},
    {"unbatched", .build = unbatched},
    {"shuffled", .build = shuffled},
    {"windowed", .build = windowed},
    {"repeated", .build = repeated},
    {"endless", .build = endless},
    {"many operations", .build = many_ops},
    {"cached", .build = cached},
    {"cached in little memory", .build = cached_little},
    {"streamed", .build = streamed},
    {"streamed and shuffled", .build = streamed_shuffled},
    {"streamed and cached", .build = streamed_cached},
    {"damaged", .build = damaged, .skip = true},
    {"empty", .build = empty},
    {0},
};

#endif
