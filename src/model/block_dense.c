/* block_dense.c: a dense layer on a vector, with the flattening before it.
 *
 * The inputs, not the samples, are divided among the lanes: each lane reads its part of the kernel once for all samples, and
 * its part of the kernel's gradient is complete. Results are sums over the lanes, in their order. */
#include "model/block.h"

#include "base/memory.h"
#include "model/kernels/dense.h"
#include "model/layer_dense.h"
#include "model/strip.h"

#include <stdio.h>
#include <string.h>

#define CONVERTED 256 /* inputs of all samples that are converted at a time */
#define CONVERTED_PITCH (CONVERTED + 16) /* so that the same input of all samples does not fall into few sets of a cache */
#define CACHE_LINE 64
#define GRAIN 16 /* inputs: parts begin at whole cache lines */

struct dense_state {
    const struct dense_kernels *kernels;
    size_t in, out; /* values */
    size_t inputs, units;
    size_t param;
    bool bias;
    size_t sum_floats, sample_floats; /* of a lane */
};

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

/* The dense node that begins at `node`, after a flatten that only it reads; NULL: none. */
static const struct graph_node *find_dense(const struct step_view *v, size_t node)
{
    const struct graph_node *n = &v->graph->nodes[node];
    if (is_layer(n, "flatten") && node + 1 < v->nodes && n[1].inputs == 1 && n[1].input[0] == node + 1 && v->consumers[node + 1] == 1)
        n++;
    return is_layer(n, "dense") && n->in[0].rank == 1 ? n : NULL;
}

bool block_dense_reads(const struct step_view *v, size_t node)
{
    return dense_kernels(v->features) && find_dense(v, node);
}

static size_t match(const struct step_view *v, size_t node, char *why, size_t size)
{
    const struct graph_node *n = find_dense(v, node);
    if (!n || !dense_kernels(v->features)) {
        if (is_layer(&v->graph->nodes[node], "dense"))
            snprintf(why, size, "%s", n ? NO_FEATURES : "its input is an image");
        return 0;
    }
    snprintf(why, size, "lanes share the inputs");
    return (size_t)(n - &v->graph->nodes[node]) + 1;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Inputs of a lane. */
static struct lane_range part_of(const struct dense_state *c, unsigned lane, unsigned lanes)
{
    size_t grains = (c->inputs + GRAIN - 1) / GRAIN, begin = grains * lane / lanes * GRAIN, end = grains * (lane + 1) / lanes * GRAIN;
    return (struct lane_range){begin, (end < c->inputs ? end : c->inputs) - begin};
}

static struct dense_job job_of(struct step *s, const struct dense_state *c, const struct lane_range *part)
{
    return (struct dense_job){.n = step_samples(s),
                              .k = part->count,
                              .co = c->units,
                              .kernel = (const float *)step_param(s, c->param) + part->first * c->units,
                              .x_pitch = c->inputs,
                              .g = step_gradient(s, c->out)};
}

/* The next of `left` inputs from `first` on: all of them where they lie, or a chunk, converted. */
static void load_samples(struct step *s, const struct dense_state *c, size_t first, size_t left, float *samples, struct dense_job *j)
{
    enum number number = step_form(s, c->in)->number;
    const void *x = number_from(step_value(s, c->in), number, first);
    j->k = left;
    j->x = x;
    if (number == NUMBER_F32)
        return;
    j->k = left < CONVERTED ? left : CONVERTED;
    j->x = samples;
    j->x_pitch = CONVERTED_PITCH;
    for (size_t i = 0; i < j->n; i++) {
        const char *from = number_from(x, number, i * c->inputs);
        size_t bytes = j->k * number_bytes(number);
        for (size_t at = 0; at < bytes && j->k < left; at += CACHE_LINE)
            __builtin_prefetch(from + bytes + at); /* the next chunk: samples lie too far apart for the processor to foresee it */
        strip_convert(from, number, j->k, samples + i * CONVERTED_PITCH, NUMBER_F32);
    }
}

/* Gradients of inputs: where they lie, or converted from `samples`. */
static void store_gradient(struct step *s, struct block *b, const struct dense_job *j, size_t first, float *samples, void *scratch)
{
    const struct dense_state *c = b->state;
    enum number number = step_form(s, c->in)->number;
    void *dx = step_gradient(s, c->in);
    bool adds = step_gradient_adds(s, b, c->in);
    if (number == NUMBER_F32) {
        c->kernels->data(j, adds, (float *)dx + first, c->inputs, scratch);
        return;
    }
    for (size_t i = 0; adds && i < j->n; i++)
        strip_convert(number_from(dx, number, i * c->inputs + first), number, j->k, samples + i * CONVERTED_PITCH, NUMBER_F32);
    c->kernels->data(j, adds, samples, CONVERTED_PITCH, scratch);
    for (size_t i = 0; i < j->n; i++)
        strip_convert(samples + i * CONVERTED_PITCH, NUMBER_F32, j->k, number_at(dx, number, i * c->inputs + first), number);
}

static void forward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    const struct dense_state *c = b->state;
    struct lane_range part = part_of(c, lane, lanes);
    struct dense_job j = job_of(s, c, &part);
    float *sum = step_work(s, b, false, lane), *samples = step_scratch(s, lane);
    void *scratch = samples + c->sample_floats;
    memset(sum, 0, c->sum_floats * sizeof(float));
    for (size_t k = 0; k < part.count; k += j.k, j.kernel += j.k * c->units) {
        load_samples(s, c, part.first + k, part.count - k, samples, &j);
        c->kernels->forward(&j, sum, scratch);
    }
}

