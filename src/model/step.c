/* step.c: see step.h. A run is a list of phases; in each, every worker takes its lanes, then all meet at a barrier. */
#include "model/block.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "model/arena_plan.h"
#include "model/block_conv.h"
#include "model/convert_input.h"
#include "model/step_order.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MAX_VALUES ((size_t)1 << 40) /* of one buffer */

struct step {
    const struct graph *graph;
    struct step_options options;
    unsigned lanes;
    size_t real_size;
    size_t nodes; /* that run: all but a last softmax or sigmoid that is left out */
    struct team *team;
    struct block *blocks;
    size_t block_count;
    size_t *consumers;  /* of each value */
    struct value_form *forms;
    size_t *block_of;   /* the block that a value is the result of; of value 0 it is not used */
    struct step_order order;
    size_t *value_at, *gradient_at; /* offsets in the arena; SIZE_MAX: none */
    size_t *value_again;            /* the same of values, from when they are recomputed */
    char *arena;
    size_t arena_bytes, value_bytes;
    size_t scratch_at, scratch_bytes; /* per worker */
    double *statistics; /* of the batch; NULL: moving statistics are updated at once */
    step_share_fn share; /* NULL: this rank alone */
    void *share_user;
    void (*on_gradient)(void *user, size_t p);
    void *on_gradient_user;
    bool measures;
    /* Of the run at hand. */
    const void *input;
    pst_dtype dtype;
    size_t samples;
    bool training;
    bool again;   /* from the beginning of the backward pass: values lie where they were recomputed to */
    bool repeats; /* a segment runs forward for the second time */
    uint64_t pass;
    char *params, *grads;
    const void *dout;
    atomic_size_t next_block; /* to prepare */
};

/* ---- Planning ---- */

static bool is_last_of_logits(const struct graph *g)
{
    const char *name = g->nodes[g->count - 1].layer->name;
    return g->count > 1 && (strcmp(name, "softmax") == 0 || strcmp(name, "sigmoid") == 0);
}

static void count_consumers(struct step *s)
{
    for (size_t i = 0; i < s->nodes; i++)
        for (size_t k = 0; k < s->graph->nodes[i].inputs; k++)
            s->consumers[s->graph->nodes[i].input[k]]++;
}

static pst_status divide(struct step *s, pst_error *reterr)
{
    struct step_view view = {.graph = s->graph, .nodes = s->nodes, .options = &s->options, .real_size = s->real_size, .lanes = s->lanes, .consumers = s->consumers,
                             .forms = s->forms, .blocks = s->blocks, .features = s->options.features};
    pst_status st = PST_OK;
    for (size_t node = 0; st == PST_OK && node < s->nodes;) {
        struct block *b = &s->blocks[s->block_count++];
        b->first = node;
        for (size_t i = 0; b->count == 0; i++) {
            bool asked = s->options.reference || s->options.doubles;
            b->class = asked ? &block_reference : block_classes[i];
            if (asked)
                snprintf(b->why, sizeof(b->why), "it was asked for");
            b->count = b->class->match(&view, node, b->why, sizeof(b->why));
        }
        for (size_t k = 0; k < b->count; k++)
            s->block_of[node + k + 1] = s->block_count - 1;
        node += b->count;
        s->forms[node] = (struct value_form){.low = -INFINITY, .high = INFINITY, .producer = b};
        st = b->class->plan(&view, b, reterr);
    }
    for (size_t i = 0; st == PST_OK && i < s->block_count; i++)
        if (s->blocks[i].class->settle)
            s->blocks[i].class->settle(&view, &s->blocks[i]);
    return st;
}

/* Whether the value is read outside of its block, or is the result. */
static bool is_stored(const struct step *s, size_t value)
{
    const struct block *b = &s->blocks[s->block_of[value]];
    return value == b->first + b->count;
}

