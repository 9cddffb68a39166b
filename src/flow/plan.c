/* plan.c: from a chain to a plan, in the order in which errors are easiest to understand: the source, types and shapes, the
 * order, the program, memory. Nothing is left running; the source stays open. */
#include "flow/plan.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/name_index.h"
#include "flow/element.h"
#include "flow/element_cache.h"
#include "flow/evaluate_elements.h"
#include "flow/resample.h"
#include "flow/segment.h"
#include "flow/tune_workers.h"
#include "lang/expr.h"
#include "ops/image/image_op.h"
#include "ops/op_list.h"
#include "ops/spec_memory.h"
#include "source/jpeg_points.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROBES          1024
#define UNKNOWN_ELEMENT 4096                  /* bytes, if the source does not report a size */
#define MOST_GUESSED    (UINT64_C(256) << 20) /* bytes of a shuffle buffer whose elements have an unknown size */
#define MAX_WORKERS     256

pst_status plan_point_node(const struct chain *c, const struct node *n, pst_status st, pst_error *reterr)
{
    if (st >= 0 || !reterr)
        return st;
    if (!reterr->op[0])
        snprintf(reterr->op, sizeof(reterr->op), "%s", n->op->name);
    node_point(c, n, reterr);
    return st;
}

pst_status plan_point(const struct chain *c, size_t i, pst_status st, pst_error *reterr)
{
    return plan_point_node(c, &c->nodes[i], st, reterr);
}

const struct resource_facet *plan_resource(const struct node *n)
{
    const struct op_decl *decl = op_decl_of(n->op);
    return decl ? decl->resource : NULL;
}

static bool is_cache(const struct node *n)
{
    return plan_resource(n) && plan_resource(n)->kind == RESOURCE_CACHE;
}

/* ---- The source ---- */

static pst_status check_kinds(const struct chain *c, pst_error *reterr)
{
    if (c->count == 0)
        return pst_fail(reterr, PST_EINVAL,
                        "the pipeline is empty; it begins with a source, as in \"tfrecord shards/ | batch 64\"");
    if (c->nodes[0].kind != PST_OP_SOURCE)
        return plan_point(
            c, 0, pst_fail(reterr, PST_EINVAL, "a pipeline begins with a source such as tfrecord, folder or files"), reterr);
    for (size_t i = 1, caches = 0; i < c->count; i++) {
        if (c->nodes[i].kind == PST_OP_SOURCE)
            return plan_point(c, i, pst_fail(reterr, PST_EINVAL, "a source can only be the first operation"), reterr);
        if (is_cache(&c->nodes[i]) && caches++)
            return plan_point(
                c, i, pst_fail(reterr, PST_EINVAL, "the elements are cached already; a chain can have only one cache"), reterr);
    }
    return PST_OK;
}

/* The mean stored size, from elements spread evenly over the source. */
static uint64_t probe_bytes(const struct pipeline_plan *p, uint64_t count)
{
    count = p->join ? p->join->numbers : count;
    uint64_t probes = count < PROBES ? count : PROBES, sum = 0;
    if (!p->source_class->bytes_of || count >= ORDER_UNKNOWN || probes == 0)
        return 0;
    for (uint64_t i = 0; i < probes; i++)
        sum += p->source_class->bytes_of(p->source, (uint64_t)((double)i * (double)count / (double)probes));
    return sum / probes + (sum % probes > 0);
}

static pst_status open_source(struct pipeline_plan *p, const struct plan_env *plan_env, pst_error *reterr)
{
    const struct node *n = &p->chain->nodes[0];
    const pst_pipeline_options *o = plan_env->options;
    struct damage_opening opening = {0};
    struct source_env env = {.cache_dir = o->cache_dir, .no_verify = o->no_verify, .ram = p->ram / 8, .stop = plan_env->stop};
    p->source_class = (const struct source_class *)(const void *)n->op;
    pst_status st = damage_intake_init(&p->intake, n->op->name, plan_env->account->policy.skip, reterr);
    if (st == PST_OK)
        st = damage_opening_init(&opening, plan_env->account, n->op->name, reterr);
    env.met = p->intake.log;
    env.damage = opening.log;
    if (st == PST_OK)
        st = p->source_class->open(n->config, &env, &p->source, reterr);
    p->gaps = opening.found;
    damage_opening_finish(&opening);
    if (p->source_class->inner) /* it points by itself, into its own part */
        return st;
    return plan_point(p->chain, 0, st, reterr);
}

