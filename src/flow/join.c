/* join.c: the branches of a join, planned and checked against each other, and the join as a source. */
#include "flow/join_plan.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "flow/element.h"
#include "flow/evaluate_elements.h"
#include "flow/plan.h"
#include "io/walk.h"
#include "ops/fields.h"
#include "ops/spec_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct join *join_destroy(struct join *j)
{
    if (!j)
        return NULL;
    for (size_t b = 0; j->branches && b < j->count; b++)
        pipeline_plan_destroy(j->branches[b].plan);
    if (j->facet->destroy)
        j->facet->destroy(j->schedule);
    mem_free(j->branches);
    join_files_finish(&j->files);
    mem_free(j);
    return NULL;
}

/* ---- Fields ---- */

static const pst_spec *fields_of(const struct join_branch *b)
{
    return program_spec(b->program, b->program->count);
}

static pst_status fail_twice(const struct join *j, size_t branch, size_t other, const char *name, pst_error *reterr)
{
    return pst_fail(reterr, PST_EINVAL,
                    "branches %zu and %zu of %s both have a field %.40s; add `rename %.40s NAME` or `drop %.40s` to one of them",
                    other + 1, branch + 1, j->op->name, name, name, name);
}

/* The fields of all branches, side by side. */
static pst_status spec_together(struct join *j, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t b = 0; b < j->count && st == PST_OK; b++) {
        const pst_spec *spec = fields_of(&j->branches[b]);
        j->branches[b].first_field = j->spec.count;
        for (size_t f = 0; f < spec->count && st == PST_OK; f++) {
            pst_field field = spec->field[f];
            field.alias = -1;
            for (size_t other = 0; other < b; other++)
                if (pst_spec_find(fields_of(&j->branches[other]), field.name) >= 0)
                    return fail_twice(j, b, other, field.name, reterr);
            st = pst_spec_add(&j->spec, &field, reterr);
        }
    }
    return st;
}

/* "label: int64" */
static const char *field_text(const pst_field *f, char *buffer, size_t size)
{
    pst_spec one = {.count = 1, .field = f};
    return pst_spec_text(&one, buffer, size);
}

static pst_status fail_unlike(const struct join *j, size_t branch, size_t f, pst_error *reterr)
{
    const pst_spec *first = fields_of(&j->branches[0]), *other = fields_of(&j->branches[branch]);
    char a[96] = "nothing more", b[96] = "nothing more";
    if (f < first->count)
        field_text(&first->field[f], a, sizeof(a));
    if (f < other->count)
        field_text(&other->field[f], b, sizeof(b));
    return pst_fail(reterr, PST_ETYPE,
                    "the branches of %s must have the same fields; the first has %s, branch %zu has %s there; try select, "
                    "rename or cast",
                    j->op->name, a, branch + 1, b);
}

/* Returns field `f` of all branches: dimensions in which they differ vary. False: they are not alike. */
static bool merge_field(pst_field *to, const pst_field *f)
{
    if (strcmp(to->name, f->name) != 0 || to->dtype != f->dtype || to->rank != f->rank)
        return false;
    for (uint32_t d = 0; d < f->rank; d++)
        if (to->shape[d] != f->shape[d])
            to->shape[d] = PST_ANY;
    return true;
}

/* The fields that all branches have alike. */
static pst_status spec_alike(struct join *j, pst_error *reterr)
{
    const pst_spec *first = fields_of(&j->branches[0]);
    for (size_t b = 1; b < j->count; b++)
        for (size_t f = 0; f < first->count || f < fields_of(&j->branches[b])->count; f++)
            if (f >= first->count || f >= fields_of(&j->branches[b])->count)
                return fail_unlike(j, b, f, reterr);
    pst_status st = PST_OK;
    for (size_t f = 0; f < first->count && st == PST_OK; f++) {
        pst_field field = first->field[f];
        field.alias = -1;
        for (size_t b = 1; b < j->count; b++)
            if (!merge_field(&field, &fields_of(&j->branches[b])->field[f]))
                return fail_unlike(j, b, f, reterr);
        st = pst_spec_add(&j->spec, &field, reterr);
    }
    return st;
}

/* ---- Planning ---- */

