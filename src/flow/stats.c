/* stats.c: adds up the counters of all workers, and reports what delays a batch that takes too long.
 *
 * No thread watches: a stall is reported when the statistics are read and the consumer has been waiting for longer than the
 * limit. */
#include "flow/stats.h"

#include "base/clock.h"
#include "base/digits.h"
#include "flow/element_cache.h"
#include "flow/pipeline.h"
#include "source/jpeg_points.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STALL_SECONDS 60.0

static void add_cell(pst_stats *s, const struct cell *c)
{
    s->read_bytes += cell_get(&c->read_bytes);
    s->cache_hits += cell_get(&c->cache_hits);
    s->worker_wait_ns += cell_get(&c->wait_ns);
    s->worker_busy_ns += cell_get(&c->busy_ns);
    for (size_t i = 0; i < s->stages; i++) {
        s->stage[i].calls += cell_get(&c->stages[i].calls);
        s->stage[i].bytes += cell_get(&c->stages[i].bytes);
        s->stage[i].ns += cell_get(&c->stages[i].ns);
    }
    s->stage[0].bytes += cell_get(&c->read_bytes);
}

static void add_delivery(pst_stats *s, const struct delivery *d)
{
    uint64_t calls = cell_get(&d->calls);
    s->samples = cell_get(&d->samples);
    s->batches = cell_get(&d->batches);
    s->bytes = cell_get(&d->bytes);
    s->skipped = cell_get(&d->skipped);
    s->consumer_wait_ns = cell_get(&d->wait_ns);
    s->ready_mean = calls ? (double)cell_get(&d->ready) / (double)calls : 0;
}

/* The worker that has been at one slice the longest is the one that the batch waits for. */
static void judge_stall(const pst_pipeline *p, uint64_t now, pst_stats *s)
{
    double limit = p->options.stall_seconds > 0 ? p->options.stall_seconds : STALL_SECONDS;
    uint64_t since = p->ring.consumer_since, oldest = UINT64_MAX, sample = PST_NOWHERE;
    unsigned worker = 0;
    uint64_t stage = 0;
    if (!since || (double)(now - since) * 1e-9 < limit)
        return;
    for (unsigned i = 0; i < p->plan->threads; i++) {
        uint64_t begin = cell_get(&p->cells[i].since);
        if (begin == 0 || begin >= oldest)
            continue;
        oldest = begin;
        worker = i;
        stage = cell_get(&p->cells[i].stage);
        sample = cell_get(&p->cells[i].sample);
    }
    s->stalled = true;
    double waited = (double)(now - since) * 1e-9;
    if (oldest == UINT64_MAX)
        digits_print(s->stall, sizeof(s->stall), "next() has waited %.1f s and no worker is at work", waited);
    else if (sample == PST_NOWHERE)
        digits_print(s->stall, sizeof(s->stall), "next() has waited %.1f s; worker %u has been reading the stream for %.1f s",
                     waited, worker, (double)(now - oldest) * 1e-9);
    else
        digits_print(s->stall, sizeof(s->stall),
                     "next() has waited %.1f s; worker %u has been at a slice for %.1f s, now in \"%s\" of sample %" PRIu64,
                     waited, worker, (double)(now - oldest) * 1e-9, p->plan->program.stage_name[stage], sample);
}

static void add_plan(const pst_pipeline *p, pst_stats *s)
{
    const struct program *program = &p->plan->program;
    s->stages = program->stages;
    for (size_t i = 0; i < s->stages; i++)
        memcpy(s->stage[i].name, program->stage_name[i], sizeof(s->stage[i].name));
    for (unsigned i = 0; i < p->plan->threads; i++)
        add_cell(s, &p->cells[i]);
    s->workers = p->tuner.workers;
    s->prefetch = (unsigned)p->tuner.depth;
    memcpy(s->workers_reason, p->tuner.workers_reason, sizeof(s->workers_reason));
    memcpy(s->prefetch_reason, p->tuner.depth_reason, sizeof(s->prefetch_reason));
    s->ram_planned = tune_planned(&p->tuner, p->plan, batch_pool_mean(p->pool));
    s->ram_used = batch_pool_bytes(p->pool) + p->tuner.workers * program_workspace(program);
    s->ram_used += p->plan->cache ? cache_bytes(p->plan->cache) : 0;
    s->ram_used += p->crew ? crew_stream_bytes(p->crew) : 0;
    s->ram_used += entropy_bytes(program->entropy);
    struct entropy_counts entropy = entropy_count(program->entropy);
    s->entropy_stored = entropy.stored;
    s->entropy_made = entropy.made;
    s->entropy_stale = entropy.stale;
    if (p->plan->cache)
        cache_note(p->plan->cache, s->cache_note, sizeof(s->cache_note));
    judge_stall(p, clock_ns(), s);
}

pst_status pst_pipeline_stats(pst_pipeline *p, pst_stats *ret, pst_error *reterr)
{
    pst_stats s = {0};
    size_t size = ret->size;
    if (size < sizeof(size))
        return pst_fail(reterr, PST_EINVAL, "stats.size is %zu; set it to the size of the struct", size);
    add_delivery(&s, &p->delivery);
    pthread_mutex_lock(&p->ring.lock);
    if (p->plan)
        add_plan(p, &s);
    pthread_mutex_unlock(&p->ring.lock);
    memcpy(ret, &s, size < sizeof(s) ? size : sizeof(s));
    ret->size = size;
    return PST_OK;
}
