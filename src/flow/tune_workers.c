/* tune_workers.c: the choices and their reasons.
 *
 * Workers: one per core, which suits decoding. One more when the consumer waits while workers block in reads; one less when
 * the processor is the bottleneck again. Depth: enough small batches to hide the cost of handing over; more when both sides
 * wait in turns, which only a longer buffer smooths; never more than the memory budget allows. */
#include "flow/tune_workers.h"

#include "base/digits.h"
#include "base/text.h"

#include <stdio.h>

#define READY_BYTES   (UINT64_C(8) << 20) /* of batches ready is enough to hand over without a pause */
#define FIRST_DEPTH   32                  /* at most, to begin with */
#define SCRATCH_GUESS (UINT64_C(1) << 20)
#define MOST_BYTES    (UINT64_C(128) << 20) /* of batches ahead, unless asked for */

uint64_t tune_worker_bytes(const struct pipeline_plan *plan)
{
    return program_workspace(&plan->program) + SCRATCH_GUESS;
}

static uint64_t batch_bytes(const struct pipeline_plan *plan)
{
    const struct batch_layout *l = &plan->program.layout;
    uint64_t varying = l->varies ? plan->element_bytes * l->capacity : 0;
    return l->block + l->tables + (l->gathers ? 9 * varying / 4 : varying); /* gathered, with room for a little more */
}

uint64_t tune_planned(const struct tuner *t, const struct pipeline_plan *plan, uint64_t measured)
{
    uint64_t guessed = batch_bytes(plan);
    return (t->depth + 1) * (measured > guessed ? measured : guessed) + t->workers * tune_worker_bytes(plan) + plan->ram_cache +
           plan->ram_stream + plan->ram_entropy + plan->ram_kept + plan->ram_branches;
}

/* How many batches fit, besides the one that the consumer holds. */
static size_t depth_within(uint64_t ram, uint64_t bytes)
{
    uint64_t n = bytes ? ram / bytes : TUNE_MAX_DEPTH + 1;
    return n > TUNE_MAX_DEPTH ? TUNE_MAX_DEPTH : n > 2 ? (size_t)n - 1 : 1;
}

static void choose_workers(struct tuner *t, const struct pipeline_plan *plan, const pst_pipeline_options *o)
{
    t->workers_given = o->workers > 0;
    t->most_workers = plan->threads;
    t->workers = t->workers_given ? plan->threads : t->cores < plan->threads ? t->cores : plan->threads;
    if (t->workers_given)
        digits_print(t->workers_reason, sizeof(t->workers_reason), "%u as asked for", t->workers);
    else
        digits_print(t->workers_reason, sizeof(t->workers_reason), "one for each of %u cores; nothing measured yet", t->cores);
}

static void choose_depth(struct tuner *t, const struct pipeline_plan *plan, const pst_pipeline_options *o)
{
    uint64_t asked = o->prefetch ? o->prefetch : plan->prefetch, bytes = batch_bytes(plan);
    uint64_t enough = bytes ? READY_BYTES / bytes + 1 : t->workers + 1;
    t->depth_given = asked > 0;
    t->most_depth = depth_within(t->ram, bytes);
    if (t->depth_given) {
        t->depth = asked < t->most_depth ? (size_t)asked : t->most_depth;
        t->most_depth = t->depth;
        snprintf(t->depth_reason, sizeof(t->depth_reason),
                 asked > t->depth ? "%zu: more than that is over the limit or the RAM budget" : "%zu as asked for", t->depth);
        return;
    }
    size_t modest = depth_within(MOST_BYTES, bytes), least = t->workers + 1;
    modest = modest > least ? modest : least;
    t->most_depth = t->most_depth < modest ? t->most_depth : modest;
    t->depth = enough > FIRST_DEPTH ? FIRST_DEPTH : enough > t->workers ? (size_t)enough : t->workers + 1;
    char size[32];
    snprintf(t->depth_reason, sizeof(t->depth_reason), "%zu batches of %s; nothing measured yet", t->depth,
             text_bytes(bytes, size, sizeof(size)));
    if (t->depth > t->most_depth) {
        t->depth = t->most_depth;
        snprintf(t->depth_reason, sizeof(t->depth_reason), "%zu: the RAM budget has no room for more", t->depth);
    }
}