/* Whether a block may run forward twice: nothing that it updates, such as moving statistics, is updated twice. */
static bool can_repeat(const struct step *s, const struct block *b)
{
    for (size_t n = b->first; b->class == &block_reference && n < b->first + b->count; n++)
        for (size_t p = 0; p < s->graph->nodes[n].params; p++)
            if (s->graph->params[s->graph->nodes[n].first_param + p].layer.fixed)
                return false;
    return true;
}

static pst_status plan_order(struct step *s, pst_error *reterr)
{
    bool *repeats = mem_array(s->block_count, sizeof(*repeats));
    for (size_t i = 0; repeats && i < s->block_count; i++)
        repeats[i] = can_repeat(s, &s->blocks[i]);
    bool ok = repeats && step_order_init(&s->order, s->block_count, s->options.recompute && s->options.training, repeats);
    mem_free(repeats);
    return ok ? PST_OK : fail_memory(reterr, "planning the step; a smaller batch needs less");
}

/* The last block that reads the value, and whether a block of another segment than its own does. */
static size_t last_reader(const struct step *s, size_t v, size_t made, bool *ret_crosses)
{
    size_t used = v == s->nodes ? s->block_count - 1 : made;
    *ret_crosses = v == 0 || v == s->nodes;
    for (size_t i = 0; i < s->nodes; i++)
        for (size_t k = 0; k < s->graph->nodes[i].inputs; k++)
            if (s->graph->nodes[i].input[k] == v) {
                size_t reader = s->block_of[i + 1];
                used = reader > used ? reader : used;
                *ret_crosses |= step_order_segment(&s->order, reader) != step_order_segment(&s->order, made);
            }
    return used;
}

/* The value in whose gradient's memory that of `v` lies. */
static size_t gradient_root(const struct step *s, size_t v)
{
    while (s->forms[v].gradient_in)
        v = s->forms[v].gradient_in;
    return v;
}

/* When the last of the gradients that lie where that of `v` does is not needed any more; `end`: when that of `v` itself is not. */
static size_t last_gradient(const struct step *s, size_t v, size_t end)
{
    for (size_t i = 1; i < v; i++)
        if (s->forms[i].gradient_in && gradient_root(s, i) == v && s->order.back[s->block_of[i]] > end)
            end = s->order.back[s->block_of[i]];
    return end;
}

static bool place_value(struct step *s, struct arena_plan *plan, size_t v)
{
    bool training = s->options.training, crosses, ok;
    size_t made = v ? s->block_of[v] : 0, used = last_reader(s, v, made, &crosses), *back = s->order.back;
    size_t size = s->real_size == sizeof(float) ? number_bytes(s->forms[v].number) : s->real_size;
    size_t bytes = s->options.batch * shape_values(graph_shape(s->graph, v)) * size;
    size_t freed = made; /* the block that reads the gradient last */
    if (v && !is_stored(s, v))
        return true;
    if (v && s->forms[s->graph->nodes[s->blocks[made].first].input[0]].on_demand)
        freed = s->block_of[s->graph->nodes[s->blocks[made].first].input[0]];
    s->value_bytes += v ? bytes * (training && !s->forms[v].on_demand && !s->forms[v].gradient_in ? 2 : 1) : 0;
    if (training && !crosses && step_order_repeats(&s->order, made))
        ok = arena_plan_add(plan, &s->value_at[v], bytes, made, used) &&
             arena_plan_add(plan, &s->value_again[v], bytes, s->order.again[made], back[made]);
    else
        ok = arena_plan_add(plan, &s->value_at[v], bytes, made, training ? back[v ? made : 0] : used);
    if (ok && training && v && !s->forms[v].on_demand && !s->forms[v].gradient_in)
        ok = arena_plan_add(plan, &s->gradient_at[v], bytes, back[used], last_gradient(s, v, back[freed]));
    return ok;
}

