/* access.c: batch k of an epoch, computed on the thread of the caller.
 *
 * Element k of an order is computed without the elements before it, so a batch needs no crew: a reader has what a worker has,
 * and any number of threads may call, each with a reader of its own, beside the crew. Readers stay for later calls. Their
 * numbers come after those of the crew: caches have a place for each. */
#include "flow/pipeline.h"

#include "base/error.h"
#include "base/memory.h"
#include "flow/feed.h"
#include "flow/locate.h"
#include "flow/runner.h"

#include <inttypes.h>
#include <string.h>

struct reader {
    struct runner runner;
    struct order_state order;
    struct cell *cell;
    bool busy; /* under lock */
};

struct access {
    pthread_mutex_t lock;
    pthread_cond_t free;
    unsigned count;
    struct reader *readers[]; /* NULL: not made yet; under lock */
};

pst_status access_create(struct access **ret, unsigned readers, pst_error *reterr)
{
    struct access *a = mem_zalloc(sizeof(*a) + readers * sizeof(*a->readers));
    if (!a)
        return fail_memory(reterr, "planning");
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->free, NULL);
    a->count = readers;
    *ret = a;
    return PST_OK;
}

static void reader_destroy(struct reader *r)
{
    if (!r)
        return;
    if (r->runner.program)
        runner_finish(&r->runner);
    order_state_finish(&r->order);
    mem_free((void *)r->cell);
    mem_free(r);
}

struct access *access_destroy(struct access *a)
{
    if (!a)
        return NULL;
    for (unsigned i = 0; i < a->count; i++)
        reader_destroy(a->readers[i]);
    pthread_cond_destroy(&a->free);
    pthread_mutex_destroy(&a->lock);
    mem_free(a);
    return NULL;
}

static pst_status reader_create(struct reader **ret, const pst_pipeline *p, unsigned number, pst_error *reterr)
{
    const struct pipeline_plan *plan = p->plan;
    struct reader *r = mem_zalloc(sizeof(*r));
    if (r)
        r->cell = mem_aligned(sizeof(*r->cell));
    pst_status st = r && r->cell ? PST_OK : fail_memory(reterr, "reading a batch");
    if (st == PST_OK) {
        memset((void *)r->cell, 0, sizeof(*r->cell));
        st = order_state_init(&r->order, &plan->order, reterr);
    }
    if (st == PST_OK)
        st = runner_init(&r->runner, &plan->program, plan->threads + number, p->options.seed, r->cell, reterr);
    if (st < 0) {
        reader_destroy(r);
        return st;
    }
    r->order.numbers = (struct order_numbers){r->runner.root.numbers, r->runner.root.capacity};
    *ret = r;
    return PST_OK;
}

/* Takes a reader that is free: one that exists, a new one, or, when all are busy, the first that becomes free. */
static pst_status take(struct access *a, const pst_pipeline *p, struct reader **ret, pst_error *reterr)
{
    struct reader *found = NULL;
    pst_status st = PST_OK;
    pthread_mutex_lock(&a->lock);
    while (!found && st == PST_OK) {
        unsigned i = 0;
        while (i < a->count && a->readers[i] && a->readers[i]->busy)
            i++;
        if (i == a->count)
            pthread_cond_wait(&a->free, &a->lock);
        else if (!a->readers[i])
            st = reader_create(&a->readers[i], p, i, reterr);
        found = i < a->count ? a->readers[i] : NULL;
    }
    if (found)
        found->busy = true;
    pthread_mutex_unlock(&a->lock);
    *ret = found;
    return st;
}

static void give_back(struct access *a, struct reader *r)
{
    pthread_mutex_lock(&a->lock);
    r->busy = false;
    pthread_cond_signal(&a->free);
    pthread_mutex_unlock(&a->lock);
}

