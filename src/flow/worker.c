/* worker.c: the work of a worker: takes a slice of a batch, computes its elements, runs the program on each of them into its
 * slot. The worker that finishes the last slice finishes the batch.
 *
 * An element that fails ends its batch, and with it the pipeline, unless the policy tolerates damage: then it is left out,
 * and the damage is recorded in the entry; the consumer judges it in order (flow/damage_judge.h). */
#include "flow/worker.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"
#include "flow/group.h"
#include "flow/locate.h"
#include "io/stop.h"

#include <string.h>
#include <sys/resource.h>

#define PROBE_EVERY_NS 10000000u /* it takes two system calls */
#define LEARNING_NS    10000000u /* how long ticks of the processor are compared with the clock */

struct worker {
    struct runner runner;
    struct group group;
    struct order_state order;
    uint64_t probed;                  /* when it last looked at itself */
    uint64_t learnt_ns, learnt_ticks; /* of its first slices, which are timed in both */
};

struct crew {
    struct crew_order order;
    struct feed feed;
    struct worker *workers;
    unsigned count;
    struct thread_group *threads;
};

/* ---- Failures ---- */

/* Leaves the element out if that is tolerated; otherwise fails the batch. Returns whether to continue. */
static bool tolerate(struct crew *c, struct entry *e, size_t at, uint64_t sample, pst_cause cause, const pst_error *error)
{
    pst_error failure = *error;
    bool damage = cause != PST_CAUSES, noted = damage && ring_note(c->order.ring, e, at, sample, cause, error) == PST_OK;
    if (noted && c->order.tolerant) {
        batch_leave_out(e->batch, at);
        return true;
    }
    if (damage && c->order.tolerant)
        fail_memory(&failure, "noting a damaged element");
    ring_fail(c->order.ring, e, at, &failure);
    return false;
}

/* Adds the place of element `at` to an error of its batch. */
static void locate_in(struct crew *c, struct worker *w, const struct entry *e, size_t at, pst_error *error)
{
    if (c->feed.stream)
        locate_error(&c->order.plan->program, SOURCE_WHOLE, e->items[at]->sample, e->items[at], error);
    else
        locate_at(c->order.plan, &w->order, &e->where, at, error);
}

/* ---- A slice ---- */

static void find_elements(struct crew *c, struct worker *w, const struct ticket *t)
{
    struct lane *root = &w->runner.root;
    size_t n = t->end - t->begin;
    if (!c->feed.stream) {
        order_elements(c->feed.order, &w->order, &t->entry->where, t->begin, n, root->index, root->pass);
        runner_slice(&w->runner, n, &t->entry->batch->memory[t->slice]);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        root->index[i] = t->entry->items[t->begin + i]->sample;
        root->pass[i] = t->entry->items[t->begin + i]->pass;
    }
}

/* Judges the result of element `at`. Returns whether to continue. */
static bool judge(struct crew *c, struct entry *e, size_t at, pst_status st, uint64_t failed, pst_cause cause,
                  const pst_error *error, size_t *left_out)
{
    if (st == PST_OK)
        return true;
    if (st == PST_SKIP)
        batch_leave_out(e->batch, at);
    else if (!tolerate(c, e, at, failed, cause, error))
        return false;
    ++*left_out;
    return true;
}

/* Runs the elements one after the other. Returns how many were left out. */
static size_t run_elements(struct crew *c, struct worker *w, const struct ticket *t)
{
    struct entry *e = t->entry;
    struct runner_target to = {.batch = e->batch, .slice = t->slice};
    const _Atomic bool *stopped = &c->order.ring->stopped;
    size_t left_out = 0, count = t->end - t->begin, decided = 0; /* elements before `decided` are timed or not, as runner_begin has said */
    pst_cause cause;
    pst_error error;
    runner_clear_error(&error);
    for (size_t i = 0; i < count; i++) {
        if (CELL_COUNTS && i == decided)
            decided += runner_begin(&w->runner, count - i);
        to.at = t->begin + i;
        const struct item *item = c->feed.stream ? e->items[to.at] : NULL;
        if (atomic_load_explicit(stopped, memory_order_relaxed))
            break;
        pst_status st = runner_run(&w->runner, i, item, &to, &cause, &error);
        if (st == PST_OK)
            continue;
        if (!judge(c, e, to.at, st, runner_failed(&w->runner), cause, &error, &left_out))
            break;
        runner_clear_error(&error);
    }
    return left_out;
}