/* ---- Types and shapes ---- */

static pst_status fail_name(const pst_spec *spec, size_t i, pst_error *reterr)
{
    return pst_fail(reterr, PST_EINVAL, "field %zu needs a name that no other field has; invalid name \"%.*s\"", i,
                    PST_NAME_SIZE - 1, spec->field[i].name);
}

/* Checks what an operation planned: it may be the program's own. */
static pst_status check_spec(const pst_op_class *op, const pst_spec *in, const pst_spec *out, pst_error *reterr)
{
    struct name_index names;
    bool whole;
    if (out->count == 0 || out->count > PST_MAX_FIELDS)
        return pst_fail(reterr, PST_EINVAL, "it plans %zu fields; expected 1 to %d", out->count, PST_MAX_FIELDS);
    if (!spec_reads_valid(out))
        return pst_fail(reterr, PST_EINVAL, "it reads a field that its input does not have");
    for (size_t i = 0; i < out->count; i++)
        if (out->field[i].name[0] == '\0' || !memchr(out->field[i].name, '\0', PST_NAME_SIZE))
            return fail_name(out, i, reterr);
    size_t twice = name_index_init(&names, out->field[0].name, sizeof(*out->field), out->count, &whole);
    name_index_finish(&names);
    if (!whole)
        return fail_memory(reterr, "planning");
    if (twice != NAME_INDEX_NONE)
        return fail_name(out, twice, reterr);
    for (size_t i = 0; i < out->count; i++) {
        const pst_field *f = &out->field[i];
        if (pst_dtype_size(f->dtype) == 0 || f->rank > PST_MAX_RANK)
            return pst_fail(reterr, PST_EINVAL, "field \"%s\" has no type, or more than %d dimensions", f->name, PST_MAX_RANK);
        if (!in)
            continue;
        const pst_field *from = f->alias >= 0 && (size_t)f->alias < in->count ? &in->field[f->alias] : NULL;
        if (f->alias >= 0 &&
            (!from || from->dtype != f->dtype || from->rank != f->rank || !shape_equal(f->rank, from->shape, f->shape)))
            return pst_fail(reterr, PST_EINVAL,
                            "field \"%s\" is an alias of a field that is not there, or of another type or shape", f->name);
        if (f->alias < 0 && !op->run)
            return pst_fail(reterr, PST_EINVAL, "field \"%s\" is new, but the operation has no run to write it", f->name);
    }
    return PST_OK;
}

/* Has the source do what it must before its elements are counted or read. The types before it are right. */
static pst_status prepare_source(struct pipeline_plan *p, const struct plan_env *env, pst_error *reterr)
{
    struct damage_opening opening = {0};
    if (!p->source_class->prepare)
        return PST_OK;
    pst_status st = damage_opening_init(&opening, env->account, p->chain->nodes[0].op->name, reterr);
    if (st == PST_OK)
        st = p->source_class->prepare(p->source, opening.log, reterr);
    p->gaps += opening.found;
    damage_opening_finish(&opening);
    return st;
}

static bool needs_records(const struct node *n)
{
    const struct op_decl *decl = op_decl_of(n->op);
    return decl && decl->schema;
}

static pst_status infer(struct pipeline_plan *p, const struct plan_env *env, struct chain *c, pst_error *reterr)
{
    p->source_class->spec(p->source, &c->nodes[0].out);
    pst_status st = check_spec(c->nodes[0].op, NULL, &c->nodes[0].out, reterr);
    if (st < 0)
        return plan_point(c, 0, st, reterr);
    for (size_t i = 1; i < c->count; i++) {
        struct node *n = &c->nodes[i];
        n->in = c->nodes[i - 1].out;
        n->in.engine = NULL;
        if (n->kind != PST_OP_SAMPLE && !n->op->plan) {
            n->out = n->in;
            continue;
        }
        st = needs_records(n) ? prepare_source(p, env, reterr) : PST_OK;
        if (st < 0)
            return st;
        st = spec_init(&n->out, &p->memory, n->in.count, reterr);
        if (st == PST_OK)
            st = plan_infer_schema(p, c, i, reterr);
        if (st == PST_OK)
            st = n->op->plan ? n->op->plan(n->config, &n->in, &n->out, reterr)
                             : pst_fail(reterr, PST_EINVAL, "the operation has no plan");
        if (st == PST_OK)
            st = check_spec(n->op, &n->in, &n->out, reterr);
        if (st < 0)
            return plan_point(c, i, st, reterr);
    }
    return PST_OK;
}

