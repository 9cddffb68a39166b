/* lane.c: sets up lanes, and resolves slices: from positions at the root of the tree to numbers in the sources. */
#include "flow/lane.h"

#include "base/error.h"
#include "base/memory.h"
#include "flow/element.h"
#include "flow/element_cache.h"
#include "flow/join_plan.h"

#include <stdio.h>
#include <string.h>

/* ---- Setting up ---- */

static bool layout_tensors(struct lane *l)
{
    const struct program *p = l->program;
    size_t total = 0;
    for (size_t i = 0; i <= p->count; i++)
        total += program_spec(p, i)->count;
    l->tensors = mem_array(p->count + 1, sizeof(*l->tensors));
    l->all_tensors = mem_array(total, sizeof(*l->all_tensors));
    l->states = mem_array(p->count, sizeof(*l->states));
    l->workspace = mem_aligned(p->workspace);
    if (!l->tensors || !l->all_tensors || !l->states || !l->workspace)
        return false;
    pst_tensor *next = l->all_tensors;
    for (size_t i = 0; i <= p->count; i++) {
        const pst_spec *spec = program_spec(p, i);
        l->tensors[i] = next;
        for (size_t f = 0; f < spec->count; f++)
            *next++ = field_tensor(&spec->field[f]);
    }
    return true;
}

static bool layout_slice(struct lane *l, bool caches)
{
    const struct join *j = l->program->join;
    size_t n = l->capacity;
    l->index = mem_array(n, sizeof(*l->index));
    l->pass = mem_array(n, sizeof(*l->pass));
    l->numbers = mem_array(l->program->numbers * n, sizeof(*l->numbers));
    if (caches) {
        l->kept = mem_array(n, sizeof(*l->kept));
        l->ahead = mem_array(n, sizeof(*l->ahead));
    }
    if (!l->index || !l->pass || !l->numbers || (caches && (!l->kept || !l->ahead)))
        return false;
    if (!j)
        return true;
    l->memo = mem_zalloc(j->facet->memo_size);
    l->choice = j->facet->together ? NULL : mem_array(n, sizeof(*l->choice));
    l->place = mem_array(n, sizeof(*l->place));
    l->at = mem_array(n, sizeof(*l->at));
    l->filled = mem_array(j->count, sizeof(*l->filled));
    l->branches = mem_array(j->count, sizeof(*l->branches));
    l->orders = mem_array(j->count, sizeof(*l->orders));
    return l->memo && (j->facet->together || l->choice) && l->place && l->at && l->filled && l->branches && l->orders;
}

static pst_status start_step(struct lane *l, size_t i, pst_error *reterr)
{
    const struct step *s = &l->program->steps[i];
    if (!s->runs)
        return PST_OK;
    l->states[i] = mem_zalloc(s->op->worker_size);
    if (!l->states[i])
        return pst_fail(reterr, PST_ENOMEM, "%s: out of memory for a worker's state", s->op->name);
    pst_status st = s->op->start ? s->op->start(s->config, l->states[i], reterr) : PST_OK;
    if (st < 0 && reterr && !reterr->op[0])
        snprintf(reterr->op, sizeof(reterr->op), "%s", s->op->name);
    return st;
}

static pst_status start_source(struct lane *l, pst_error *reterr)
{
    const struct program *p = l->program;
    l->source_state = mem_zalloc(p->source_class->worker_size);
    if (!l->source_state)
        return pst_fail(reterr, PST_ENOMEM, "%s: out of memory for a worker's state", p->source_class->op.name);
    l->source_started = !p->streamed;
    return l->source_started && p->source_class->worker_start
               ? p->source_class->worker_start(p->source, l->source_state, reterr)
               : PST_OK;
}

static pst_status start_branches(struct lane *l, bool caches, pst_error *reterr)
{
    const struct join *j = l->program->join;
    pst_status st = PST_OK;
    for (size_t b = 0; j && b < j->count && st == PST_OK; b++) {
        st = order_state_init(&l->orders[b], j->branches[b].order, reterr);
        if (st == PST_OK)
            st = lane_init(&l->branches[b], j->branches[b].program, l->capacity, caches, reterr);
        l->orders[b].numbers = (struct order_numbers){l->branches[b].numbers, l->capacity};
    }
    return st;
}

pst_status lane_init(struct lane *l, const struct program *p, size_t capacity, bool caches, pst_error *reterr)
{
    *l = (struct lane){.program = p, .capacity = capacity};
    if (!layout_tensors(l) || !layout_slice(l, caches))
        return pst_fail(reterr, PST_ENOMEM, "starting a worker: out of memory for %zu bytes", p->workspace);
    pst_status st = start_branches(l, caches, reterr);
    if (st == PST_OK)
        st = start_source(l, reterr);
    for (size_t i = 0; i < p->count && st == PST_OK; i++) {
        l->started = i + 1;
        st = start_step(l, i, reterr);
    }
    return st;
}

