/* infer_run.c: see infer.h: contexts, and samples on their way through a plan. */
#include "infer/infer_plan.h"
#include "infer/share.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/convert_input.h"
#include "model/team.h"

#include <string.h>

#define CHUNK 512 /* numbers of the input that are converted together */

struct infer_context {
    const struct infer_plan *plan;
    struct team *team;
    unsigned threads;
    char *arena; /* one per worker */
    size_t pitch;
    bool measures;
    uint64_t *times, *best; /* of each operation; worker 0 writes */
    /* The run at hand. */
    const char *input;
    pst_dtype dtype;
    size_t samples;
    float *out;
};

static size_t worker_bytes(const struct infer_plan *p)
{
    return p->arena_bytes + 64; /* arenas of neighbours begin in different sets of a cache */
}

pst_status infer_context_create(struct infer_context **ret, const struct infer_plan *p, unsigned threads, pst_error *reterr)
{
    struct infer_context *c = mem_zalloc(sizeof(*c));
    if (!c)
        return fail_memory(reterr, "preparing predictions");
    c->plan = p;
    c->threads = threads ? threads : 1;
    c->pitch = worker_bytes(p);
    c->arena = c->pitch <= SIZE_MAX / c->threads ? mem_large(c->pitch * c->threads) : NULL;
    c->times = mem_array(2 * p->count, sizeof(*c->times));
    pst_status st = c->arena && c->times ? team_create(&c->team, c->threads, reterr) : fail_memory(reterr, "preparing predictions");
    if (st < 0) {
        c->team = NULL;
        infer_context_destroy(c);
        return st;
    }
    c->best = c->times + p->count;
    *ret = c;
    return PST_OK;
}

struct infer_context *infer_context_destroy(struct infer_context *c)
{
    if (!c)
        return NULL;
    team_destroy(c->team);
    mem_free(c->arena);
    mem_free(c->times);
    mem_free(c);
    return NULL;
}

uint64_t infer_call_bytes(const struct infer_plan *p, unsigned threads)
{
    return (uint64_t)worker_bytes(p) * threads;
}

/* ---- One group of samples ---- */

/* Samples that pass through the plan together: from number `first` of the run; a worker of its own, or all workers (parts > 1). */
struct group {
    struct infer_context *context;
    char *arena;
    size_t first, count;
    unsigned worker, parts; /* parts 1: the worker alone */
};

/* Value `v` of the samples from number `at` of the group on. */
static char *value_of(const struct group *g, size_t v, size_t at)
{
    const struct infer_plan *p = g->context->plan;
    size_t bytes = infer_value_bytes(p, v);
    if (v == 0 && g->context->dtype == PST_DTYPE_F32 && !p->values[0].quantised)
        return (char *)(uintptr_t)g->context->input + (g->first + at) * bytes;
    return g->arena + p->value_at[v] + (p->whole[v] ? at * bytes : 0);
}

static void meet(const struct group *g)
{
    if (g->parts > 1)
        team_barrier(g->context->team);
}

/* Rounds `count` numbers of the input to integers, by way of floats. */
static void quantise_input(const struct infer_context *c, const char *from, size_t count, uint8_t *to)
{
    const struct quant_value *v = &c->plan->quant->values[0];
    float chunk[CHUNK];
    if (c->dtype == PST_DTYPE_F32) {
        c->plan->kernels.quantise((const float *)(const void *)from, count, v->scale, v->zero, to);
        return;
    }
    for (size_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        convert_to_real(chunk, sizeof(float), from + at * pst_dtype_size(c->dtype), c->dtype, n);
        c->plan->kernels.quantise(chunk, n, v->scale, v->zero, to + at);
    }
}

static void convert_input(const struct group *g, size_t at, size_t count)
{
    const struct infer_context *c = g->context;
    bool quantised = c->plan->values[0].quantised;
    size_t values = shape_values(&c->plan->graph->input), begin = 0, end = count * values, size = pst_dtype_size(c->dtype);
    if (c->dtype == PST_DTYPE_F32 && !quantised)
        return;
    share_units(count * values, CHUNK, g->parts > 1 ? g->worker : 0, g->parts, &begin, &end);
    const char *from = c->input + ((g->first + at) * values + begin) * size;
    char *to = value_of(g, 0, at);
    if (quantised)
        quantise_input(c, from, end - begin, (uint8_t *)to + begin);
    else
        convert_to_real(to + begin * sizeof(float), sizeof(float), from, c->dtype, end - begin);
    meet(g);
}