/* A cache keeps the first result of the operations before it: they must not be random. */
static pst_status check_cache(const struct chain *c, pst_error *reterr)
{
    const char *random = NULL, *shuffle = NULL;
    for (size_t i = 1; i < c->count; i++) {
        const struct op_decl *decl = op_decl_of(c->nodes[i].op);
        if (decl && decl->cut == CUT_SNAPSHOT)
            random = shuffle = NULL; /* from here on the elements are the same in every epoch */
        if (decl && decl->cut > CUT_GATHER && shuffle && !random)
            random = shuffle; /* elements are made of others in every epoch */
        if (decl && decl->reorders)
            shuffle = c->nodes[i].op->name;
        if (c->nodes[i].kind == PST_OP_SAMPLE && c->nodes[i].op->flags & PST_OP_RANDOM && !random)
            random = c->nodes[i].op->name;
        if (c->nodes[i].kind == PST_OP_SAMPLE && decl && decl->order && !random)
            random = c->nodes[i].op->name;
        if (is_cache(&c->nodes[i]) && random)
            return plan_point(c, i,
                              pst_fail(reterr, PST_EINVAL,
                                       "%s before it is random or depends on the order, and every epoch would repeat its first "
                                       "result; move cache before %s",
                                       random, random),
                              reterr);
    }
    return PST_OK;
}

/* ---- Order ---- */

/* Bytes to plan for a shuffle buffer. A stream does not report the size of its elements: for a counted buffer they are
 * estimated, and `limit` bounds them in any case. */
static uint64_t buffer_bytes(const struct order_step *s)
{
    if (s->drawn == 0)
        return s->buffer;
    return s->drawn < MOST_GUESSED / UNKNOWN_ELEMENT ? s->drawn * UNKNOWN_ELEMENT : MOST_GUESSED;
}

/* Returns the node as a step; false: it is not part of the order. */
static bool order_step_of(struct pipeline_plan *p, const struct node *n, struct order_env *env, struct order_step *ret)
{
    const struct op_decl *decl = op_decl_of(n->op);
    *ret = (struct order_step){0};
    if (!decl || !decl->order)
        return false;
    decl->order(n->config, env, ret);
    env->shuffles += ret->kind == ORDER_SHUFFLE;
    ret->limit = p->ram;
    if (p->program.streamed)
        p->ram_stream += ret->kind == ORDER_SHUFFLE ? buffer_bytes(ret) : 0;
    return true;
}

/* Notes what changes no result, only what it costs; false: the node is not a resource. */
static bool note_resource(struct pipeline_plan *p, size_t i)
{
    const struct node *n = &p->chain->nodes[i];
    const struct resource_facet *resource = plan_resource(n);
    if (!resource)
        return false;
    if (resource->kind == RESOURCE_PREFETCH && !p->is_branch)
        p->prefetch = resource->amount(n->config);
    else if (resource->kind == RESOURCE_CACHE)
        p->cache_node = i;
    return true;
}

bool plan_is_fixed(const struct pipeline_plan *p)
{
    return order_is_fixed(&p->order) && (!p->join || p->join->fixed) &&
           (!p->source_class->is_fixed || p->source_class->is_fixed(p->source));
}

bool plan_streams(const struct pipeline_plan *p)
{
    for (size_t i = 0; p->join && i < p->join->count; i++)
        if (plan_streams(p->join->branches[i].plan))
            return true;
    if (p->join)
        return false;
    const struct pipeline_plan *inner = p->source_class->inner ? p->source_class->inner(p->source) : NULL;
    return inner ? plan_streams(inner) : p->source_class->count(p->source) == SOURCE_STREAM;
}

static void note_read(void *user, size_t field)
{
    ((bool *)user)[field] = true;
}

/* Which fields of the source the steps of a stream look at; NULL: out of memory. */
static bool *stream_reads(struct pipeline_plan *p)
{
    size_t size = (p->program.in.count + 1) * sizeof(*p->stream_reads);
    if (!p->stream_reads && (p->stream_reads = arena_alloc(&p->memory, size)) != NULL)
        memset(p->stream_reads, 0, size);
    return p->stream_reads;
}

