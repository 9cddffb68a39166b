/* optimizer.c: see optimizer.h. */
#include "train/optimizer.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/optimizer_kernels.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#define RUN 8192 /* values of a run at most: its state fits into the second cache */

extern const struct optimizer_kernels optimizer_kernels_c;
#ifdef __x86_64__
extern const struct optimizer_kernels optimizer_kernels_avx2;
#endif

const struct optimizer_kernels *optimizer_kernels(unsigned features)
{
#ifdef __x86_64__
    if (features & CPU_AVX2)
        return &optimizer_kernels_avx2;
#endif
    (void)features;
    return &optimizer_kernels_c;
}

struct run {
    size_t offset, count;
    bool decays;
};

struct optimizer {
    struct optimizer_options options;
    const struct optimizer_kernels *kernels;
    const struct graph *graph;
    bool *trained; /* by parameter */
    struct run *runs;
    double *norms; /* of each run */
    size_t run_count, run_capacity;
    float *state[OPTIMIZER_STATES];
    /* The present update. */
    struct optimizer_step step;
    float decay;
    bool first;
    size_t first_value, end_value; /* runs that begin between them */
    struct team *team;
    float *params;
    const float *grads;
};

static pst_status find_frozen(struct optimizer *o, const char *name, pst_error *reterr)
{
    bool found = false;
    for (size_t i = 0; i < o->graph->param_count; i++) {
        const struct graph_param *p = &o->graph->params[i];
        if (fnmatch(name, o->graph->nodes[p->node].name, 0) == 0 || fnmatch(name, p->name, 0) == 0) {
            o->trained[i] = false;
            found = true;
        }
    }
    return found ? PST_OK
                 : pst_fail(reterr, PST_EINVAL, "freeze: no layer with parameters is called \"%.60s\"; `penstock model` lists names", name);
}

static pst_status add_runs(struct optimizer *o, const struct graph_param *p, pst_error *reterr)
{
    for (size_t at = 0; at < p->count; at += RUN) {
        if (mem_grow((void **)&o->runs, &o->run_capacity, o->run_count + 1, sizeof(*o->runs)) < 0)
            return fail_memory(reterr, "making the optimiser");
        o->runs[o->run_count++] = (struct run){.offset = p->offset + at,
                                               .count = p->count - at < RUN ? p->count - at : RUN,
                                               .decays = p->layer.rank >= 2};
    }
    return PST_OK;
}

static pst_status make_states(struct optimizer *o, pst_error *reterr)
{
    bool adam = o->options.kind == PST_OPTIMIZER_ADAM || o->options.kind == PST_OPTIMIZER_ADAMW;
    bool needed[OPTIMIZER_STATES] = {true, adam, o->options.ema > 0, o->options.accumulates};
    for (size_t i = 0; i < OPTIMIZER_STATES; i++) {
        size_t bytes = o->graph->values * sizeof(float);
        o->state[i] = needed[i] ? mem_large(bytes ? bytes : 1) : NULL;
        if (needed[i] && !o->state[i])
            return fail_memory(reterr, "making the optimiser");
        if (needed[i])
            memset(o->state[i], 0, bytes);
    }
    o->norms = mem_array(o->run_count + 1, sizeof(*o->norms));
    return o->norms ? PST_OK : fail_memory(reterr, "making the optimiser");
}

pst_status optimizer_create(struct optimizer **ret, const struct graph *g, const struct optimizer_options *options, pst_error *reterr)
{
    struct optimizer *o = mem_zalloc(sizeof(*o));
    if (!o)
        return fail_memory(reterr, "making the optimiser");
    o->options = *options;
    o->kernels = optimizer_kernels(options->features);
    o->graph = g;
    o->trained = mem_array(g->param_count + 1, sizeof(*o->trained));
    pst_status st = o->trained ? PST_OK : fail_memory(reterr, "making the optimiser");
    for (size_t i = 0; st == PST_OK && i < g->param_count; i++)
        o->trained[i] = !g->params[i].layer.fixed;
    for (size_t i = 0; st == PST_OK && i < options->freeze_count; i++)
        st = find_frozen(o, options->freeze[i], reterr);
    o->options.freeze = NULL; /* the caller's */
    for (size_t i = 0; st == PST_OK && i < g->param_count; i++)
        if (o->trained[i])
            st = add_runs(o, &g->params[i], reterr);
    if (st == PST_OK)
        st = make_states(o, reterr);
    if (st < 0)
        optimizer_destroy(o);
    else
        *ret = o;
    return st;
}

struct optimizer *optimizer_destroy(struct optimizer *o)
{
    if (!o)
        return NULL;
    for (size_t i = 0; i < OPTIMIZER_STATES; i++)
        mem_free(o->state[i]);
    mem_free(o->trained);
    mem_free(o->runs);
    mem_free(o->norms);
    mem_free(o);
    return NULL;
}

