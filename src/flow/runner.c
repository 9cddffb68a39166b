/* runner.c: runs the compiled program on one element after the other.
 *
 * The loop over steps does no allocation, no locking and no lookup by name: everything was laid out by program.c. Stages are
 * timed on every element where that costs nothing against the work, and on a few where elements take less than the clock. */
#include "flow/runner.h"

#include "base/clock.h"
#include "base/memory.h"
#include "flow/cache.h"
#include "flow/damage.h"
#include "flow/element.h"
#include "flow/locate.h"
#include "flow/stream_filters.h"
#include "io/mapping.h"

#include <stdio.h>
#include <string.h>

#define FIRST_SCRATCH  ((size_t)64 << 10)
#define CLOCK_NS       25  /* what reading the clock costs */
#define CLOCK_SHARE    100 /* 1/CLOCK_SHARE of the time may be spent on it */
#define LONGEST_PERIOD 100000u

/* ---- Setting up ---- */

static bool layout_tensors(struct runner *r)
{
    const struct program *p = r->program;
    size_t total = 0;
    for (size_t i = 0; i <= p->count; i++)
        total += program_spec(p, i)->count;
    r->tensors = mem_array(p->count + 1, sizeof(*r->tensors));
    r->all_tensors = mem_array(total, sizeof(*r->all_tensors));
    r->states = mem_array(p->count, sizeof(*r->states));
    r->workspace = mem_aligned(p->workspace);
    if (!r->tensors || !r->all_tensors || !r->states || !r->workspace)
        return false;
    pst_tensor *next = r->all_tensors;
    for (size_t i = 0; i <= p->count; i++) {
        const pst_spec *spec = program_spec(p, i);
        r->tensors[i] = next;
        for (size_t f = 0; f < spec->count; f++)
            *next++ = field_tensor(&spec->field[f]);
    }
    return true;
}

static pst_status start_step(struct runner *r, size_t i, pst_error *reterr)
{
    const struct step *s = &r->program->steps[i];
    if (!s->runs)
        return PST_OK;
    r->states[i] = mem_zalloc(s->op->worker_size);
    if (!r->states[i])
        return pst_fail(reterr, PST_ENOMEM, "%s: out of memory for a worker's state", s->op->name);
    pst_status st = s->op->start ? s->op->start(s->config, r->states[i], reterr) : PST_OK;
    if (st < 0 && reterr && !reterr->op[0])
        snprintf(reterr->op, sizeof(reterr->op), "%s", s->op->name);
    return st;
}

static pst_status start_source(struct runner *r, pst_error *reterr)
{
    const struct program *p = r->program;
    r->source_state = mem_zalloc(p->source_class->worker_size);
    if (!r->source_state)
        return pst_fail(reterr, PST_ENOMEM, "%s: out of memory for a worker's state", p->source_class->op.name);
    r->source_started = !p->streamed;
    return r->source_started && p->source_class->worker_start
               ? p->source_class->worker_start(p->source, r->source_state, reterr)
               : PST_OK;
}

/* The scratch arena does best with a single block that holds whatever an element asks for. */
static void prepare_scratch(struct runner *r)
{
    arena_finish(&r->ctx.scratch);
    (void)arena_alloc(&r->ctx.scratch, r->scratch_size); /* if it fails, operations report it */
    arena_reset(&r->ctx.scratch);
    r->scratch_block = r->ctx.scratch.blocks;
}

pst_status runner_init(struct runner *r, const struct program *p, unsigned worker, uint64_t seed, struct cell *cell,
                       pst_error *reterr)
{
    *r = (struct runner){.program = p, .worker = worker, .cell = cell, .period = 1, .scratch_size = FIRST_SCRATCH};
    r->ctx.seed = seed;
    r->ctx.entropy = p->entropy;
    arena_init(&r->ctx.scratch);
    if (!layout_tensors(r))
        return pst_fail(reterr, PST_ENOMEM, "starting a worker: out of memory for %zu bytes", p->workspace);
    prepare_scratch(r);
    pst_status st = start_source(r, reterr);
    for (size_t i = 0; i < p->count && st == PST_OK; i++) {
        r->started = i + 1;
        st = start_step(r, i, reterr);
    }
    return st;
}