/* Element `at` failed. Returns whether the batch continues without it. */
static bool tolerate(const pst_pipeline *p, struct reader *r, struct entry *e, size_t at, pst_cause cause, const pst_error *error)
{
    bool noted = cause != PST_CAUSES && damage_note(e, at, runner_failed(&r->runner), cause, error) == PST_OK;
    if (noted && p->damage.policy.skip) {
        batch_leave_out(e->batch, at);
        return true;
    }
    e->status = error->status;
    e->error = *error;
    e->failed_at = at;
    if (cause != PST_CAUSES && !noted)
        e->status = fail_memory(&e->error, "noting a damaged element");
    return false;
}

static void run_elements(pst_pipeline *p, struct reader *r, struct entry *e)
{
    struct runner_target to = {.batch = e->batch};
    pst_cause cause;
    pst_error error;
    runner_clear_error(&error);
    order_elements(&p->plan->order, &r->order, &e->where, 0, e->count, r->runner.root.index, r->runner.root.pass);
    runner_slice(&r->runner, e->count, &e->batch->memory[to.slice]);
    for (to.at = 0; to.at < e->count; to.at++) {
        if (atomic_load_explicit(&p->cancelled, memory_order_relaxed)) {
            e->status = pst_fail(&e->error, PST_ECANCELLED, "the pipeline was cancelled");
            return;
        }
        pst_status st = runner_run(&r->runner, to.at, NULL, &to, &cause, &error);
        if (st == PST_OK)
            continue;
        if (st == PST_SKIP)
            batch_leave_out(e->batch, to.at);
        else if (!tolerate(p, r, e, to.at, cause, &error))
            return;
        runner_clear_error(&error);
        e->left_out++;
    }
    locate_keep(e->batch, &e->where, NULL, e->count);
    if (batch_finish(e->batch, e->count, e->left_out, &e->failed_at, &e->error) < 0) {
        strcpy(e->error.op, "batch");
        e->status = e->error.status;
        locate_at(p->plan, &r->order, &e->where, e->failed_at, &e->error);
    }
}

/* A stream has no batch without the ones before it. */
static pst_status check_place(const pst_pipeline *p, uint64_t k, pst_error *reterr)
{
    const struct pipeline_plan *plan = p->plan;
    char what[192];
    if (plan->program.streamed) {
        plan->source_class->describe(plan->source, what, sizeof(what));
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "batch %" PRIu64 " cannot be computed without the batches before it: the source is a stream (%.100s); "
                        "`penstock pack` or `snapshot` makes shards of it",
                        k, what);
    }
    uint64_t steps = feed_steps(&plan->order, &plan->split, 0);
    return k < steps ? PST_OK
                     : pst_fail(reterr, PST_EINVAL, "batch %" PRIu64 ", and an epoch has %" PRIu64 " batch%s, numbered from 0", k,
                                steps, steps == 1 ? "" : "es");
}

pst_status pst_pipeline_at(pst_pipeline *p, uint64_t epoch, uint64_t k, pst_batch **ret, pst_error *reterr)
{
    struct reader *r = NULL;
    struct entry e = {.epoch = epoch};
    pst_status st = pst_pipeline_plan(p, reterr);
    if (st == PST_OK)
        st = check_place(p, k, reterr);
    if (st == PST_OK)
        st = take(p->access, p, &r, reterr);
    if (st < 0)
        return st;
    const struct pipeline_plan *plan = p->plan;
    e.where = order_open(&plan->order, &r->order, epoch, split_batch(&plan->split, plan->order.batches, 0, k));
    e.count = (size_t)e.where.size;
    st = batch_pool_take(p->pool, &e.batch, reterr);
    if (st == PST_OK) {
        run_elements(p, r, &e);
        pthread_mutex_lock(&p->judging);
        st = damage_judge(&p->damage, &e, reterr);
        pthread_mutex_unlock(&p->judging);
    }
    give_back(p->access, r);
    damage_list_finish(&e.damage);
    if (st < 0)
        pst_batch_unref(e.batch);
    else
        *ret = e.batch;
    return st;
}