/* The filter of a stream tests every element as it comes. What it tests are the elements of the source: plan_chain has divided
 * the chain such that nothing is computed before it. */
static pst_status push_stream_filter(struct pipeline_plan *p, size_t i, pst_error *reterr)
{
    const struct node *n = &p->chain->nodes[i];
    struct expr *e = arena_alloc(&p->memory, sizeof(*e));
    enum expr_type type;
    size_t shape;
    if (!e || !stream_reads(p))
        return fail_memory(reterr, "planning a filter");
    pst_status st = expr_parse(e, op_decl_of(n->op)->filter(n->config), reterr);
    if (st == PST_OK)
        st = expr_bind(e, &n->in, note_read, p->stream_reads, &type, &shape, reterr);
    if (st == PST_OK && type == EXPR_BYTES)
        st = pst_fail(reterr, PST_ETYPE, "the expression is bytes; expected true or false, or a number");
    if (st == PST_OK && shape != SIZE_MAX)
        st = pst_fail(reterr, PST_ETYPE, "the expression has many values per element; make one of them with any(…) or all(…)");
    return st == PST_OK ? order_push(&p->order, &(struct order_step){.kind = ORDER_FILTER, .expr = e}, reterr) : st;
}

/* Adds the step of a filter: its bits are found or computed here. */
static pst_status push_filter(struct pipeline_plan *p, size_t i, const struct plan_env *env, pst_error *reterr)
{
    struct kept_bits *bits;
    uint64_t count = p->order.batches;
    if (p->order.batch != SIZE_MAX)
        return pst_fail(reterr, PST_EINVAL, "filter decides about single elements; put it before batch");
    if (p->program.streamed)
        return push_stream_filter(p, i, reterr);
    if (count == ORDER_ENDLESS)
        return pst_fail(reterr, PST_EINVAL, "the elements before it never end; put filter before repeat");
    if (!plan_is_fixed(p))
        return pst_fail(reterr, PST_EINVAL,
                        "the elements before it come in another order in every epoch; put filter before shuffle"
                        ", or snapshot before filter");
    pst_status st = evaluate_filter(&bits, p, i, count, env, reterr);
    if (st < 0)
        return st;
    bits->next = p->filters;
    p->filters = bits;
    return order_push(&p->order, &(struct order_step){.kind = ORDER_FILTER, .bits = &bits->map}, reterr);
}

static bool is_resample(const struct node *n)
{
    const struct op_decl *decl = op_decl_of(n->op);
    return decl && decl->resample;
}

static bool is_filter(const struct node *n)
{
    const struct op_decl *decl = op_decl_of(n->op);
    return decl && decl->filter;
}

static pst_status push_step(struct pipeline_plan *p, size_t i, const struct order_step *step, pst_error *reterr)
{
    if (p->is_branch && step->kind == ORDER_BATCH)
        return pst_fail(reterr, PST_EUNSUPPORTED, "branches deliver single elements; put batch after the join");
    p->chain->nodes[i].number = step->kind == ORDER_NUMBER ? p->order.numbers : STEP_NO_NUMBER; /* only these count elements */
    return order_push(&p->order, step, reterr);
}

static pst_status plan_order(struct pipeline_plan *p, const struct plan_env *plan_env, pst_error *reterr)
{
    struct chain *c = p->chain;
    uint64_t count = p->source_class->count(p->source);
    struct order_step step;
    struct order_env env = {.seed = plan_env->options->seed, .element_bytes = p->element_bytes ? p->element_bytes : UNKNOWN_ELEMENT};
    p->program.streamed = count == SOURCE_STREAM && !p->join; /* a join of that length is endless */
    order_init(&p->order, p->program.streamed ? ORDER_UNKNOWN : count);
    if (p->program.streamed && p->is_branch)
        return plan_point(c, 0,
                          pst_fail(reterr, PST_EUNSUPPORTED,
                                   "a branch must have an index, and this source is a stream; `penstock pack` makes shards of it"),
                          reterr);
    if (p->program.streamed && !p->source_class->stream_open)
        return plan_point(c, 0, pst_fail(reterr, PST_EINVAL, "the source has neither an index nor a stream"), reterr);
    for (size_t i = 1; i < c->count; i++) {
        pst_status st = PST_OK;
        if (order_step_of(p, &c->nodes[i], &env, &step))
            st = push_step(p, i, &step, reterr);
        else if (is_filter(&c->nodes[i]))
            st = push_filter(p, i, plan_env, reterr);
        else if (is_resample(&c->nodes[i]))
            st = plan_resample(p, i, plan_env, reterr);
        else if (c->nodes[i].kind != PST_OP_SAMPLE && !note_resource(p, i))
            st = pst_fail(reterr, PST_EUNSUPPORTED, "the engine does not support this operation");
        if (st < 0)
            return plan_point(c, i, st, reterr);
    }
    p->program.numbers = p->order.numbers;
    p->batched = p->order.batch != SIZE_MAX;
    step = (struct order_step){.kind = ORDER_BATCH, .size = c->chunk ? c->chunk : 1};
    return !p->batched && !p->is_branch ? order_push(&p->order, &step, reterr) : PST_OK;
}