void runner_finish(struct runner *r)
{
    const struct program *p = r->program;
    for (size_t i = 0; i < r->started; i++) {
        if (r->states[i] && p->steps[i].op->stop)
            p->steps[i].op->stop(p->steps[i].config, r->states[i]);
        mem_free(r->states[i]);
    }
    if (r->source_started && p->source_class->worker_stop)
        p->source_class->worker_stop(p->source, r->source_state);
    mem_free(r->source_state);
    mem_free(r->states);
    mem_free(r->workspace);
    mem_free(r->all_tensors);
    mem_free(r->tensors);
    arena_finish(&r->ctx.scratch);
    *r = (struct runner){0};
}

/* ---- Failing ---- */

/* An operation (`step` NULL: the source) failed on an element. */
static pst_status fail_element(const struct program *p, const struct step *step, uint64_t index, const struct item *item,
                               pst_status st, pst_error *reterr)
{
    if (st > 0) /* no operation on elements has an end */
        st = pst_fail(reterr, PST_EINVAL, "the operation returned %s; expected PST_OK, PST_SKIP or an error",
                      pst_status_name(st));
    if (!reterr->message[0])
        pst_fail(reterr, st, "it failed with %s and did not say why", pst_status_name(st));
    reterr->status = st;
    if (!reterr->op[0])
        program_fit_name(reterr->op, sizeof(reterr->op), step ? step->name : p->source_class->op.name);
    locate_error(p, step ? step->origin : SOURCE_WHOLE, index, item, reterr);
    return st;
}

static pst_status fail_random(pst_error *reterr)
{
    return pst_fail(
        reterr, PST_EINVAL,
        "the operation draws random numbers, its class does not say so (PST_OP_RANDOM), and the cache after it would repeat "
        "its first result in every epoch; put cache before it");
}

/* ---- Running ---- */

/* Returns the bytes that were read; the usual case, a record, without a call. */
static inline uint64_t loaded_bytes(const pst_tensor *t)
{
    return t->dtype == PST_DTYPE_BYTES && t->rank == 0 ? ((const pst_bytes *)t->data)->length : tensor_bytes(t);
}

static pst_status load(struct runner *r, uint64_t index, pst_error *reterr)
{
    const struct program *p = r->program;
    pst_tensor *out = r->tensors[0];
    pst_status st = p->source_class->load(p->source, r->source_state, index, &r->ctx, out, reterr);
    if (__builtin_expect(st != PST_OK, 0))
        return fail_element(p, NULL, index, NULL, st, reterr);
    uint64_t bytes = 0;
    for (size_t k = 0; k < p->need.count; k++) {
        size_t f = p->need.number[k];
        if (__builtin_expect(!tensor_keeps(&p->in.field[f], &out[f]), 0))
            return fail_element(p, NULL, index, NULL, tensor_refuse(&p->in.field[f], &out[f], reterr), reterr);
        bytes += loaded_bytes(&out[f]);
    }
    r->fetched++;
    r->fetched_bytes += bytes;
    return PST_OK;
}

static pst_status run_step(struct runner *r, size_t i, const struct runner_target *to, pst_error *reterr)
{
    const struct step *s = &r->program->steps[i];
    const pst_tensor *in = r->tensors[i];
    pst_tensor *out = r->tensors[i + 1];
    for (size_t m = 0; m < s->moves; m++) {
        if (s->move[m].whole)
            out[s->move[m].to] = in[s->move[m].from];
        else
            out[s->move[m].to].data = in[s->move[m].from].data;
    }
    if (!s->runs)
        return PST_OK;
    for (size_t b = 0; b < s->binds; b++)
        out[s->bind[b].field].data = batch_slot(to->batch, s->bind[b].column, to->at);
    for (size_t l = 0; l < s->locals; l++)
        out[s->local[l].field].data = r->workspace + s->local[l].offset;
    for (size_t b = 0; b < s->broughts; b++)
        out[s->brought[b]].data = NULL;
    atomic_store_explicit(&r->cell->stage, s->stage, memory_order_relaxed);
    ctx_enter(&r->ctx, s->ordinal);
    return s->op->run(s->config, r->states[i], &r->ctx, in, out, reterr);
}

