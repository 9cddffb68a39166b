/* runner.c: runs the compiled program on one element after the other.
 *
 * The loop over steps does no allocation, no locking and no lookup by name: everything was laid out by program.c. Stages are
 * timed on every element where that costs nothing against the work, and on a few where elements take little longer than the timing. */
#include "flow/runner.h"

#include "base/memory.h"
#include "flow/damage_judge.h"
#include "flow/element.h"
#include "flow/element_cache.h"
#include "flow/join_plan.h"
#include "flow/locate.h"
#include "flow/stream_filters.h"
#include "io/mapping.h"

#include <stdio.h>
#include <string.h>

#define FIRST_SCRATCH  ((size_t)64 << 10)
#define CLOCK_NS       40   /* what timing costs, with the work that waits for it */
#define CLOCK_SHARE    1000 /* 1/CLOCK_SHARE of the time may be spent on it */
#define LONGEST_PERIOD 100000u

/* ---- Setting up ---- */

/* The scratch arena does best with a single block that holds whatever an element asks for. */
static void prepare_scratch(struct runner *r)
{
    arena_finish(&r->ctx.scratch);
    (void)arena_alloc(&r->ctx.scratch, r->scratch_size); /* if it fails, operations report it */
    arena_reset(&r->ctx.scratch);
    r->scratch_block = r->ctx.scratch.blocks;
}

/* Whether a program of the tree has a cache. */
static bool has_cache(const struct program *p)
{
    bool found = p->cache != NULL;
    for (size_t b = 0; p->join && b < p->join->count; b++)
        found |= has_cache(p->join->branches[b].program);
    return found;
}

/* Whether elements go from the source into the batch unchanged, and the source wants to know where. */
static bool may_offer(const struct program *p)
{
    if (p->join || p->streamed || p->cache || !p->source_class->offer)
        return false;
    for (size_t i = 0; i < p->count; i++)
        if (p->steps[i].runs)
            return false;
    return true;
}

pst_status runner_init(struct runner *r, const struct program *p, unsigned worker, uint64_t seed, struct cell *cell,
                       pst_error *reterr)
{
    *r = (struct runner){.program = p, .worker = worker, .cell = cell, .period = 1, .scratch_size = FIRST_SCRATCH};
    r->ctx.seed = seed;
    r->offers = may_offer(p);
    arena_init(&r->ctx.scratch);
    prepare_scratch(r);
    return lane_init(&r->root, p, p->layout.capacity, has_cache(p), reterr);
}

void runner_finish(struct runner *r)
{
    if (r->root.program)
        lane_finish(&r->root);
    arena_finish(&r->ctx.scratch);
    *r = (struct runner){0};
}

/* ---- Failing ---- */

/* Follows element `i` to the source that `field` comes from (SOURCE_WHOLE: the first). `*ret_number` becomes its number in the
 * whole tree. */
static const struct lane *find_source(const struct lane *l, size_t *i, size_t *field, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (const struct join *j = l->program->join; j; j = l->program->join) {
        size_t b = l->choice ? l->choice[*i] : 0;
        while (!l->choice && *field != SOURCE_WHOLE && b + 1 < j->count && j->branches[b + 1].first_field <= *field)
            b++;
        const struct program *p = j->branches[b].program;
        number += j->branches[b].first_number;
        if (*field != SOURCE_WHOLE)
            *field = p->origins[*field - j->branches[b].first_field];
        *i = l->place[*i];
        l = &l->branches[b];
    }
    *ret_number = number + l->index[*i];
    return l;
}

/* Number that the elements of lane `l` begin with, in the whole tree. */
static uint64_t first_number(const struct lane *from, const struct lane *l)
{
    const struct join *j = from->program->join;
    for (size_t b = 0; from != l && j && b < j->count; b++) {
        uint64_t inner = first_number(&from->branches[b], l);
        if (inner != PST_NOWHERE)
            return inner + j->branches[b].first_number;
    }
    return from == l ? 0 : PST_NOWHERE;
}

