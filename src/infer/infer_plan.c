/* infer_plan.c: see infer.h: which operation runs which nodes, in which groups of samples, and where values lie. */
#include "infer/infer_plan.h"

#include "base/error.h"
#include "base/memory.h"
#include "infer/infer.h"

#include <string.h>

#define CACHE_BYTES ((size_t)256 << 10) /* of inputs and results of an operation: half of a second-level cache */

/* ---- Operations ---- */

/* In the order in which they are asked. The last one takes every node. */
static const struct infer_class *const classes[] = {&infer_i8_conv, &infer_i8_layer, &infer_i8_float, &infer_sparse, &infer_conv, &infer_layer};

static bool is_last_of_logits(const struct graph *g)
{
    const char *name = g->nodes[g->count - 1].layer->name;
    return g->count > 1 && (strcmp(name, "softmax") == 0 || strcmp(name, "sigmoid") == 0);
}

static pst_status divide(struct infer_plan *p, const struct infer_view *v, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t node = 0; st == PST_OK && node < p->nodes;) {
        struct infer_op *op = &p->ops[p->count++];
        for (size_t i = 0; op->count == 0; i++) {
            op->class = classes[i];
            op->count = op->class->match(v, node);
        }
        op->first = node;
        op->out = node + op->count;
        st = op->class->plan(v, op, reterr);
        node += op->count;
    }
    return st;
}

size_t infer_value_bytes(const struct infer_plan *p, size_t value)
{
    return shape_values(graph_shape(p->graph, value)) * p->values[value].bytes;
}

/* ---- Segments: operations that a small group of samples goes through together ---- */

static size_t choose_images(const struct infer_plan *p, const struct infer_op *op)
{
    size_t bytes = infer_value_bytes(p, op->out), images = 1;
    for (size_t i = 0; i < op->inputs; i++)
        bytes += infer_value_bytes(p, op->in[i]);
    size_t wanted = CACHE_BYTES / (bytes ? bytes : 1);
    wanted = wanted < op->images ? op->images : wanted;
    while (images < p->group && 2 * images <= wanted)
        images *= 2;
    return images;
}

static void cut_segments(struct infer_plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        size_t images = choose_images(p, &p->ops[i]);
        struct infer_segment *last = p->segment_count ? &p->segments[p->segment_count - 1] : NULL;
        if (!last || last->images != images)
            p->segments[p->segment_count++] = (struct infer_segment){.begin = i, .images = images};
        p->segments[p->segment_count - 1].end = i + 1;
    }
}

static size_t segment_of(const struct infer_plan *p, size_t op)
{
    size_t s = 0;
    while (p->segments[s].end <= op)
        s++;
    return s;
}

/* ---- Memory of one worker ---- */

/* Where a value is made and read last: operations; value 0 is made by the first. */
static void find_life(const struct infer_plan *p, size_t value, size_t *ret_made, size_t *ret_used)
{
    *ret_made = *ret_used = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (p->ops[i].out == value)
            *ret_made = *ret_used = i;
        for (size_t k = 0; k < p->ops[i].inputs; k++)
            if (p->ops[i].in[k] == value)
                *ret_used = i;
    }
}

/* A value of one segment lives for its group only; others hold all samples of the worker while both segments run. */
static bool place_value(struct infer_plan *p, struct arena_plan *plan, size_t value)
{
    size_t made, used;
    find_life(p, value, &made, &used);
    size_t first = segment_of(p, made), last = segment_of(p, used);
    p->whole[value] = first != last || value == p->nodes;
    size_t images = p->whole[value] ? p->group : p->segments[first].images;
    if (p->whole[value]) {
        made = p->segments[first].begin;
        used = p->segments[last].end - 1;
    }
    size_t slack = p->values[value].quantised ? I8_SLACK : 0; /* integer kernels read beyond the end */
    return arena_plan_add(plan, &p->value_at[value], images * infer_value_bytes(p, value) + slack, made, used);
}