void tune_init(struct tuner *t, const struct pipeline_plan *plan, const pst_pipeline_options *o, unsigned cores)
{
    *t = (struct tuner){.cores = cores};
    uint64_t taken = plan->ram_cache + plan->ram_stream + plan->ram_entropy + plan->ram_kept + plan->ram_branches + plan->threads * tune_worker_bytes(plan);
    t->ram = taken < plan->ram ? plan->ram - taken : 0;
    choose_workers(t, plan, o);
    choose_depth(t, plan, o);
}

/* `blocked` is the share of their time that workers sleep in reads. */
static bool judge_workers(struct tuner *t, double starved, double busy, double blocked)
{
    unsigned before = t->workers;
    if (t->workers_given)
        return false;
    if (starved > 0.05 && busy > 0.8 && blocked > 0.3 && t->workers < t->most_workers) {
        t->workers++;
        digits_print(t->workers_reason, sizeof(t->workers_reason),
                     "%u: the consumer waited %.0f %% of the time, workers spent %.0f %% of theirs in reads", t->workers,
                     starved * 100, blocked * 100);
    } else if (t->workers > t->cores && blocked < 0.1) {
        t->workers--;
        digits_print(t->workers_reason, sizeof(t->workers_reason),
                     "%u: workers spend %.0f %% of their time in reads, more of them do not help", t->workers, blocked * 100);
    } else if (starved > 0.05) {
        digits_print(t->workers_reason, sizeof(t->workers_reason),
                     "%u for %u cores; the consumer waits %.0f %% of the time, workers are busy %.0f %%", t->workers, t->cores,
                     starved * 100, busy * 100);
    } else {
        digits_print(t->workers_reason, sizeof(t->workers_reason),
                     "%u for %u cores keep up: the consumer waits %.0f %% of the time", t->workers, t->cores, starved * 100);
    }
    return t->workers != before;
}

static bool judge_depth(struct tuner *t, double starved, double waiting, uint64_t bytes)
{
    size_t before = t->depth, most = depth_within(t->ram, bytes);
    char size[32];
    if (t->depth > most) {
        t->depth = most;
        snprintf(t->depth_reason, sizeof(t->depth_reason), "%zu: a batch takes %s, the RAM budget has no room for more",
                 t->depth, text_bytes(bytes, size, sizeof(size)));
    } else if (!t->depth_given && starved > 0.05 && waiting > 0.15 && t->depth < t->most_depth && t->depth < most) {
        t->depth *= 2;
        t->depth = t->depth < t->most_depth ? t->depth : t->most_depth;
        t->depth = t->depth < most ? t->depth : most;
        digits_print(t->depth_reason, sizeof(t->depth_reason),
                     "%zu: the consumer waited %.0f %% of the time and workers %.0f %%, in turns", t->depth, starved * 100,
                     waiting * 100);
    }
    return t->depth != before;
}

static double share(uint64_t part, double whole)
{
    return whole > 0 ? (double)part / whole : 0;
}

bool tune_update(struct tuner *t, const struct tune_sample *now)
{
    const struct tune_sample *last = &t->last;
    double passed = (double)(now->now_ns - last->now_ns);
    if (last->now_ns == 0 || passed < TUNE_INTERVAL_NS) {
        t->last = last->now_ns ? *last : *now;
        return false;
    }
    double starved = share(now->consumer_wait_ns - last->consumer_wait_ns, passed);
    double waiting = share(now->worker_wait_ns - last->worker_wait_ns, passed * t->workers);
    double busy = share(now->worker_busy_ns - last->worker_busy_ns, passed * t->workers);
    double blocked = share(now->blocked_ns - last->blocked_ns, (double)(now->probed_ns - last->probed_ns));
    t->last = *now;
    bool workers = judge_workers(t, starved, busy, blocked);
    bool depth = judge_depth(t, starved, waiting, now->batch_bytes);
    return workers || depth;
}