static bool place_block(struct step *s, struct arena_plan *plan, size_t i)
{
    struct block *b = &s->blocks[i];
    size_t back = s->order.back[i], again = s->order.again[i];
    bool training = s->options.training, repeats = training && step_order_repeats(&s->order, i);
    bool ok = arena_plan_add(plan, &b->saved.offset, b->saved.bytes, i, training && !repeats ? back : i) &&
              arena_plan_add(plan, &b->work.offset, b->work.bytes * s->lanes, i, i);
    if (ok && repeats)
        ok = arena_plan_add(plan, &b->saved_again, b->saved.bytes, again, back) &&
             arena_plan_add(plan, &b->work_again, b->work.bytes * s->lanes, again, again);
    if (ok && training)
        ok = arena_plan_add(plan, &b->back_work.offset, b->back_work.bytes * s->lanes, back, back);
    return ok;
}

static unsigned worker_count(const struct step *s)
{
    return s->options.threads ? s->options.threads : 1;
}

/* For as many workers as lanes keep busy. */
static bool place_scratch(struct step *s, struct arena_plan *plan)
{
    unsigned workers = worker_count(s) < s->lanes ? worker_count(s) : s->lanes;
    for (size_t i = 0; i < s->block_count; i++)
        if (s->blocks[i].scratch > s->scratch_bytes)
            s->scratch_bytes = (s->blocks[i].scratch + 63) / 64 * 64;
    return arena_plan_add(plan, &s->scratch_at, s->scratch_bytes * workers, 0, SIZE_MAX);
}

static pst_status place_memory(struct step *s, pst_error *reterr)
{
    struct arena_plan plan = {0};
    bool ok = place_scratch(s, &plan);
    for (size_t v = 0; ok && v <= s->nodes; v++)
        ok = place_value(s, &plan, v);
    for (size_t i = 0; ok && i < s->block_count; i++)
        ok = place_block(s, &plan, i);
    pst_status st = ok && arena_plan_solve(&plan, &s->arena_bytes) ? PST_OK : fail_memory(reterr, "planning the step; a smaller batch needs less");
    arena_plan_finish(&plan);
    for (size_t v = 0; v <= s->nodes; v++)
        s->value_again[v] = s->value_again[v] == SIZE_MAX ? s->value_at[v] : s->value_again[v];
    for (size_t v = 1; v <= s->nodes; v++)
        s->gradient_at[v] = s->gradient_at[gradient_root(s, v)];
    for (size_t i = 0; i < s->block_count; i++)
        if (!step_order_repeats(&s->order, i)) {
            s->blocks[i].saved_again = s->blocks[i].saved.offset;
            s->blocks[i].work_again = s->blocks[i].work.offset;
        }
    return st;
}

static pst_status allocate(struct step *s, pst_error *reterr)
{
    s->arena = mem_large(s->arena_bytes);
    return s->arena ? PST_OK : fail_memory(reterr, "planning the step; a smaller batch needs less");
}

static pst_status plan_step(struct step *s, pst_error *reterr)
{
    size_t values = s->graph->count + 1;
    s->blocks = mem_array(s->nodes, sizeof(*s->blocks));
    s->consumers = mem_array(values, sizeof(*s->consumers));
    s->block_of = mem_array(values, sizeof(*s->block_of));
    s->value_at = mem_array(values, sizeof(*s->value_at));
    s->value_again = mem_array(values, sizeof(*s->value_again));
    s->forms = mem_array(values, sizeof(*s->forms));
    s->gradient_at = mem_array(values, sizeof(*s->gradient_at));
    if (!s->blocks || !s->consumers || !s->block_of || !s->value_at || !s->value_again || !s->gradient_at || !s->forms)
        return fail_memory(reterr, "planning the step; a smaller batch needs less");
    for (size_t v = 0; v < values; v++)
        s->value_at[v] = s->value_again[v] = s->gradient_at[v] = SIZE_MAX;
    s->forms[0] = (struct value_form){.low = -INFINITY, .high = INFINITY};
    count_consumers(s);
    pst_status st = divide(s, reterr);
    if (st == PST_OK)
        st = plan_order(s, reterr);
    if (st == PST_OK)
        st = place_memory(s, reterr);
    if (st == PST_OK)
        st = allocate(s, reterr);
    return st == PST_OK ? team_create(&s->team, s->options.threads, reterr) : st;
}