/* ---- The program and its memory ---- */

static pst_status batch_spec(struct pipeline_plan *p, pst_error *reterr)
{
    const struct order_step *batch = &p->order.steps[p->order.batch];
    const pst_spec *element = program_spec(&p->program, p->program.count);
    bool plain = !batch->shift && !batch->key;
    bool whole = (batch->drop_remainder && !batch->key) ||
                 (plain && p->order.elements < ORDER_UNKNOWN && p->order.elements % batch->size == 0);
    pst_status st = spec_init(&p->batch, &p->memory, element->count, reterr);
    if (st < 0)
        return st;
    pst_spec_pass(element, &p->batch);
    for (size_t i = 0; i < element->count; i++) {
        pst_field *f = pst_spec_write(&p->batch, i);
        memcpy(f->shape + 1, element->field[i].shape, f->rank * sizeof(*f->shape));
        f->shape[0] = whole ? batch->size : PST_ANY;
        f->rank++;
    }
    p->batch.engine = NULL;
    return PST_OK;
}

/* Informs the source and the operations which of their fields are used. */
static void set_used_fields(struct pipeline_plan *p)
{
    for (size_t b = 0; p->join && b < p->join->count; b++)
        set_used_fields(p->join->branches[b].plan);
    if (p->source_class->need)
        p->source_class->need(p->source, p->program.needed);
    for (size_t i = 0; i < p->program.count; i++) {
        const struct step *s = &p->program.steps[i];
        const struct op_decl *op = op_decl_of(s->op);
        if (op && op->need && s->runs)
            op->need(p->chain->nodes[s->first].config, s->live);
    }
}

/* Steps of a stream may look at fields of its elements. */
static pst_status note_order_fields(struct pipeline_plan *p, pst_error *reterr)
{
    size_t *fields = arena_alloc(&p->memory, (p->program.in.count + 1) * sizeof(*fields)), count = 0;
    if (!fields || !stream_reads(p))
        return fail_memory(reterr, "planning");
    for (size_t i = 0; i < p->order.count; i++) {
        const struct key_rule *key = p->order.steps[i].key;
        for (size_t k = 0; key && k < (key->fields ? key->field_count : 1); k++)
            p->stream_reads[key->fields ? key->fields[k] : key->field] = true;
    }
    for (size_t f = 0; f < p->program.in.count; f++)
        if (p->stream_reads[f])
            fields[count++] = f;
    p->program.order_fields = fields;
    p->program.order_field_count = count;
    return PST_OK;
}

/* Whether `batch` needs the field to fill up others, or has a value for it: "labels:-100,weights:1". */
static bool is_in_rule(const struct pad_rule *rule, const char *name)
{
    size_t length = strlen(name);
    if (!rule)
        return false;
    if (rule->boundaries && strcmp(rule->field, name) == 0)
        return true;
    for (const char *at = rule->values; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, length) == 0 && at[length] == ':')
            return true;
    return false;
}