/* An operation may be user-defined: its result is compared with its plan. */
static pst_status check_step(struct runner *r, size_t i, bool is_kept, const struct runner_target *to, pst_error *reterr)
{
    const struct step *s = &r->program->steps[i];
    pst_tensor *out = r->tensors[i + 1];
    if (is_kept && r->ctx.random.counter > 0)
        return fail_random(reterr);
    for (size_t k = 0; k < s->filled.count; k++) {
        size_t f = s->filled.number[k];
        if (__builtin_expect(!tensor_keeps(&s->out.field[f], &out[f]), 0))
            return tensor_refuse(&s->out.field[f], &out[f], reterr);
    }
    for (size_t b = 0; b < s->binds; b++) { /* an operation may have preferred to point elsewhere */
        void *slot = batch_slot(to->batch, s->bind[b].column, to->at);
        if (out[s->bind[b].field].data != slot)
            memcpy(slot, out[s->bind[b].field].data, r->program->layout.column[s->bind[b].column].bytes);
    }
    return PST_OK;
}

static pst_status collate(struct runner *r, const struct runner_target *to, pst_error *reterr)
{
    const struct program *p = r->program;
    const pst_tensor *final = r->tensors[p->count];
    for (size_t k = 0; k < p->copied.count; k++) {
        size_t c = p->copied.number[k];
        const struct batch_column *column = &p->layout.column[c];
        if (column->kind == COLUMN_FIXED && column->field.dtype != PST_DTYPE_BYTES) {
            memcpy(batch_slot(to->batch, c, to->at), final[c].data, column->bytes);
            continue;
        }
        pst_status st = batch_put(to->batch, to->slice, c, to->at, &final[c], reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

static void release_scratch(struct runner *r)
{
    struct arena *a = &r->ctx.scratch;
    if (a->blocks != r->scratch_block) { /* it took more than one block: one that is twice as large will do */
        r->scratch_size *= 2;
        prepare_scratch(r);
    } else if (a->used) {
        arena_reset(a);
    }
}

struct lap {
    bool on;
    uint64_t last;
};

static void lap_end(struct runner *r, struct lap *l, unsigned stage)
{
    if (!l->on)
        return;
    uint64_t now = clock_ns();
    r->timed_ns[stage] += now - l->last;
    l->last = now;
}

/* Takes the element out of the cache; false: it is not in there. */
static bool find_kept(struct runner *r, uint64_t index)
{
    const struct program *p = r->program;
    void *kept = p->cache ? cache_find(p->cache, index) : NULL;
    if (!kept)
        return false;
    element_view(kept, program_spec(p, p->cached), program_live(p, p->cached), r->tensors[p->cached]);
    cell_add(&r->cell->cache_hits, 1);
    return true;
}

static void keep(struct runner *r, uint64_t index, const struct item *item)
{
    const struct program *p = r->program;
    struct cache_tag tag = item ? (struct cache_tag){item->size, item->place} : (struct cache_tag){0};
    cache_keep(p->cache, r->worker, index, program_spec(p, p->cached), program_live(p, p->cached), r->tensors[p->cached], &tag);
}

/* The element as the source has it. */
static pst_status fetch(struct runner *r, uint64_t index, const struct item *item, pst_error *reterr)
{
    const struct program *p = r->program;
    if (!p->streamed)
        return load(r, index, reterr);
    element_view(item->block, &p->in, &p->need, r->tensors[0]);
    r->fetched++;
    r->fetched_bytes += item->size;
    return PST_OK;
}

/* Fails when the element may have been read from pages that its file has lost (io/mapping.h): after its last use, whatever
 * became of it. A file that has lost pages stays lost, so what the cache took meanwhile never counts either. */
static pst_status check_intact(struct runner *r, uint64_t index, pst_status st, pst_cause *ret_cause, pst_error *reterr)
{
    const struct program *p = r->program;
    if (p->streamed || !p->source_class->intact)
        return st;
    pst_error lost;
    pst_status intact = p->source_class->intact(p->source, index, &lost);
    if (intact == PST_OK)
        return st;
    *reterr = lost;
    *ret_cause = PST_CAUSES;
    return fail_element(p, NULL, index, NULL, intact, reterr);
}

static pst_status run_element(struct runner *r, uint64_t index, const struct item *item, const struct runner_target *to,
                              struct lap *lap, pst_cause *ret_cause, pst_error *reterr)
{
    const struct program *p = r->program;
    bool kept = find_kept(r, index), keeps = p->cache && !kept;
    pst_status st = kept ? PST_OK : fetch(r, index, item, reterr);
    *ret_cause = PST_CAUSES;
    if (st < 0) {
        *ret_cause = damage_of_load(p->source_class->cause, st);
        return st;
    }
    lap_end(r, lap, 0);
    for (size_t i = kept ? p->cached : 0;; i++) {
        if (keeps && i == p->cached)
            keep(r, index, item);
        if (i == p->count)
            break;
        st = run_step(r, i, to, reterr);
        if (__builtin_expect(st == PST_SKIP, 0))
            return st;
        if (__builtin_expect(st != PST_OK, 0))
            *ret_cause = damage_of_step(p->steps[i].fused ? r->ctx.cause : p->steps[i].cause, st);
        if (st == PST_OK && p->steps[i].runs)
            st = check_step(r, i, keeps && i < p->cached, to, reterr);
        if (__builtin_expect(st != PST_OK, 0))
            return fail_element(p, &p->steps[i], index, item, st, reterr);
        if (p->steps[i].runs)
            lap_end(r, lap, p->steps[i].stage);
    }
    st = collate(r, to, reterr);
    lap_end(r, lap, (unsigned)p->stages - 1);
    return st;
}

pst_status runner_run(struct runner *r, uint64_t index, uint64_t pass, const struct item *item, const struct runner_target *to,
                      pst_cause *ret_cause, pst_error *reterr)
{
    struct lap lap = {.on = r->until_timed == 0};
    if (lap.on) {
        lap.last = clock_ns();
        r->until_timed = r->period;
    }
    r->until_timed--;
    r->ctx.epoch = pass;
    r->ctx.sample = index;
    atomic_store_explicit(&r->cell->sample, index, memory_order_relaxed);
    atomic_store_explicit(&r->cell->stage, 0, memory_order_relaxed);
    pst_status st = run_element(r, index, item, to, &lap, ret_cause, reterr);
    release_scratch(r);
    return mapping_any_broken() ? check_intact(r, index, st, ret_cause, reterr) : st;
}

void runner_ahead(struct runner *r, uint64_t *index, size_t count)
{
    const struct program *p = r->program;
    if (p->source_class->ahead && !p->streamed && count > 0)
        p->source_class->ahead(p->source, r->source_state, index, count);
}

/* Only elements that were not in the cache went through the steps before it. */
static void count_calls(struct runner *r, size_t count)
{
    const struct program *p = r->program;
    cell_add(&r->cell->samples, count);
    cell_add(&r->cell->read_bytes, r->fetched_bytes);
    cell_add(&r->cell->stages[0].calls, r->fetched);
    cell_add(&r->cell->stages[p->stages - 1].calls, count);
    for (size_t i = 0; i < p->count; i++) {
        uint64_t calls = p->cache && i < p->cached ? r->fetched : count;
        if (!p->steps[i].runs)
            continue;
        cell_add(&r->cell->stages[p->steps[i].stage].calls, calls);
        cell_add(&r->cell->stages[p->steps[i].stage].bytes, calls * p->steps[i].out_bytes);
    }
    r->fetched = r->fetched_bytes = 0;
}

/* The shares come from the elements that were timed, the sum from the whole slice. */
void runner_account(struct runner *r, size_t count, uint64_t ns)
{
    const struct program *p = r->program;
    uint64_t timed = 0;
    count_calls(r, count);
    for (size_t s = 0; s < p->stages; s++)
        timed += r->timed_ns[s];
    r->untold_ns += ns;
    if (timed > 0) {
        for (size_t s = 0; s < p->stages; s++) {
            cell_add(&r->cell->stages[s].ns, (uint64_t)((double)r->untold_ns * (double)r->timed_ns[s] / (double)timed));
            r->timed_ns[s] = 0;
        }
        r->untold_ns = 0;
    }
    uint64_t element = count ? ns / count + 1 : 1;
    uint64_t period = (p->stages + 1) * CLOCK_NS * CLOCK_SHARE / element;
    r->period = period < 1 ? 1 : period > LONGEST_PERIOD ? LONGEST_PERIOD : (unsigned)period;
    if (r->until_timed >= r->period)
        r->until_timed = r->period - 1;
}