/* Sizes of buffers are products of the batch; what passes here does not overflow in any of them. */
static pst_status check_size(const struct graph *g, const struct step_options *o, pst_error *reterr)
{
    for (size_t v = 0; v <= g->count; v++)
        if (o->batch > MAX_VALUES / shape_values(graph_shape(g, v)))
            return pst_fail(reterr, PST_ELIMIT, "%zu samples of %zu values are too many for a step: choose a smaller batch", o->batch,
                            shape_values(graph_shape(g, v)));
    return PST_OK;
}

pst_status step_create(struct step **ret, const struct graph *g, const struct step_options *o, pst_error *reterr)
{
    if (o->batch == 0)
        return pst_fail(reterr, PST_EINVAL, "a step needs a batch of at least one sample");
    pst_status st = check_size(g, o, reterr);
    if (st < 0)
        return st;
    struct step *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "planning the step; a smaller batch needs less");
    s->graph = g;
    s->options = *o;
    s->lanes = o->lanes ? o->lanes : STEP_LANES;
    s->real_size = o->doubles ? sizeof(double) : sizeof(float);
    s->nodes = g->count - (o->logits && is_last_of_logits(g));
    st = plan_step(s, reterr);
    s->options.kernels = NULL; /* the caller's */
    if (st < 0) {
        step_destroy(s);
        return st;
    }
    *ret = s;
    return PST_OK;
}

struct step *step_destroy(struct step *s)
{
    if (!s)
        return NULL;
    team_destroy(s->team);
    for (size_t i = 0; s->blocks && i < s->block_count; i++)
        if (s->blocks[i].class && s->blocks[i].class->free)
            s->blocks[i].class->free(&s->blocks[i]);
    mem_free(s->arena);
    mem_free(s->blocks);
    mem_free(s->consumers);
    mem_free(s->block_of);
    mem_free(s->value_at);
    mem_free(s->value_again);
    step_order_finish(&s->order);
    mem_free(s->gradient_at);
    mem_free(s->forms);
    mem_free(s);
    return NULL;
}

/* ---- For block classes ---- */

const struct value_form *step_form(const struct step *s, size_t value)
{
    return &s->forms[value];
}

struct lane_range step_lane(const struct step *s, unsigned lane)
{
    size_t begin = s->samples * lane / s->lanes, end = s->samples * (lane + 1) / s->lanes;
    return (struct lane_range){begin, end - begin};
}

size_t step_samples(const struct step *s)
{
    return s->samples;
}

size_t step_real_size(const struct step *s)
{
    return s->real_size;
}

bool step_is_training(const struct step *s)
{
    return s->training;
}

bool step_repeats(const struct step *s)
{
    return s->repeats;
}

unsigned step_lanes(const struct step *s)
{
    return s->lanes;
}

uint64_t step_key(const struct step *s, size_t node)
{
    return hash_combine(hash_combine(s->options.seed, s->pass), node);
}

const struct graph *step_graph(const struct step *s)
{
    return s->graph;
}

void *step_value(struct step *s, size_t value)
{
    if (value == 0 && s->dtype == (s->real_size == sizeof(double) ? PST_DTYPE_F64 : PST_DTYPE_F32))
        return (void *)(uintptr_t)s->input;
    return s->arena + (s->again ? s->value_again : s->value_at)[value];
}

void *step_gradient(struct step *s, size_t value)
{
    return s->gradient_at[value] == SIZE_MAX ? NULL : s->arena + s->gradient_at[value];
}