/* An operation of lane `l` (`step` NULL: its source) failed on element `i`. */
static pst_status fail_element(struct runner *r, const struct lane *l, const struct step *step, size_t i,
                               const struct item *item, pst_status st, pst_error *reterr)
{
    if (st > 0) /* no operation on elements has an end */
        st = pst_fail(reterr, PST_EINVAL, "the operation returned %s; expected PST_OK, PST_SKIP or an error",
                      pst_status_name(st));
    if (!reterr->message[0])
        pst_fail(reterr, st, "it failed with %s and did not say why", pst_status_name(st));
    reterr->status = st;
    if (!reterr->op[0])
        program_fit_name(reterr->op, sizeof(reterr->op), step ? step->name : l->program->source_class->op.name);
    size_t field = step ? step->origin : SOURCE_WHOLE;
    uint64_t number, base = first_number(&r->root, l);
    const struct lane *source = find_source(l, &i, &field, &number);
    runner_at(r, base + number);
    locate_error(source->program, field, source->index[i], item, reterr);
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

static pst_status load(struct runner *r, struct lane *l, size_t i, pst_error *reterr)
{
    const struct program *p = l->program;
    pst_tensor *out = l->tensors[0];
    pst_status st = p->source_class->load(p->source, l->source_state, l->index[i], &r->ctx, out, reterr);
    if (__builtin_expect(st != PST_OK, 0))
        return st == PST_SKIP && p->source_class->sets_cause ? st : fail_element(r, l, NULL, i, NULL, st, reterr);
    uint64_t bytes = 0;
    for (size_t k = 0; k < p->need.count; k++) {
        size_t f = p->need.number[k];
        if (__builtin_expect(!tensor_keeps(&p->in.field[f], &out[f]), 0))
            return fail_element(r, l, NULL, i, NULL, tensor_refuse(&p->in.field[f], &out[f], reterr), reterr);
        bytes += loaded_bytes(&out[f]);
    }
    l->fetched_bytes += bytes;
    return PST_OK;
}

static pst_status run_step(struct runner *r, struct lane *l, size_t i, const struct runner_target *to, pst_error *reterr)
{
    const struct step *s = &l->program->steps[i];
    const pst_tensor *in = l->tensors[i];
    pst_tensor *out = l->tensors[i + 1];
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
    for (size_t k = 0; k < s->locals; k++)
        out[s->local[k].field].data = l->workspace + s->local[k].offset;
    for (size_t b = 0; b < s->broughts; b++)
        out[s->brought[b]].data = NULL;
    cell_set(&r->cell->stage, s->stage);
    ctx_enter(&r->ctx, s->ordinal);
    return s->op->run(s->config, l->states[i], &r->ctx, in, out, reterr);
}

/* An operation may be user-defined: its result is compared with its plan. */
static pst_status check_step(struct runner *r, struct lane *l, size_t i, bool is_kept, const struct runner_target *to,
                             pst_error *reterr)
{
    const struct step *s = &l->program->steps[i];
    pst_tensor *out = l->tensors[i + 1];
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
        out[s->bind[b].field].data = slot;
    }
    return PST_OK;
}