/* Keeps the chosen fields by a last step. It is not part of the chain, whose hash belongs to cursors and caches. */
static pst_status keep_fields(struct pipeline_plan *p, const struct field_choice *choice, pst_error *reterr)
{
    const pst_spec *all = program_spec(&p->program, p->program.count);
    const struct pad_rule *rule = p->order.steps[p->order.batch].pad;
    bool *keep = arena_alloc(&p->memory, (all->count + 1) * sizeof(*keep));
    struct step s = {.op = &op_select.op, .first = p->chain->count - 1, .number = STEP_NO_NUMBER, .name = "select"};
    size_t kept = 0;
    if (!keep)
        return fail_memory(reterr, "planning");
    memset(keep, 0, (all->count + 1) * sizeof(*keep));
    choice->choose(choice->user, all, keep);
    for (size_t i = 0; i < all->count; i++)
        kept += keep[i];
    if (kept == 0 || kept == all->count)
        return PST_OK;
    pst_status st = spec_init(&s.out, &p->memory, all->count, reterr);
    for (size_t i = 0; i < all->count && st == PST_OK; i++)
        if (keep[i] || is_in_rule(rule, all->field[i].name))
            st = pst_spec_keep(&s.out, all, i, reterr);
    return st == PST_OK ? program_push(&p->program, &s, reterr) : st;
}

static pst_status plan_program(struct pipeline_plan *p, pst_error *reterr)
{
    const struct order_step *batch = &p->order.steps[p->order.batch];
    uint64_t capacity = p->order.elements < batch->size ? p->order.elements : batch->size;
    p->program.style = (struct batch_style){.pad = batch->pad, .loose = p->chain->loose && !batch->pad, .stacked = p->chain->stacked};
    pst_status st = note_order_fields(p, reterr);
    if (st == PST_OK)
        st = program_compile(&p->program, capacity ? capacity : 1, reterr);
    if (st == PST_OK)
        st = batch_spec(p, reterr);
    if (st == PST_OK)
        set_used_fields(p);
    return st;
}

static unsigned most_threads(const pst_pipeline_options *o)
{
    unsigned cores = cpu_cores();
    if (o->workers)
        return o->workers < MAX_WORKERS ? o->workers : MAX_WORKERS;
    return 2 * cores < MAX_WORKERS ? 2 * cores : MAX_WORKERS; /* more than cores: some may wait for storage */
}

/* Takes the last segment of the chain, if it has several: the ones before become its source. */
static pst_status divide(struct pipeline_plan *p, const struct plan_env *env, pst_error *reterr)
{
    pst_pipeline_options inner = *env->options;
    inner.ram = p->ram / 2;
    pst_status st = segment_cut(p->chain, &inner, env->account->policy.skip, &p->memory, &p->outer, reterr);
    if (st < 0 || p->outer.nodes == p->chain->nodes)
        return st;
    p->ram -= inner.ram;
    p->chain = &p->outer;
    return PST_OK;
}

/* Whether a filter of a stream tests what operations before it compute. */
static bool filters_computed(const struct pipeline_plan *p)
{
    bool computed = false;
    if (p->join || p->source_class->count(p->source) != SOURCE_STREAM)
        return false;
    for (size_t i = 1; i < p->chain->count; i++) {
        if (computed && is_filter(&p->chain->nodes[i]))
            return true;
        computed |= p->chain->nodes[i].kind == PST_OP_SAMPLE;
    }
    return false;
}

/* Divides the chain before the last such filter: what comes before it is a segment. */
static pst_status divide_at_filter(struct pipeline_plan *p, const struct plan_env *env, pst_error *reterr)
{
    struct chain *whole = arena_alloc(&p->memory, sizeof(*whole));
    if (!whole)
        return fail_memory(reterr, "planning");
    p->source_class->close(p->source);
    p->source = NULL;
    damage_intake_finish(&p->intake);
    *whole = *p->chain;
    whole->filters_cut = true;
    p->chain = whole;
    pst_status st = divide(p, env, reterr);
    return st == PST_OK ? open_source(p, env, reterr) : st;
}

/* Everything up to the operations' types and the order: what branches and whole pipelines have in common. */
static pst_status plan_chain(struct pipeline_plan *p, const struct plan_env *env, pst_error *reterr)
{
    p->seed = env->options->seed;
    pst_status st = check_cache(p->chain, reterr);
    if (st == PST_OK)
        st = divide(p, env, reterr);
    if (st == PST_OK)
        st = chain_join(p->chain) ? plan_join(p, env, reterr) : open_source(p, env, reterr);
    if (st == PST_OK && filters_computed(p))
        st = divide_at_filter(p, env, reterr);
    if (st < 0)
        return st;
    if (!p->source_class->prepare)
        p->element_bytes = probe_bytes(p, p->source_class->count(p->source));
    st = infer(p, env, p->chain, reterr);
    if (st == PST_OK)
        st = plan_check_scales(p, reterr);
    if (st == PST_OK)
        st = prepare_source(p, env, reterr);
    if (st < 0)
        return st;
    if (p->source_class->prepare)
        p->element_bytes = probe_bytes(p, p->source_class->count(p->source));
    program_init(&p->program, p->source_class, p->source, &p->memory);
    p->program.intake = &p->intake;
    p->program.join = p->join;
    st = plan_order(p, env, reterr);
    return st == PST_OK ? rewrite_steps(p, env->options->no_fuse, reterr) : st;
}