/* Blocks run backward from the last to the first: a block adds where one after it reads the same value. */
bool step_gradient_adds(const struct step *s, const struct block *b, size_t value)
{
    for (size_t i = b->first + b->count; i < s->nodes; i++)
        for (size_t k = 0; k < s->graph->nodes[i].inputs; k++)
            if (s->graph->nodes[i].input[k] == value)
                return true;
    return false;
}

void *step_param(struct step *s, size_t param)
{
    return s->params + s->graph->params[param].offset * s->real_size;
}

void *step_param_gradient(struct step *s, size_t param)
{
    return s->grads + s->graph->params[param].offset * s->real_size;
}

void *step_saved(struct step *s, const struct block *b)
{
    return s->arena + (s->again ? b->saved_again : b->saved.offset);
}

void *step_work(struct step *s, const struct block *b, bool backward, unsigned lane)
{
    if (backward)
        return s->arena + b->back_work.offset + lane * b->back_work.bytes;
    return s->arena + (s->again ? b->work_again : b->work.offset) + lane * b->work.bytes;
}

void *step_scratch(struct step *s, unsigned lane)
{
    return s->arena + s->scratch_at + lane % worker_count(s) * s->scratch_bytes;
}

/* ---- Running ---- */

static void block_time_add(struct block_time *t, uint64_t ns)
{
    t->best = t->total == 0 || ns < t->best ? ns : t->best;
    t->total += ns;
}

static void run_phases(struct step *s, struct block *b, const struct block_phase *phases, unsigned worker)
{
    unsigned threads = team_size(s->team);
    bool measures = s->measures && worker == 0;
    uint64_t begin = measures ? clock_ns() : 0;
    for (const struct block_phase *p = phases; p->run; p++) {
        unsigned count = p->over == PHASE_LANES ? s->lanes : p->over == PHASE_PARTS ? threads : 1;
        for (unsigned i = worker; i < count; i += threads)
            p->run(s, b, i, count);
        team_barrier(s->team);
    }
    if (measures)
        block_time_add(&b->time[phases == b->backward], clock_ns() - begin);
}

static void convert_input(struct step *s, unsigned lane)
{
    struct lane_range r = step_lane(s, lane);
    size_t values = shape_values(&s->graph->input);
    const char *from = (const char *)s->input + r.first * values * pst_dtype_size(s->dtype);
    convert_to_real(s->arena + s->value_at[0] + r.first * values * s->real_size, s->real_size, from, s->dtype, r.count * values);
}

/* Workers take blocks as they come: what is computed does not depend on the worker. */
static void prepare_blocks(struct step *s)
{
    for (size_t i; (i = atomic_fetch_add(&s->next_block, 1)) < s->block_count;)
        if (s->blocks[i].class->prepare)
            s->blocks[i].class->prepare(s, &s->blocks[i]);
}

static void run_forward(void *user, unsigned worker)
{
    struct step *s = user;
    if (step_value(s, 0) != s->input)
        for (unsigned lane = worker; lane < s->lanes; lane += team_size(s->team))
            convert_input(s, lane);
    prepare_blocks(s);
    team_barrier(s->team);
    for (size_t i = 0; i < s->block_count; i++)
        run_phases(s, &s->blocks[i], s->blocks[i].forward, worker);
}

pst_status step_forward(struct step *s, const void *input, pst_dtype dtype, size_t n, void *params, bool training,
                        const void **ret_out, pst_error *reterr)
{
    if (n == 0 || n > s->options.batch)
        return pst_fail(reterr, PST_EINVAL, "%zu samples; the step was planned for 1 to %zu", n, s->options.batch);
    if (!convert_takes(dtype))
        return pst_fail(reterr, PST_ETYPE, "the input is of type %s; expected numbers", pst_dtype_name(dtype));
    if (training && !s->options.training)
        return pst_fail(reterr, PST_EINVAL, "the step was planned for predictions only");
    s->input = input;
    s->dtype = dtype;
    s->samples = n;
    s->training = training;
    s->again = false;
    s->params = params;
    s->pass += training;
    atomic_store(&s->next_block, 0);
    team_run(s->team, run_forward, s);
    *ret_out = step_value(s, s->nodes);
    return PST_OK;
}