/* Runs them in groups. */
static size_t run_groups(struct crew *c, struct worker *w, const struct ticket *t)
{
    struct entry *e = t->entry;
    struct runner_target to = {.batch = e->batch, .slice = t->slice};
    size_t left_out = 0, done = 1;
    bool going = true;
    for (size_t i = 0; going && done > 0 && i < t->end - t->begin; i += done) {
        to.at = t->begin + i;
        done = group_run(&w->group, &w->runner, i, t->end - to.at, c->feed.stream ? &e->items[to.at] : NULL, &to,
                         &c->order.ring->stopped);
        for (size_t n = 0; going && n < done; n++) {
            const struct group_member *m = &w->group.members[n];
            going = judge(c, e, to.at + n, m->status, m->failed, m->cause, &m->error, &left_out);
        }
    }
    return left_out;
}

/* Nanoseconds since a number of ticks. */
static uint64_t ns_since(const struct worker *w, uint64_t begin)
{
    double ns_per_tick = w->learnt_ticks > 0 ? (double)w->learnt_ns / (double)w->learnt_ticks : 0;
    return (uint64_t)(ns_per_tick * (double)ticks_between(begin, cell_ticks()));
}

static void finish_entry(struct crew *c, struct worker *w, struct entry *e)
{
    uint64_t begin = cell_ticks();
    if (e->status == PST_OK && !atomic_load_explicit(&c->order.ring->stopped, memory_order_relaxed)) {
        locate_keep(e->batch, &e->where, c->feed.stream ? e->items : NULL, e->count);
        const struct program *p = &c->order.plan->program;
        size_t at = 0;
        pst_error error;
        if (batch_finish(e->batch, e->count, e->left_out, &at, &error) < 0) {
            strcpy(error.op, "batch");
            locate_in(c, w, e, at, &error);
            ring_fail(c->order.ring, e, at, &error);
        } else {
            struct stage_cell *stage = &w->runner.cell->stages[p->stages - 1];
            cell_add(&stage->ns, ns_since(w, begin));
            cell_add(&stage->bytes, e->batch->bytes);
        }
    }
    feed_release(&c->feed, e);
    ring_complete(c->order.ring, e);
}

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* Looks at one slice now and then: how long was the worker off the processor, and was that its own doing (a read) or did
 * others take it? */
static void probe(struct cell *cell, const struct rusage *a, const struct rusage *b, uint64_t ns)
{
    uint64_t cpu = ns_of(b->ru_utime) + ns_of(b->ru_stime) - ns_of(a->ru_utime) - ns_of(a->ru_stime);
    double slept = (double)(b->ru_nvcsw - a->ru_nvcsw), pushed = (double)(b->ru_nivcsw - a->ru_nivcsw);
    cell_add(&cell->probed_ns, ns);
    if (slept > 0 && cpu < ns)
        cell_add(&cell->blocked_ns, (uint64_t)((double)(ns - cpu) * slept / (slept + pushed)));
}

static size_t run_slice(struct crew *c, struct worker *w, const struct ticket *t)
{
    struct cell *cell = w->runner.cell;
    struct rusage before, after;
    size_t count = t->end - t->begin;
    bool learns = w->learnt_ns < LEARNING_NS;
    uint64_t begin = clock_ns(), ticks = learns ? cell_ticks() : 0;
    bool probes = begin - w->probed > PROBE_EVERY_NS && getrusage(RUSAGE_THREAD, &before) == 0;
    cell_set(&cell->since, begin);
    find_elements(c, w, t);
    size_t left_out = w->group.count > 0 ? run_groups(c, w, t) : run_elements(c, w, t);
    uint64_t end = clock_ns();
    if (learns) {
        w->learnt_ticks += ticks_between(ticks, cell_ticks());
        w->learnt_ns += end - begin;
    }
    uint64_t old = atomic_load_explicit(&c->feed.element_ns, memory_order_relaxed);
    uint64_t now = (end - begin) / count + 1;
    atomic_store_explicit(&c->feed.element_ns, old ? (3 * old + now) / 4 : now, memory_order_relaxed);
    runner_account(&w->runner, count, end - begin);
    cell_add(&cell->busy_ns, end - begin);
    if (probes && getrusage(RUSAGE_THREAD, &after) == 0) {
        probe(cell, &before, &after, end - begin);
        w->probed = end;
    }
    return left_out;
}

/* Numbers batches over all epochs, in their order. */
static uint64_t batch_number(const struct entry *e)
{
    return TRACE_BATCH(e->epoch, e->after);
}

static bool is_stopped(void *ring)
{
    return atomic_load_explicit(&((const struct ring *)ring)->stopped, memory_order_relaxed);
}