/* The result of a group, as floats. */
static void store_result(const struct group *g)
{
    const struct infer_plan *p = g->context->plan;
    size_t values = shape_values(infer_out_shape(p)), count = g->count * values;
    float *to = g->context->out + g->first * values;
    const char *from = value_of(g, p->nodes, 0);
    if (p->values[p->nodes].quantised)
        p->kernels.dequantise((const uint8_t *)from, count, p->quant->values[p->nodes].scale, p->quant->values[p->nodes].zero, to);
    else
        memcpy(to, from, count * sizeof(float));
}

static void run_op(const struct group *g, const struct infer_op *op, size_t at, size_t count)
{
    struct infer_context *c = g->context;
    const struct infer_plan *p = c->plan;
    struct infer_call call = {.op = op, .images = count, .parts = g->parts, .part = g->parts > 1 ? g->worker : 0};
    bool measures = c->measures && g->worker == 0;
    uint64_t begin = measures ? clock_ns() : 0;
    for (size_t i = 0; i < op->inputs; i++)
        call.in[i] = value_of(g, op->in[i], at);
    call.out = value_of(g, op->out, at);
    call.scratch = c->arena + g->worker * c->pitch + p->scratch_at;
    op->class->run(&call);
    meet(g);
    if (measures)
        c->times[op - p->ops] += clock_ns() - begin;
}

static void run_group(const struct group *g)
{
    const struct infer_plan *p = g->context->plan;
    if (p->whole[0])
        convert_input(g, 0, g->count);
    for (size_t s = 0; s < p->segment_count; s++)
        for (size_t at = 0; at < g->count; at += p->segments[s].images) {
            size_t count = g->count - at < p->segments[s].images ? g->count - at : p->segments[s].images;
            if (s == 0 && !p->whole[0])
                convert_input(g, at, count);
            for (size_t i = p->segments[s].begin; i < p->segments[s].end; i++)
                run_op(g, &p->ops[i], at, count);
        }
    if (g->parts == 1 || g->worker == 0)
        store_result(g);
    meet(g);
}

/* ---- A run ---- */

/* Every worker takes as many whole samples as all can; what is left is divided inside of the layers. */
static void run_worker(void *user, unsigned worker)
{
    struct infer_context *c = user;
    size_t share = c->samples / c->threads, shared = share * c->threads;
    for (size_t at = 0; at < share; at += c->plan->group)
        run_group(&(struct group){.context = c,
                                  .arena = c->arena + worker * c->pitch,
                                  .first = worker * share + at,
                                  .count = share - at < c->plan->group ? share - at : c->plan->group,
                                  .worker = worker,
                                  .parts = 1});
    if (shared < c->samples && shared > 0)
        team_barrier(c->team); /* the memory of worker 0 is shared by all workers from here on */
    for (size_t at = shared; at < c->samples; at += c->plan->group)
        run_group(&(struct group){.context = c,
                                  .arena = c->arena,
                                  .first = at,
                                  .count = c->samples - at < c->plan->group ? c->samples - at : c->plan->group,
                                  .worker = worker,
                                  .parts = c->threads});
}

void infer_run(struct infer_context *c, const void *input, pst_dtype dtype, size_t n, float *out)
{
    if (n == 0)
        return;
    c->input = input;
    c->dtype = dtype;
    c->samples = n;
    c->out = out;
    if (c->measures)
        memset(c->times, 0, c->plan->count * sizeof(*c->times));
    team_run(c->team, run_worker, c);
    for (size_t i = 0; c->measures && i < c->plan->count; i++)
        c->best[i] = c->best[i] == 0 || c->times[i] < c->best[i] ? c->times[i] : c->best[i];
}

void infer_measure(struct infer_context *c, bool on)
{
    c->measures = on;
    memset(c->best, 0, c->plan->count * sizeof(*c->best));
}

uint64_t infer_time(const struct infer_context *c, size_t op)
{
    return c->best[op];
}