static pst_status plan_schedule(struct join *j, const struct node *n, const struct join_env *env, pst_error *reterr)
{
    uint64_t *lengths = mem_array(j->count, sizeof(*lengths));
    pst_status st = lengths ? PST_OK : fail_memory(reterr, "planning");
    for (size_t b = 0; lengths && b < j->count; b++)
        lengths[b] = j->branches[b].order->batches == ORDER_ENDLESS ? JOIN_ENDLESS : j->branches[b].order->batches;
    if (st == PST_OK)
        st = j->facet->create(n->config, env, lengths, j->count, &j->schedule, &j->length, reterr);
    mem_free(lengths);
    return st;
}

/* Adds what a planned branch brings to the whole. */
static pst_status take_branch(struct join *j, struct join_branch *b, pst_error *reterr)
{
    const struct join *inner = b->plan->join;
    b->order = &b->plan->order;
    b->program = &b->plan->program;
    b->first_number = j->numbers;
    uint64_t numbers = inner ? inner->numbers : b->order->source;
    if (__builtin_add_overflow(j->numbers, numbers, &j->numbers) || j->numbers > INT64_MAX)
        return pst_fail(reterr, PST_EINVAL, "the sources of the branches together have too many elements to number");
    j->fixed &= plan_is_fixed(b->plan);
    j->has_together |= inner && inner->has_together;
    j->gaps += b->plan->gaps;
    return PST_OK;
}

/* The chains of the branches: those of the node, without the one that chooses, or one per file. */
static pst_status find_branches(struct join *j, struct node *n, struct chain **ret, size_t *ret_count, pst_error *reterr)
{
    const char *files = j->facet->files ? j->facet->files(n->config) : NULL;
    bool chooses = j->facet->index_field && j->facet->index_field(n->config);
    *ret = n->branches + chooses;
    *ret_count = n->branch_count - chooses;
    if (!files)
        return PST_OK;
    pst_status st = join_files(&j->files, n, files, reterr);
    *ret = j->files.chains;
    *ret_count = j->files.count;
    return st;
}

static pst_status plan_branches(struct pipeline_plan *p, struct chain *chains, size_t count, const struct plan_env *env,
                                pst_error *reterr)
{
    struct join *j = p->join;
    j->branches = mem_array(count, sizeof(*j->branches));
    pst_status st = j->branches ? spec_init(&j->spec, &p->memory, 0, reterr) : fail_memory(reterr, "planning");
    for (size_t b = 0; b < count && st == PST_OK; b++) {
        j->count++;
        st = branch_plan_create(&j->branches[b].plan, &chains[b], p, count, env, reterr);
        if (st == PST_OK)
            st = plan_point(p->chain, 0, take_branch(j, &j->branches[b], reterr), reterr);
    }
    return st;
}

pst_status plan_join(struct pipeline_plan *p, const struct plan_env *env, pst_error *reterr)
{
    struct node *n = &p->chain->nodes[0];
    struct join *j = mem_zalloc(sizeof(*j));
    struct chain *chains;
    size_t count;
    uint64_t *choices = NULL;
    if (!j)
        return fail_memory(reterr, "planning");
    p->join = j;
    p->source_class = &join_source;
    p->source = j;
    j->op = n->op;
    j->facet = chain_join(p->chain);
    j->fixed = true;
    j->has_together = j->facet->together;
    pst_status st = plan_point(p->chain, 0, find_branches(j, n, &chains, &count, reterr), reterr);
    if (st == PST_OK)
        st = plan_branches(p, chains, count, env, reterr);
    if (st < 0)
        return st;
    st = j->facet->together ? spec_together(j, reterr) : spec_alike(j, reterr);
    struct join_env schedule = {.seed = env->options->seed};
    const char *field = j->facet->index_field ? j->facet->index_field(n->config) : NULL;
    if (st == PST_OK && field)
        st = evaluate_field(&choices, &schedule.choice_count, &n->branches[0], field, p->ram / 2, env, reterr);
    schedule.choices = choices;
    if (st == PST_OK)
        st = plan_schedule(j, n, &schedule, reterr);
    j->choices = hash_bytes(choices, choices ? schedule.choice_count * sizeof(*choices) : 0, 0);
    mem_free(choices);
    p->gaps = j->gaps;
    return plan_point(p->chain, 0, st, reterr);
}

/* ---- As a source ---- */