static void work(void *user, unsigned number)
{
    struct crew *c = user;
    struct worker *w = &c->workers[number];
    struct cell *cell = w->runner.cell;
    struct ticket t;
    struct ring_pause pause;
    stop_set_thread((struct file_stop){is_stopped, c->order.ring});
    thread_take_long_turns();
    while (ring_take(c->order.ring, number, &t, &pause)) {
        cell_add(&cell->wait_ns, pause.waited_ns);
        struct trace_mark mark;
        uint64_t batch = batch_number(t.entry);
        if (c->order.trace)
            trace_slice_begin(cell, c->order.plan->program.stages, &mark);
        size_t left_out = run_slice(c, w, &t);
        if (c->order.trace)
            trace_slice_end(c->order.trace, number, cell, c->order.plan->program.stages, &mark, batch, pause.waited_ns,
                            0);
        if (ring_return(c->order.ring, &t, left_out))
            finish_entry(c, w, t.entry);
        cell_set(&cell->since, 0);
    }
}

/* ---- The crew ---- */

static void open_entry(void *user, unsigned number, struct entry *e)
{
    struct crew *c = user;
    struct cell *cell = &c->order.cells[number];
    uint64_t begin = c->feed.stream ? clock_ns() : 0, ticks = cell_ticks(); /* a stream is read here, which may take long */
    cell_set(&cell->stage, 0);
    cell_set(&cell->sample, PST_NOWHERE);
    cell_set(&cell->since, begin);
    feed_open(&c->feed, e);
    uint64_t took = c->feed.stream ? clock_ns() - begin : ns_since(&c->workers[number], ticks);
    cell_add(&cell->busy_ns, took); /* counted at once: a worker may open entry after entry, and others take the slices */
    if (c->feed.stream)
        cell_add(&cell->stages[0].ns, took);
    cell_set(&cell->since, 0);
}

static pst_status worker_init(struct crew *c, unsigned number, pst_error *reterr)
{
    struct worker *w = &c->workers[number];
    const struct program *p = &c->order.plan->program;
    pst_status st = order_state_init(&w->order, &c->order.plan->order, reterr);
    if (st == PST_OK)
        st = runner_init(&w->runner, p, number, c->order.seed, &c->order.cells[number], reterr);
    if (st == PST_OK)
        st = group_init(&w->group, p, reterr);
    w->order.numbers = (struct order_numbers){w->runner.root.numbers, w->runner.root.capacity};
    return st;
}

static void release_entry(void *user, struct entry *e)
{
    struct crew *c = user;
    feed_release(&c->feed, e);
    e->batch = pst_batch_unref(e->batch);
}

bool crew_wait(struct crew *c, uint32_t milliseconds)
{
    return thread_group_wait(c->threads, milliseconds);
}

struct crew *crew_stop(struct crew *c)
{
    if (!c)
        return NULL;
    ring_stop(c->order.ring);
    thread_group_join(c->threads);
    ring_clear(c->order.ring, release_entry, c);
    for (unsigned i = 0; c->workers && i < c->count; i++) {
        struct worker *w = &c->workers[i];
        runner_finish(&w->runner);
        group_finish(&w->group);
        order_state_finish(&w->order);
    }
    mem_free(c->workers);
    feed_finish(&c->feed);
    mem_free(c);
    return NULL;
}

pst_status crew_start(struct crew **ret, const struct crew_order *order, pst_error *reterr)
{
    struct crew *c = mem_zalloc(sizeof(*c));
    if (!c)
        return fail_memory(reterr, "starting");
    const struct pipeline_plan *plan = order->plan;
    c->order = *order;
    c->count = plan->threads;
    pst_status st = feed_init(&c->feed, &plan->order, &plan->program, &plan->split, order->pool, order->seed, order->epoch,
                              order->next, &order->ring->stopped, reterr);
    if (order->once)
        c->feed.until = order->epoch + 1;
    c->workers = mem_array(c->count, sizeof(*c->workers));
    if (st == PST_OK && !c->workers)
        st = pst_fail(reterr, PST_ENOMEM, "starting: out of memory for %u workers", c->count);
    for (unsigned i = 0; i < c->count && st == PST_OK; i++)
        st = worker_init(c, i, reterr);
    damage_intake_drop(plan->program.intake); /* what was read ahead before a seek */
    order->ring->open = open_entry;
    order->ring->user = c;
    order->ring->lookahead = c->feed.stream ? 2 : 1;
    crew_share(c, order->sharing);
    if (st == PST_OK)
        st = thread_group_start(&c->threads, c->count, "penstock", work, c, reterr);
    if (st < 0) {
        crew_stop(c);
        return st;
    }
    *ret = c;
    return PST_OK;
}

void crew_share(struct crew *c, unsigned workers)
{
    atomic_store_explicit(&c->feed.workers, workers, memory_order_relaxed);
}

uint64_t crew_stream_bytes(const struct crew *c)
{
    return c->feed.stream ? element_stream_bytes(c->feed.stream) : 0;
}