static pst_status place_memory(struct infer_plan *p, pst_error *reterr)
{
    struct arena_plan plan = {0};
    bool ok = place_value(p, &plan, 0);
    for (size_t i = 0; i < p->count; i++) {
        p->scratch_bytes = p->ops[i].scratch > p->scratch_bytes ? p->ops[i].scratch : p->scratch_bytes;
        ok = ok && place_value(p, &plan, p->ops[i].out);
    }
    ok = ok && arena_plan_add(&plan, &p->scratch_at, p->scratch_bytes, 0, p->count - 1);
    ok = ok && arena_plan_solve(&plan, &p->arena_bytes);
    arena_plan_finish(&plan);
    return ok ? PST_OK : fail_memory(reterr, "planning predictions");
}

/* ---- The whole ---- */

static pst_status plan_all(struct infer_plan *p, const struct infer_options *o, const float *params, pst_error *reterr)
{
    size_t values = p->graph->count + 1;
    size_t *consumers = mem_array(values, sizeof(*consumers));
    p->ops = mem_array(p->nodes, sizeof(*p->ops));
    p->segments = mem_array(p->nodes, sizeof(*p->segments));
    p->values = mem_array(values, sizeof(*p->values));
    p->value_at = mem_array(values, sizeof(*p->value_at));
    p->whole = mem_array(values, sizeof(*p->whole));
    bool ok = consumers && p->ops && p->segments && p->values && p->value_at && p->whole;
    struct infer_view v = {.graph = p->graph, .params = params, .nodes = p->nodes, .options = o, .consumers = consumers, .values = p->values};
    pst_status st = ok ? PST_OK : fail_memory(reterr, "planning predictions");
    for (size_t i = 0; ok && i < values; i++)
        p->values[i].bytes = sizeof(float);
    if (ok && o->quant && o->quant->values[0].form == QUANT_U8)
        p->values[0] = (struct infer_value){.bytes = 1, .quantised = true};
    for (size_t i = 0; ok && i < p->nodes; i++)
        for (size_t k = 0; k < p->graph->nodes[i].inputs; k++)
            consumers[p->graph->nodes[i].input[k]]++;
    if (st == PST_OK)
        st = divide(p, &v, reterr);
    if (st == PST_OK) {
        cut_segments(p);
        st = place_memory(p, reterr);
    }
    mem_free(consumers);
    return st;
}

pst_status infer_plan_create(struct infer_plan **ret, const struct graph *g, const float *params, const struct infer_options *o,
                             pst_error *reterr)
{
    struct infer_plan *p = mem_zalloc(sizeof(*p));
    if (!p)
        return fail_memory(reterr, "planning predictions");
    p->graph = g;
    p->quant = o->quant;
    i8_kernels_init(&p->kernels, o->features);
    p->group = o->small ? INFER_SMALL : INFER_GROUP;
    p->nodes = g->count - (o->logits && is_last_of_logits(g));
    pst_status st = plan_all(p, o, params, reterr);
    if (st < 0) {
        infer_plan_destroy(p);
        return st;
    }
    *ret = p;
    return PST_OK;
}

struct infer_plan *infer_plan_destroy(struct infer_plan *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; p->ops && i < p->count; i++)
        if (p->ops[i].class && p->ops[i].class->free)
            p->ops[i].class->free(&p->ops[i]);
    mem_free(p->ops);
    mem_free(p->segments);
    mem_free(p->values);
    mem_free(p->value_at);
    mem_free(p->whole);
    mem_free(p);
    return NULL;
}

const struct shape *infer_out_shape(const struct infer_plan *p)
{
    return graph_shape(p->graph, p->nodes);
}

uint64_t infer_weight_bytes(const struct infer_plan *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->count; i++)
        sum += p->ops[i].weight_bytes;
    return sum;
}

size_t infer_op_count(const struct infer_plan *p)
{
    return p->count;
}

const struct infer_op *infer_op_at(const struct infer_plan *p, size_t i)
{
    return &p->ops[i];
}

void infer_describe(const struct infer_plan *p, struct text *to)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct infer_op *op = &p->ops[i];
        text_addf(to, "%s", p->graph->nodes[op->first].name);
        for (size_t k = 1; k < op->count; k++)
            text_addf(to, " + %s", p->graph->nodes[op->first + k].name);
        text_addf(to, ": %s (%s)", op->class->name, op->why);
        text_addf(to, ", %zu at a time\n", p->segments[segment_of(p, i)].images);
    }
}