static void finish(struct step *s, struct block *b, unsigned i, unsigned count)
{
    const struct dense_state *c = b->state;
    const float *bias = c->bias ? step_param(s, c->param + 1) : NULL;
    size_t n = step_samples(s);
    float *out = step_value(s, c->out);
    (void)i, (void)count;
    for (size_t sample = 0; sample < n; sample++, out += c->units)
        for (size_t o = 0; o < c->units; o++) {
            size_t at = (o / DENSE_PANEL * n + sample) * DENSE_PANEL + o % DENSE_PANEL;
            float v = bias ? bias[o] : 0;
            for (unsigned lane = 0; lane < step_lanes(s); lane++)
                v += ((const float *)step_work(s, b, false, lane))[at];
            out[o] = v;
        }
}

static void backward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    const struct dense_state *c = b->state;
    struct lane_range part = part_of(c, lane, lanes);
    struct dense_job j = job_of(s, c, &part);
    float *samples = step_scratch(s, lane), *gradient = step_param_gradient(s, c->param);
    void *scratch = samples + c->sample_floats;
    for (size_t k = 0; k < part.count; k += j.k, j.kernel += j.k * c->units) {
        load_samples(s, c, part.first + k, part.count - k, samples, &j);
        c->kernels->weights(&j, gradient + (part.first + k) * c->units, scratch);
        if (step_gradient(s, c->in))
            store_gradient(s, b, &j, part.first + k, samples, scratch);
    }
}

size_t block_dense_turned_bytes(const struct block *b, size_t inputs)
{
    const struct dense_state *c = b->state;
    return round_up(c->kernels->turned_floats(inputs, c->units) * sizeof(float));
}

void block_dense_turn(struct step *s, struct block *b, size_t input, size_t inputs, float *turned)
{
    const struct dense_state *c = b->state;
    c->kernels->turn((const float *)step_param(s, c->param) + input * c->units, inputs, c->units, turned);
}

void block_dense_fill(struct step *s, struct block *b, size_t first, size_t count, const float *turned, size_t inputs, float *to)
{
    const struct dense_state *c = b->state;
    struct dense_job j = {.n = count, .k = inputs, .co = c->units, .g = (const float *)step_gradient(s, c->out) + first * c->units};
    c->kernels->data_turned(&j, false, turned, to, inputs);
}

static void finish_bias(struct step *s, struct block *b, unsigned i, unsigned count)
{
    const struct dense_state *c = b->state;
    const float *g = step_gradient(s, c->out);
    float *to = step_param_gradient(s, c->param + 1);
    (void)i, (void)count;
    memset(to, 0, c->units * sizeof(float));
    for (size_t sample = 0; sample < step_samples(s); sample++, g += c->units)
        for (size_t o = 0; o < c->units; o++)
            to[o] += g[o];
}

static pst_status plan(const struct step_view *v, struct block *b, pst_error *reterr)
{
    const struct graph_node *n = find_dense(v, b->first);
    const struct dense_config *config = n->config;
    struct dense_state *c = mem_zalloc(sizeof(*c));
    b->state = c;
    if (!c)
        return pst_fail(reterr, PST_ENOMEM, "planning the step: out of memory");
    *c = (struct dense_state){.kernels = dense_kernels(v->features),
                              .in = v->graph->nodes[b->first].input[0],
                              .out = b->first + b->count,
                              .inputs = n->in[0].c,
                              .units = config->units,
                              .param = n->first_param,
                              .bias = config->bias};
    v->forms[c->in].on_demand = block_conv_asks(v, c->in, b);
    size_t scratch = round_up(c->kernels->scratch_bytes(v->options->batch, c->units));
    c->sum_floats = dense_panels(c->units) * v->options->batch * DENSE_PANEL;
    c->sample_floats = v->forms[c->in].number == NUMBER_F32 ? 0 : v->options->batch * CONVERTED_PITCH;
    b->work.bytes = c->sum_floats * sizeof(float);
    b->scratch = c->sample_floats * sizeof(float) + scratch;
    b->forward[0] = (struct block_phase){PHASE_LANES, forward};
    b->forward[1] = (struct block_phase){PHASE_ONCE, finish};
    b->backward[0] = (struct block_phase){PHASE_LANES, backward};
    if (c->bias)
        b->backward[1] = (struct block_phase){PHASE_ONCE, finish_bias};
    return PST_OK;
}

static void free_state(struct block *b)
{
    mem_free(b->state);
}

const struct block_class block_dense = {
    .name = "dense",
    .match = match,
    .plan = plan,
    .free = free_state,
};