static pst_status collate(struct runner *r, const struct runner_target *to, pst_error *reterr)
{
    const struct program *p = r->program;
    const pst_tensor *final = r->root.tensors[p->count];
    for (size_t k = 0; k < p->copied.count; k++) {
        size_t c = p->copied.number[k];
        const struct batch_column *column = &p->layout.column[c];
        if (column->kind == COLUMN_FIXED && column->field.dtype != PST_DTYPE_BYTES) {
            void *slot = batch_slot(to->batch, c, to->at);
            if (final[c].data != slot)
                memcpy(slot, final[c].data, column->bytes);
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

static void lap_end(struct runner *r, unsigned stage)
{
    if (!r->is_timed)
        return;
    uint64_t now = ticks_now();
    r->timed[stage] += ticks_between(r->lap_began, now);
    r->lap_began = now;
}

/* Takes element `i` out of the cache; false: it is not in there. */
static bool find_kept(struct runner *r, struct lane *l, size_t i)
{
    const struct program *p = l->program;
    void *kept = p->cache ? cache_find(p->cache, lane_key(l, i)) : NULL;
    if (!kept || !cache_view(p->cache, lane_key(l, i), kept, program_spec(p, p->cached), program_live(p, p->cached),
                             l->tensors[p->cached], &r->ctx.scratch))
        return false;
    cell_add(&r->cell->cache_hits, 1);
    return true;
}

static void keep(struct runner *r, struct lane *l, size_t i, const struct item *item)
{
    const struct program *p = l->program;
    struct cache_tag tag = item ? (struct cache_tag){item->size, item->place} : (struct cache_tag){0};
    cache_keep(p->cache, r->worker, lane_key(l, i), program_spec(p, p->cached), program_live(p, p->cached),
               l->tensors[p->cached], &tag);
}

static pst_status run_lane(struct runner *r, struct lane *l, size_t i, const struct item *item, const struct runner_target *to, pst_cause *ret_cause, pst_error *reterr);

/* Computes the element in the branches that it comes from, and takes over their fields. */
static pst_status run_branches(struct runner *r, struct lane *l, size_t i, const struct runner_target *to,
                               pst_cause *ret_cause, pst_error *reterr)
{
    const struct program *p = l->program;
    const struct join *j = p->join;
    pst_tensor *out = l->tensors[0];
    for (size_t b = l->choice ? l->choice[i] : 0; b < j->count; b++) {
        struct lane *from = &l->branches[b];
        size_t first = j->branches[b].first_field;
        pst_status st = run_lane(r, from, l->place[i], NULL, to, ret_cause, reterr);
        if (__builtin_expect(st != PST_OK, 0))
            return st;
        const pst_tensor *final = from->tensors[from->program->count];
        const struct field_list *live = program_live(from->program, from->program->count);
        for (size_t k = 0; k < live->count; k++)
            out[first + live->number[k]] = final[live->number[k]];
        if (l->choice)
            break;
    }
    return PST_OK;
}

/* The element as the source or the branches have it. */
static pst_status fetch(struct runner *r, struct lane *l, size_t i, const struct item *item, const struct runner_target *to, pst_cause *ret_cause, pst_error *reterr)
{
    const struct program *p = l->program;
    l->fetched++;
    if (p->join)
        return run_branches(r, l, i, to, ret_cause, reterr);
    if (p->streamed && !item->block) { /* it was to come from a cache on disk, which is damaged */
        *ret_cause = PST_CAUSE_VALUE;
        return pst_fail(reterr, PST_ECORRUPT,
                        "an element in the cache on disk is damaged; remove the cache with `penstock cache DIR --clear`");
    }
    if (p->streamed) {
        element_view(item->block, &p->in, &p->need, l->tensors[0]);
        l->fetched_bytes += item->size;
    } else {
        r->ctx.epoch = l->pass[i];
        r->ctx.sample = l->index[i];
        pst_status st = load(r, l, i, reterr);
        if (st != PST_OK) {
            *ret_cause = p->source_class->sets_cause ? r->ctx.cause : damage_of_load(p->source_class->cause, st);
            return st;
        }
    }
    lap_end(r, 0);
    return PST_OK;
}

/* Fails when the element may have been read from pages that its file has lost (io/mapping.h): after its last use, whatever
 * became of it. A file that has lost pages stays lost, so what the cache took meanwhile never counts either. */
static pst_status check_intact(struct runner *r, const struct lane *l, size_t i, pst_status st, pst_cause *ret_cause,
                               pst_error *reterr)
{
    const struct program *p = l->program;
    for (size_t b = 0; p->join && b < p->join->count; b++)
        if (!l->choice || l->choice[i] == b)
            st = check_intact(r, &l->branches[b], l->place[i], st, ret_cause, reterr);
    if (p->join || p->streamed || !p->source_class->intact)
        return st;
    pst_error lost;
    pst_status intact = p->source_class->intact(p->source, l->index[i], &lost);
    if (intact == PST_OK)
        return st;
    *reterr = lost;
    *ret_cause = PST_CAUSES;
    return fail_element(r, l, NULL, i, NULL, intact, reterr);
}

/* Runs the steps `from` to `until` of a lane, without the latter, on the element whose fields before them are set. `keeps`: they
 * go into the cache. */
static pst_status run_steps(struct runner *r, struct lane *l, size_t i, const struct item *item, size_t from, size_t until,
                            bool keeps, const struct runner_target *to, pst_cause *ret_cause, pst_error *reterr)
{
    const struct program *p = l->program;
    pst_status st = PST_OK;
    for (size_t s = from;; s++) {
        if (keeps && s == p->cached)
            keep(r, l, i, item);
        if (s == until)
            return PST_OK;
        if (p->steps[s].number != STEP_NO_NUMBER)
            r->ctx.number = item ? item->numbers[p->steps[s].number] : l->numbers[p->steps[s].number * l->capacity + i];
        st = run_step(r, l, s, to, reterr);
        if (__builtin_expect(st == PST_SKIP, 0))
            return st;
        if (__builtin_expect(st != PST_OK, 0))
            *ret_cause = damage_of_step(p->steps[s].fused ? r->ctx.cause : p->steps[s].cause, st);
        if (st == PST_OK && p->steps[s].runs)
            st = check_step(r, l, s, keeps && s < p->cached, to, reterr);
        if (__builtin_expect(st != PST_OK, 0))
            return fail_element(r, l, &p->steps[s], i, item, st, reterr);
        if (p->steps[s].runs)
            lap_end(r, p->steps[s].stage);
    }
}

static void identify(struct runner *r, const struct lane *l, size_t i)
{
    r->ctx.epoch = lane_pass(l, i);
    r->ctx.sample = lane_sample(l, i);
    r->ctx.entropy = l->program->entropy;
}

/* Computes the fields of element `i` of the lane before step `until`. */
static pst_status run_lane_until(struct runner *r, struct lane *l, size_t i, const struct item *item, size_t until,
                                 const struct runner_target *to, pst_cause *ret_cause, pst_error *reterr)
{
    bool kept = find_kept(r, l, i);
    l->ran++;
    pst_status st = kept ? PST_OK : fetch(r, l, i, item, to, ret_cause, reterr);
    if (__builtin_expect(st != PST_OK, 0))
        return st;
    identify(r, l, i);
    return run_steps(r, l, i, item, kept ? l->program->cached : 0, until, l->program->cache && !kept, to, ret_cause, reterr);
}

/* Computes the final fields of element `i` of the lane. */
static pst_status run_lane(struct runner *r, struct lane *l, size_t i, const struct item *item, const struct runner_target *to,
                           pst_cause *ret_cause, pst_error *reterr)
{
    return run_lane_until(r, l, i, item, l->program->count, to, ret_cause, reterr);
}

size_t runner_begin(struct runner *r, size_t count)
{
    r->is_timed = CELL_COUNTS && r->until_timed == 0;
    if (r->is_timed) {
        r->until_timed = r->period - 1;
        return 1;
    }
    size_t untimed = r->until_timed < count ? r->until_timed : count;
    r->until_timed -= (unsigned)untimed;
    return untimed;
}

pst_status runner_part(struct runner *r, size_t i, const struct item *item, size_t from, size_t until,
                       const struct runner_target *to, pst_cause *ret_cause, pst_error *reterr)
{
    const struct program *p = r->program;
    runner_at(r, r->root.index[i]);
    *ret_cause = PST_CAUSES;
    if (r->is_timed)
        r->lap_began = ticks_now();
    pst_status st;
    if (from == RUNNER_FETCH) {
        cell_set(&r->cell->stage, 0);
        st = run_lane_until(r, &r->root, i, item, until, to, ret_cause, reterr);
    } else {
        identify(r, &r->root, i);
        st = run_steps(r, &r->root, i, item, from, until, false, to, ret_cause, reterr);
    }
    if (__builtin_expect(st != PST_OK, 0) || until < p->count)
        return st;
    st = collate(r, to, reterr);
    lap_end(r, (unsigned)p->stages - 1);
    return st;
}

pst_status runner_prepare(struct runner *r, size_t i, const struct item *item, size_t s, size_t place, pst_cause *ret_cause,
                          pst_error *reterr)
{
    const struct step *step = &r->program->steps[s];
    cell_set(&r->cell->stage, step->stage);
    ctx_enter(&r->ctx, step->ordinal);
    pst_status st = step->op->prepare(step->config, r->root.states[s], &r->ctx, place, r->root.tensors[s], reterr);
    if (st != PST_OK) {
        *ret_cause = damage_of_step(step->cause, st);
        return fail_element(r, &r->root, step, i, item, st, reterr);
    }
    lap_end(r, step->stage);
    return PST_OK;
}

pst_status runner_end(struct runner *r, size_t i, pst_status st, pst_cause *ret_cause, pst_error *reterr)
{
    release_scratch(r);
    return mapping_any_broken() ? check_intact(r, &r->root, i, st, ret_cause, reterr) : st;
}

pst_status runner_run(struct runner *r, size_t i, const struct item *item, const struct runner_target *to, pst_cause *ret_cause,
                      pst_error *reterr)
{
    pst_status st = runner_part(r, i, item, RUNNER_FETCH, r->program->count, to, ret_cause, reterr);
    return runner_end(r, i, st, ret_cause, reterr);
}

static void *take_room(void *memory, size_t size)
{
    return batch_memory_alloc(memory, size, 1);
}

void runner_slice(struct runner *r, size_t count, struct batch_memory *memory)
{
    if (r->offers) {
        r->room = (struct source_room){take_room, memory};
        r->program->source_class->offer(r->root.source_state, &r->room);
    }
    lane_slice(&r->root, count);
}

/* Only elements that were not in the cache went through the steps before it. */
static void count_lane(struct runner *r, struct lane *l)
{
    const struct program *p = l->program;
    for (size_t b = 0; p->join && b < p->join->count; b++)
        count_lane(r, &l->branches[b]);
    if (l->ran == 0)
        return;
    cell_add(&r->cell->read_bytes, l->fetched_bytes);
    if (!p->join)
        cell_add(&r->cell->stages[0].calls, l->fetched);
    for (size_t i = 0; i < p->count; i++) {
        uint64_t calls = p->cache && i < p->cached ? l->fetched : l->ran;
        if (!p->steps[i].runs)
            continue;
        cell_add(&r->cell->stages[p->steps[i].stage].calls, calls);
        cell_add(&r->cell->stages[p->steps[i].stage].bytes, calls * p->steps[i].out_bytes);
    }
    l->ran = l->fetched = l->fetched_bytes = 0;
}

static void count_calls(struct runner *r, size_t count)
{
    cell_add(&r->cell->samples, count);
    cell_add(&r->cell->stages[r->program->stages - 1].calls, count);
    count_lane(r, &r->root);
}

/* The shares come from the elements that were timed, the sum from the whole slice. */
void runner_account(struct runner *r, size_t count, uint64_t ns)
{
    const struct program *p = r->program;
    uint64_t sum = 0;
    count_calls(r, count);
    for (size_t s = 0; s < p->stages; s++)
        sum += r->timed[s];
    r->untold_ns += ns;
    if (sum > 0) {
        for (size_t s = 0; s < p->stages; s++) {
            cell_add(&r->cell->stages[s].ns, (uint64_t)((double)r->untold_ns * (double)r->timed[s] / (double)sum));
            r->timed[s] = 0;
        }
        r->untold_ns = 0;
    }
    uint64_t element = count ? ns / count + 1 : 1;
    uint64_t period = (p->stages + 1) * CLOCK_NS * CLOCK_SHARE / element;
    r->period = period < 1 ? 1 : period > LONGEST_PERIOD ? LONGEST_PERIOD : (unsigned)period;
    if (r->until_timed >= r->period)
        r->until_timed = r->period - 1;
}