void lane_finish(struct lane *l)
{
    const struct program *p = l->program;
    for (size_t i = 0; i < l->started; i++) {
        if (l->states[i] && p->steps[i].op->stop)
            p->steps[i].op->stop(p->steps[i].config, l->states[i]);
        mem_free(l->states[i]);
    }
    if (l->source_started && p->source_class->worker_stop)
        p->source_class->worker_stop(p->source, l->source_state);
    for (size_t b = 0; l->branches && l->orders && b < p->join->count; b++) {
        lane_finish(&l->branches[b]);
        order_state_finish(&l->orders[b]);
    }
    void *owned[] = {l->source_state, l->states, l->workspace, l->all_tensors, l->tensors,  l->index, l->pass,  l->numbers,
                     l->kept,         l->ahead,  l->branches,  l->orders,      l->memo,     l->choice, l->place, l->at,
                     l->filled};
    for (size_t i = 0; i < sizeof(owned) / sizeof(*owned); i++)
        mem_free(owned[i]);
    *l = (struct lane){0};
}

/* ---- Elements ---- */

/* The lane that element `i` comes from, or the first of them; its place there. */
static const struct lane *first_branch(const struct lane *l, size_t i, size_t *ret_branch)
{
    *ret_branch = l->choice ? l->choice[i] : 0;
    return &l->branches[*ret_branch];
}

uint64_t lane_sample(const struct lane *l, size_t i)
{
    const struct join *j = l->program->join;
    uint64_t base = 0;
    size_t branch;
    while (j) {
        const struct lane *next = first_branch(l, i, &branch);
        base += j->branches[branch].first_number;
        i = l->place[i];
        l = next;
        j = l->program->join;
    }
    return base + l->index[i];
}

uint64_t lane_pass(const struct lane *l, size_t i)
{
    size_t branch;
    while (l->program->join) {
        const struct lane *next = first_branch(l, i, &branch);
        i = l->place[i];
        l = next;
    }
    return l->pass[i];
}

uint64_t lane_key(const struct lane *l, size_t i)
{
    return l->program->join && !l->program->join->has_together ? lane_sample(l, i) : l->index[i];
}

/* ---- Slices ---- */

static void resolve(struct lane *l, size_t n);

static void give(struct lane *l, size_t branch, size_t i, uint64_t at)
{
    struct lane *to = &l->branches[branch];
    size_t place = l->filled[branch]++;
    to->index[place] = at;
    to->pass[place] = l->pass[i];
    l->place[i] = (uint32_t)place;
}

static void resolve(struct lane *l, size_t n)
{
    const struct join *j = l->program->join;
    if (!j)
        return;
    memset(l->filled, 0, j->count * sizeof(*l->filled));
    if (l->choice)
        j->facet->map(j->schedule, l->memo, n, l->index, l->choice, l->at);
    for (size_t i = 0; i < n; i++) {
        if (l->choice)
            give(l, l->choice[i], i, l->at[i]);
        else
            for (size_t b = 0; b < j->count; b++)
                give(l, b, i, l->index[i]);
    }
    for (size_t b = 0; b < j->count; b++) {
        if (l->filled[b] == 0)
            continue;
        order_back(j->branches[b].order, &l->orders[b], l->filled[b], l->branches[b].index, l->branches[b].pass);
        resolve(&l->branches[b], l->filled[b]);
    }
}

/* Marks the elements that a cache above or in this lane holds. */
static void mark_kept(struct lane *l, size_t n)
{
    const struct program *p = l->program;
    for (size_t i = 0; p->cache && i < n; i++)
        l->kept[i] |= cache_find(p->cache, lane_key(l, i)) != NULL;
    for (size_t b = 0; p->join && b < p->join->count; b++) {
        struct lane *to = &l->branches[b];
        for (size_t i = 0; i < n; i++)
            if (!l->choice || l->choice[i] == b)
                to->kept[l->place[i]] = l->kept[i];
        mark_kept(to, l->filled[b]);
    }
}

static void announce(struct lane *l, size_t n)
{
    const struct program *p = l->program;
    for (size_t b = 0; p->join && b < p->join->count; b++)
        announce(&l->branches[b], l->filled[b]);
    if (p->join || p->streamed || !p->source_class->ahead)
        return;
    size_t count = 0;
    for (size_t i = 0; l->kept && i < n; i++)
        if (!l->kept[i])
            l->ahead[count++] = l->index[i];
    count = l->kept ? count : n;
    if (count > 0)
        p->source_class->ahead(p->source, l->source_state, l->kept ? l->ahead : l->index, count);
}

void lane_slice(struct lane *l, size_t n)
{
    resolve(l, n);
    if (l->kept) {
        memset(l->kept, 0, n);
        mark_kept(l, n);
    }
    announce(l, n);
}