static void norms(void *user, unsigned worker)
{
    struct optimizer *o = user;
    for (size_t i = worker; i < o->run_count; i += team_size(o->team))
        o->norms[i] = o->kernels->squares(o->grads + o->runs[i].offset, o->runs[i].count);
}

double optimizer_norm(struct optimizer *o, struct team *team, const float *grads)
{
    double sum = 0;
    o->team = team;
    o->grads = grads;
    team_run(team, norms, o);
    for (size_t i = 0; i < o->run_count; i++)
        sum += o->norms[i];
    return sqrt(sum);
}

static void update(void *user, unsigned worker)
{
    struct optimizer *o = user;
    for (size_t i = worker; i < o->run_count; i += team_size(o->team)) {
        const struct run *r = &o->runs[i];
        if (r->offset < o->first_value || r->offset >= o->end_value)
            continue;
        struct optimizer_step s = o->step;
        const float *g = o->grads + r->offset;
        float *w = o->params + r->offset, *m = o->state[0] + r->offset;
        s.decay = r->decays ? o->decay : 0;
        if (o->options.kind == PST_OPTIMIZER_SGD)
            o->kernels->sgd(&s, g, w, m, r->count);
        else if (o->options.kind == PST_OPTIMIZER_NESTEROV)
            o->kernels->nesterov(&s, g, w, m, r->count);
        else if (o->options.kind == PST_OPTIMIZER_LION)
            o->kernels->lion(&s, g, w, m, r->count);
        else
            o->kernels->adam(&s, g, w, m, o->state[1] + r->offset, r->count);
    }
}

/* Fixed parameters have means too: moving statistics belong to the weights of their time. */
static void update_mean(void *user, unsigned worker)
{
    struct optimizer *o = user;
    for (size_t i = worker; i < o->graph->param_count; i += team_size(o->team)) {
        const struct graph_param *p = &o->graph->params[i];
        o->kernels->mean(&o->step, o->params + p->offset, o->state[2] + p->offset, p->count);
    }
}

static void add_gradients(void *user, unsigned worker)
{
    struct optimizer *o = user;
    for (size_t i = worker; i < o->run_count; i += team_size(o->team)) {
        const struct run *r = &o->runs[i];
        o->kernels->add(o->step.scale, o->grads + r->offset, o->state[3] + r->offset, o->first, r->count);
    }
}

void optimizer_accumulate(struct optimizer *o, struct team *team, const float *grads, double weight, bool first)
{
    o->team = team;
    o->grads = grads;
    o->first = first;
    o->step.scale = (float)weight;
    team_run(team, add_gradients, o);
}

static void begin(struct optimizer *o, uint64_t t, double rate, double scale, float *params, const float *grads)
{
    const struct optimizer_options *c = &o->options;
    bool adam = c->kind == PST_OPTIMIZER_ADAM || c->kind == PST_OPTIMIZER_ADAMW;
    double corrected = adam ? rate * sqrt(1 - pow(c->beta2, (double)t)) / (1 - pow(c->beta1, (double)t)) : rate;
    o->step = (struct optimizer_step){.rate = (float)corrected,
                                      .momentum = (float)c->momentum,
                                      .keep1 = (float)(1 - c->beta1),
                                      .keep2 = (float)(1 - c->beta2),
                                      .epsilon = (float)c->epsilon,
                                      .scale = (float)scale,
                                      .limit = c->clip_value > 0 ? (float)c->clip_value : INFINITY,
                                      .ema = (float)(1 - c->ema)};
    o->decay = (float)(rate * c->weight_decay);
    o->params = params;
    o->grads = grads;
}

void optimizer_begin(struct optimizer *o, uint64_t t, double rate, double scale, float *params, const float *grads)
{
    begin(o, t, rate, scale, params, grads);
}

void optimizer_apply_range(struct optimizer *o, struct team *team, size_t offset, size_t count)
{
    o->first_value = offset;
    o->end_value = offset + count;
    o->team = team;
    team_run(team, update, o);
}

void optimizer_end(struct optimizer *o, struct team *team)
{
    o->team = team;
    if (o->state[2])
        team_run(team, update_mean, o);
}

double optimizer_apply(struct optimizer *o, struct team *team, uint64_t t, double rate, double scale, float *params, const float *grads)
{
    const struct optimizer_options *c = &o->options;
    double norm = c->clip_norm > 0 ? scale * optimizer_norm(o, team, grads) : 0;
    begin(o, t, rate, c->clip_norm > 0 && norm > c->clip_norm ? scale * (c->clip_norm / norm) : scale, params, grads);
    optimizer_apply_range(o, team, 0, SIZE_MAX);
    optimizer_end(o, team);
    return norm;
}

float *optimizer_state(struct optimizer *o, size_t i)
{
    return o->state[i];
}

void optimizer_start_mean(struct optimizer *o, const float *params)
{
    if (o->state[2])
        memcpy(o->state[2], params, o->graph->values * sizeof(float));
}

bool optimizer_trains(const struct optimizer *o, size_t p)
{
    return o->trained[p];
}
