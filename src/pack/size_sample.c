/* size_sample.c: see steps.h. The sample is spread evenly over the plan and made by all workers; bad items do not count. */
#include "pack/steps.h"

#include "base/error.h"
#include "base/thread.h"
#include "pack/compose.h"

#include <stdatomic.h>

#define WAIT_MS 100
#define SAMPLES 64

struct sampling {
    const struct pack_plan *plan;
    struct composer *composers;
    _Atomic unsigned next;
    uint64_t count;
    uint64_t bytes[SAMPLES]; /* 0: the item is bad */
    _Atomic bool no_memory;
};

static void take_samples(void *user, unsigned worker)
{
    struct sampling *s = user;
    struct chunk chunk = {0};
    pst_error error;
    for (unsigned i; (i = atomic_fetch_add(&s->next, 1)) < s->count;) {
        uint64_t unit = s->plan->units / s->count * i;
        chunk_reset(&chunk);
        pst_status st =
            composer_add(&s->composers[worker], &chunk, unit / s->plan->copies, (uint32_t)(unit % s->plan->copies), &error);
        s->bytes[i] = st == PST_OK ? chunk.length : 0;
        if (st == PST_ENOMEM)
            atomic_store(&s->no_memory, true);
    }
    chunk_finish(&chunk);
}

pst_status pack_sample(const struct pack_plan *plan, const struct recipe *recipe, struct pack_ticker *ticker, double *ret,
                       pst_error *reterr)
{
    unsigned workers = plan->source->config->options.workers;
    struct sampling s = {.plan = plan, .count = plan->units < SAMPLES ? plan->units : SAMPLES};
    struct thread_group *group = NULL;
    pst_status st = composers_create(&s.composers, recipe, workers, reterr);
    if (st == PST_OK)
        st = thread_group_start(&group, workers, "pack", take_samples, &s, reterr);
    while (group && !thread_group_wait(group, WAIT_MS)) {
        if (st == PST_OK)
            st = pack_ticker_tell(ticker, "sampling", atomic_load(&s.next), s.count, 0, false, reterr);
        if (st < 0)
            atomic_store(&s.next, SAMPLES);
    }
    thread_group_join(group);
    composers_destroy(s.composers, workers);
    if (st == PST_OK && atomic_load(&s.no_memory))
        st = fail_memory(reterr, "sampling the images");
    uint64_t sum = 0, good = 0;
    for (uint64_t i = 0; i < s.count; i++) {
        sum += s.bytes[i];
        good += s.bytes[i] != 0;
    }
    if (st == PST_OK)
        *ret = good ? (double)sum / (double)good : 0;
    return st;
}