pst_status branch_plan_create(struct pipeline_plan **ret, struct chain *chain, const struct pipeline_plan *parent,
                              size_t branches, const struct plan_env *env, pst_error *reterr)
{
    pst_status st = check_kinds(chain, reterr);
    if (st < 0)
        return st;
    struct pipeline_plan *p = mem_zalloc(sizeof(*p));
    if (!p)
        return fail_memory(reterr, "planning");
    p->chain = chain;
    p->is_branch = true;
    p->ram = parent->ram / 2 / branches; /* the other half is the parent's */
    p->threads = parent->threads;
    p->slots = parent->slots;
    p->split = (struct split){.world = 1};
    st = plan_chain(p, env, reterr);
    if (st < 0) {
        pipeline_plan_destroy(p);
        return st;
    }
    *ret = p;
    return PST_OK;
}

pst_status pipeline_plan_create(struct pipeline_plan **ret, struct chain *chain, const pst_pipeline_options *o, const struct field_choice *choice,
                                struct file_stop stop, struct damage_account *account, pst_error *reterr)
{
    pst_status st = check_kinds(chain, reterr);
    if (st < 0)
        return st;
    struct pipeline_plan *p = mem_zalloc(sizeof(*p));
    if (!p)
        return fail_memory(reterr, "planning");
    struct plan_env env = {.options = o, .stop = stop, .account = account};
    p->chain = chain;
    p->ram = o->ram ? o->ram : cpu_memory_available() / 2;
    p->split = (struct split){.rank = split_turn(o->rank, o->world ? o->world : 1, o->hosts), .world = o->world ? o->world : 1, .uneven = o->uneven};
    p->rank = o->rank;
    p->threads = most_threads(o);
    p->slots = 2 * p->threads;
    st = plan_chain(p, &env, reterr);
    if (st == PST_OK && o->hosts > 1 && ((p->join && !p->join->fixed) || (p->source_class->is_fixed && !p->source_class->is_fixed(p->source))))
        st = pst_fail(reterr, PST_EINVAL, "hosts: a branch or an inner pipeline shuffles anew in every epoch, and has no fixed parts for hosts");
    if (st == PST_OK)
        st = order_divide(&p->order, o->hosts, reterr);
    if (st == PST_OK && o->hosts > 1 && p->source_class->part) {
        uint64_t first, end;
        order_part(&p->order, o->rank / ((o->world ? o->world : 1) / o->hosts), &first, &end);
        p->source_class->part(p->source, first, end);
    }
    if (st == PST_OK && choice->choose)
        st = keep_fields(p, choice, reterr);
    if (st == PST_OK)
        st = plan_program(p, reterr);
    if (st == PST_OK)
        st = plan_memory(p, reterr);
    if (st == PST_OK)
        st = plan_entropy(p, reterr);
    if (st == PST_OK)
        st = plan_fingerprint(p, reterr);
    if (st == PST_OK && !p->program.streamed) /* a stream's are counted as they come */
        pst_damage_log_seen(account->log, order_reach(&p->order) + p->gaps);
    if (st < 0) {
        pipeline_plan_destroy(p);
        return st;
    }
    *ret = p;
    return PST_OK;
}

struct pipeline_plan *pipeline_plan_destroy(struct pipeline_plan *p)
{
    if (!p)
        return NULL;
    entropy_destroy(p->program.entropy);
    program_finish(&p->program);
    order_finish(&p->order);
    resample_destroy(p->resample);
    while (p->filters) {
        struct kept_bits *next = p->filters->next;
        kept_bits_destroy(p->filters);
        p->filters = next;
    }
    cache_destroy(p->cache);
    if (p->source_class && p->source)
        p->source_class->close(p->source);
    damage_intake_finish(&p->intake);
    arena_finish(&p->memory);
    mem_free(p);
    return NULL;
}
