/* calibrate.c: see calibrate.h. Samples go through the graph node by node, a few at a time. */
#include "quant/calibrate.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "quant/float_node.h"

#include <math.h>

#define CHUNK_VALUES ((size_t)1 << 24) /* of all values of the samples that are computed together */

struct quant_calibration {
    const struct graph *graph;
    struct quant_borders borders;
    struct float_node **nodes;
    struct quant_histogram **histograms; /* per value; NULL: not stored in 8 bits */
    double **sums; /* per value, of each channel; NULL as above */
    float **values;
    void *scratch;
    size_t chunk; /* samples computed together */
    uint64_t samples;
};

static pst_status create_nodes(struct quant_calibration *c, const float *params, pst_error *reterr)
{
    const struct graph *g = c->graph;
    size_t scratch = 0;
    for (size_t i = 0; i < g->count; i++) {
        const float *own[LAYER_MAX_PARAMS] = {NULL};
        for (size_t k = 0; k < g->nodes[i].params; k++)
            own[k] = params + g->params[g->nodes[i].first_param + k].offset;
        pst_status st = float_node_create(&c->nodes[i], &g->nodes[i], own, cpu_features(), -INFINITY, INFINITY, reterr);
        if (st < 0)
            return st;
        size_t bytes = float_node_scratch(c->nodes[i], c->chunk);
        scratch = bytes > scratch ? bytes : scratch;
    }
    c->scratch = mem_aligned(scratch);
    return c->scratch ? PST_OK : fail_memory(reterr, "calibrating");
}

static pst_status allocate(struct quant_calibration *c, pst_error *reterr)
{
    const struct graph *g = c->graph;
    size_t all = 0;
    for (size_t v = 0; v <= g->count; v++)
        all += shape_values(graph_shape(g, v));
    c->chunk = all < CHUNK_VALUES / 16 ? 16 : all < CHUNK_VALUES ? CHUNK_VALUES / all : 1;
    c->nodes = mem_array(g->count + 1, sizeof(struct float_node *));
    c->histograms = mem_array(g->count + 1, sizeof(struct quant_histogram *));
    c->sums = mem_array(g->count + 1, sizeof(double *));
    c->values = mem_array(g->count + 1, sizeof(float *));
    bool whole = c->nodes && c->histograms && c->sums && c->values;
    for (size_t v = 0; whole && v <= g->count; v++) {
        c->values[v] = mem_large(c->chunk * shape_values(graph_shape(g, v)) * sizeof(float));
        c->histograms[v] = c->borders.forms[v] == QUANT_U8 ? mem_zalloc(sizeof(struct quant_histogram)) : NULL;
        c->sums[v] = c->histograms[v] ? mem_array(graph_shape(g, v)->c, sizeof(double)) : NULL;
        whole = c->values[v] && (c->sums[v] || c->borders.forms[v] != QUANT_U8);
    }
    return whole ? PST_OK : fail_memory(reterr, "calibrating");
}

pst_status quant_calibration_create(struct quant_calibration **ret, const struct graph *g, const float *params, pst_error *reterr)
{
    struct quant_calibration *c = mem_zalloc(sizeof(*c));
    if (!c)
        return fail_memory(reterr, "calibrating");
    c->graph = g;
    pst_status st = quant_borders_create(&c->borders, g, reterr);
    if (st == PST_OK)
        st = allocate(c, reterr);
    if (st == PST_OK)
        st = create_nodes(c, params, reterr);
    if (st == PST_OK)
        *ret = c;
    else
        quant_calibration_destroy(c);
    return st;
}

struct quant_calibration *quant_calibration_destroy(struct quant_calibration *c)
{
    if (!c)
        return NULL;
    for (size_t v = 0; v <= c->graph->count; v++) {
        if (c->nodes)
            float_node_destroy(c->nodes[v]);
        mem_free(c->histograms ? c->histograms[v] : NULL);
        mem_free(c->sums ? c->sums[v] : NULL);
        mem_free(c->values ? c->values[v] : NULL);
    }
    quant_borders_finish(&c->borders);
    mem_free(c->nodes);
    mem_free(c->histograms);
    mem_free(c->sums);
    mem_free(c->values);
    mem_free(c->scratch);
    mem_free(c);
    return NULL;
}

static pst_status count_value(struct quant_calibration *c, size_t v, const float *x, size_t n, pst_error *reterr)
{
    struct quant_histogram *h = c->histograms[v];
    if (!h)
        return PST_OK;
    size_t count = n * shape_values(graph_shape(c->graph, v)), channels = graph_shape(c->graph, v)->c;
    quant_histogram_add(h, x, count);
    for (size_t i = 0; i < count; i += channels)
        for (size_t k = 0; k < channels; k++)
            c->sums[v][k] += (double)x[i + k];
    if (!h->nonfinite)
        return PST_OK;
    return pst_fail(reterr, PST_EINVAL, "calibrating: a value of %s is not finite", v ? c->graph->nodes[v - 1].name : "the input");
}

static pst_status feed_chunk(struct quant_calibration *c, const float *in, size_t n, pst_error *reterr)
{
    const struct graph *g = c->graph;
    pst_status st = count_value(c, 0, in, n, reterr);
    for (size_t i = 0; st == PST_OK && i < g->count; i++) {
        const float *inputs[LAYER_MAX_INPUTS];
        for (size_t k = 0; k < g->nodes[i].inputs; k++)
            inputs[k] = g->nodes[i].input[k] ? c->values[g->nodes[i].input[k]] : in;
        float_node_run(c->nodes[i], n, inputs, c->values[i + 1], c->scratch);
        st = count_value(c, i + 1, c->values[i + 1], n, reterr);
    }
    return st;
}

pst_status quant_calibration_feed(struct quant_calibration *c, const float *in, size_t n, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t at = 0; st == PST_OK && at < n; at += c->chunk)
        st = feed_chunk(c, in + at * shape_values(&c->graph->input), n - at < c->chunk ? n - at : c->chunk, reterr);
    c->samples += n;
    return st;
}

pst_status quant_calibration_ranges(const struct quant_calibration *c, enum quant_method method, double share, struct quant_range *ret,
                                    pst_error *reterr)
{
    if (c->samples == 0)
        return pst_fail(reterr, PST_EINVAL, "calibrating: there are no samples");
    for (size_t v = 0; v <= c->graph->count; v++)
        ret[v] = c->histograms[v] ? quant_histogram_range(c->histograms[v], method, share) : (struct quant_range){0, 0};
    return PST_OK;
}

void quant_calibration_means(const struct quant_calibration *c, size_t value, double *ret)
{
    const struct shape *s = graph_shape(c->graph, value);
    double pixels = (double)c->samples * s->h * s->w;
    for (size_t k = 0; k < s->c; k++)
        ret[k] = c->sums[value] && pixels > 0 ? c->sums[value][k] / pixels : 0;
}