static void join_close(void *source)
{
    join_destroy(source);
}

static void join_spec(const void *source, pst_spec *ret)
{
    *ret = ((const struct join *)source)->spec;
    ret->engine = NULL;
}

static uint64_t join_count(const void *source)
{
    return ((const struct join *)source)->length;
}

/* Data and operations of the branches; the fingerprint of a pipeline has the join's own arguments. */
static uint64_t join_fingerprint(const void *source)
{
    const struct join *j = source;
    uint64_t h = hash_combine(j->count, j->choices);
    for (size_t b = 0; b < j->count; b++) {
        const struct pipeline_plan *p = j->branches[b].plan;
        h = hash_combine(h, p->source_class->fingerprint(p->source));
    }
    return h;
}

static void join_describe(const void *source, char *buffer, size_t size)
{
    const struct join *j = source;
    snprintf(buffer, size, "%s of %zu branches%s", j->op->name, j->count, j->fixed ? "" : ", some of them shuffled");
}

/* The names of the first branch that has some: a join of the same fields has the same classes. */
static pst_status join_class_names(const void *source, struct path_list *ret, pst_error *reterr)
{
    const struct join *j = source;
    pst_status st = PST_OK;
    for (size_t b = 0; b < j->count && st == PST_OK && ret->count == 0; b++) {
        const struct pipeline_plan *p = j->branches[b].plan;
        if (p->source_class->class_names)
            st = p->source_class->class_names(p->source, ret, reterr);
    }
    return st;
}

/* The branch that has element `number` of the whole tree, and its number there. */
static const struct pipeline_plan *branch_of(const struct join *j, uint64_t number, uint64_t *ret)
{
    size_t b = j->count - 1;
    while (b > 0 && j->branches[b].first_number > number)
        b--;
    *ret = number - j->branches[b].first_number;
    return j->branches[b].plan;
}

static uint64_t join_bytes_of(const void *source, uint64_t number)
{
    const struct pipeline_plan *p = branch_of(source, number, &number);
    return p->source_class->bytes_of ? p->source_class->bytes_of(p->source, number) : 0;
}

static bool join_entropy(const void *source, uint64_t number, struct entropy_home *ret)
{
    const struct pipeline_plan *p = branch_of(source, number, &number);
    return p->source_class->entropy && p->source_class->entropy(p->source, number, ret);
}

const struct source_class join_source = {
    .op = {.size = sizeof(pst_op_class), .name = "join"},
    .close = join_close,
    .spec = join_spec,
    .count = join_count,
    .fingerprint = join_fingerprint,
    .describe = join_describe,
    .class_names = join_class_names,
    .bytes_of = join_bytes_of,
    .entropy = join_entropy,
};

/* ---- Single elements ---- */

static pst_status resolve_branch(const struct join *j, size_t *field, uint64_t *index, uint64_t *pass, size_t *ret,
                                 pst_error *reterr)
{
    struct order_state state = {0};
    void *memo = mem_zalloc(j->facet->memo_size);
    uint32_t branch = 0;
    if (!memo)
        return fail_memory(reterr, "locating an element");
    if (!j->facet->together)
        j->facet->map(j->schedule, memo, 1, index, &branch, index);
    mem_free(memo);
    while (j->facet->together && *field != SOURCE_WHOLE && branch + 1 < j->count &&
           j->branches[branch + 1].first_field <= *field)
        branch++;
    const struct join_branch *b = &j->branches[branch];
    if (*field != SOURCE_WHOLE)
        *field = b->program->origins[*field - b->first_field];
    pst_status st = order_state_init(&state, b->order, reterr);
    if (st == PST_OK)
        order_back(b->order, &state, 1, index, pass);
    order_state_finish(&state);
    *ret = branch;
    return st;
}

pst_status join_resolve(const struct program **program, uint64_t *index, uint64_t *pass, size_t *field, uint64_t *ret_sample,
                        pst_error *reterr)
{
    uint64_t number = 0;
    for (const struct join *j = (*program)->join; j; j = (*program)->join) {
        size_t branch = 0;
        pst_status st = resolve_branch(j, field, index, pass, &branch, reterr);
        if (st < 0)
            return st;
        number += j->branches[branch].first_number;
        *program = j->branches[branch].program;
    }
    *ret_sample = number + *index;
    return PST_OK;
}