static void announce(struct step *s, const struct block *b)
{
    for (size_t n = b->first + b->count; n-- > b->first;)
        for (size_t p = 0; p < s->graph->nodes[n].params; p++)
            s->on_gradient(s->on_gradient_user, s->graph->nodes[n].first_param + p);
}

/* Blocks [begin, end) once more, before they run backward. */
static void repeat_segment(struct step *s, size_t begin, size_t end, unsigned worker)
{
    if (worker == 0)
        s->repeats = true;
    team_barrier(s->team);
    for (size_t i = begin; i < end; i++)
        run_phases(s, &s->blocks[i], s->blocks[i].forward, worker);
    if (worker == 0)
        s->repeats = false;
    team_barrier(s->team);
}

static void run_backward(void *user, unsigned worker)
{
    struct step *s = user;
    if (worker == 0)
        memcpy(step_gradient(s, s->nodes), s->dout, s->samples * shape_values(step_out_shape(s)) * s->real_size);
    team_barrier(s->team);
    for (size_t i = s->block_count; i-- > 0;) {
        if (step_order_repeats(&s->order, i) && (i + 1) % s->order.length == 0)
            repeat_segment(s, i + 1 - s->order.length, i + 1, worker);
        run_phases(s, &s->blocks[i], s->blocks[i].backward, worker);
        if (worker == 0 && s->on_gradient)
            announce(s, &s->blocks[i]);
    }
}

void step_backward(struct step *s, const void *dout, void *grads)
{
    s->dout = dout;
    s->again = true;
    s->grads = grads;
    team_run(s->team, run_backward, s);
}

void step_on_gradient(struct step *s, void (*fn)(void *user, size_t p), void *user)
{
    s->on_gradient = fn;
    s->on_gradient_user = user;
}

void step_gradient_order(const struct step *s, size_t *ret)
{
    for (size_t i = s->block_count; i-- > 0;)
        for (size_t n = s->blocks[i].first + s->blocks[i].count; n-- > s->blocks[i].first;)
            for (size_t p = 0; p < s->graph->nodes[n].params; p++)
                *ret++ = s->graph->nodes[n].first_param + p;
}

/* ---- Statistics of batches ---- */

/* Values of fixed parameters before parameter `param`. */
static size_t statistics_before(const struct graph *g, size_t param)
{
    size_t sum = 0;
    for (size_t p = 0; p < param; p++)
        sum += g->params[p].layer.fixed ? g->params[p].count : 0;
    return sum;
}

size_t step_statistic_count(const struct step *s)
{
    return statistics_before(s->graph, s->graph->param_count);
}

void step_keep_statistics(struct step *s, double *to)
{
    s->statistics = to;
}

double *step_statistic(const struct step *s, size_t param)
{
    if (!s->statistics || !s->graph->params[param].layer.fixed)
        return NULL;
    return s->statistics + statistics_before(s->graph, param);
}

void step_apply_statistics(const struct step *s, const double *from, float *params)
{
    for (size_t p = 0; p < s->graph->param_count; p++) {
        const struct graph_param *g = &s->graph->params[p];
        double keep = g->layer.momentum;
        for (size_t k = 0; g->layer.fixed && k < g->count; k++)
            params[g->offset + k] = (float)(keep * params[g->offset + k] + (1 - keep) * *from++);
    }
}

void step_share_sums(struct step *s, step_share_fn share, void *user)
{
    s->share = share;
    s->share_user = user;
}

void step_share(struct step *s, double *sums, size_t count, double *rows)
{
    if (s->share)
        s->share(s->share_user, sums, count, rows);
}

struct team *step_team(struct step *s)
{
    return s->team;
}

void step_set_passes(struct step *s, uint64_t passes)
{
    s->pass = passes;
}

/* ---- Telling ---- */

/* SIZE_MAX: none. */
static size_t first_nonfinite(const void *values, enum number number, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(number_load(values, number, i)))
            return i;
    return SIZE_MAX;
}

static bool all_finite(const void *values, enum number number, size_t count)
{
    return first_nonfinite(values, number, count) == SIZE_MAX;
}

size_t step_find_nonfinite_input(struct step *s)
{
    size_t each = shape_values(&s->graph->input), at = first_nonfinite(step_value(s, 0), NUMBER_F32, s->samples * each);
    return at == SIZE_MAX ? at : at / each;
}

/* The node in which the values of a fused block change first: a flattening only passes them on. */
static const struct graph_node *first_computing(const struct graph *g, const struct block *b)
{
    for (size_t n = b->first; n < b->first + b->count; n++)
        if (g->nodes[n].params)
            return &g->nodes[n];
    return &g->nodes[b->first];
}

const char *step_find_nonfinite(struct step *s, const char **ret_parameter)
{
    *ret_parameter = NULL;
    for (size_t i = 0; i < s->block_count; i++) {
        const struct block *b = &s->blocks[i];
        for (size_t n = b->first; n < b->first + b->count; n++)
            for (size_t p = s->graph->nodes[n].first_param; p < s->graph->nodes[n].first_param + s->graph->nodes[n].params; p++)
                if (!all_finite(step_param(s, p), NUMBER_F32, s->graph->params[p].count)) {
                    *ret_parameter = s->graph->params[p].name;
                    return s->graph->nodes[n].name;
                }
        size_t value = b->first + b->count;
        if (!all_finite(step_value(s, value), s->forms[value].number, s->samples * shape_values(graph_shape(s->graph, value))))
            return first_computing(s->graph, b)->name;
    }
    return NULL;
}

const struct shape *step_out_shape(const struct step *s)
{
    return &s->graph->nodes[s->nodes - 1].out;
}

uint64_t step_bytes(const struct step *s)
{
    return s->arena_bytes;
}

uint64_t step_value_bytes(const struct step *s)
{
    return s->value_bytes;
}

void step_measure(struct step *s, bool on)
{
    s->measures = on;
    for (size_t i = 0; on && i < s->block_count; i++)
        memset(s->blocks[i].time, 0, sizeof(s->blocks[i].time));
}

size_t step_block_count(const struct step *s)
{
    return s->block_count;
}

struct step_block_times step_block_times(const struct step *s, size_t block)
{
    const struct block *b = &s->blocks[block];
    struct step_block_times r = {.layer = s->graph->nodes[b->first].name,
                                 .kind = b->class->name,
                                 .why = b->why,
                                 .nodes = b->count,
                                 .forward = b->time[0],
                                 .backward = b->time[1]};
    for (size_t i = b->first; i < b->first + b->count; i++) {
        const struct graph_node *n = &s->graph->nodes[i];
        r.flops += n->layer->flops ? n->layer->flops(n->config, n->in, &n->out) : 0;
    }
    return r;
}

bool step_block_kernel(const struct step *s, size_t block, struct kernel_entry *ret)
{
    return block_conv_entry(&s->blocks[block], ret);
}

bool step_kernels(const struct step *s, struct kernel_table *to)
{
    struct kernel_entry e;
    for (size_t i = 0; i < s->block_count; i++)
        if (block_conv_entry(&s->blocks[i], &e) && !kernel_table_set(to, &e.key, e.kernel))
            return false;
    return true;
}

void step_describe(const struct step *s, struct text *to)
{
    for (size_t i = 0; i < s->block_count; i++) {
        const struct block *b = &s->blocks[i];
        text_addf(to, "%s", s->graph->nodes[b->first].name);
        for (size_t k = 1; k < b->count; k++)
            text_addf(to, " + %s", s->graph->nodes[b->first + k].name);
        text_addf(to, ": %s (%s)\n", b->class->name, b->why);
    }
}
