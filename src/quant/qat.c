/* qat.c: see qat.h. */
#include "quant/qat.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/graph_write.h"
#include "model/layer_fakequant.h"

#include <stdio.h>
#include <string.h>

enum { LOW, HIGH };

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

bool qat_is(const struct graph *g, unsigned *ret_bits)
{
    for (size_t i = 0; i < g->count; i++)
        if (is_layer(&g->nodes[i], "fakequant")) {
            if (ret_bits)
                *ret_bits = (unsigned)((const struct fakequant_config *)g->nodes[i].config)->weight_bits;
            return true;
        }
    return false;
}

/* The range of a fakequant node. */
static struct quant_range range_of(const struct graph *g, const float *params, const struct graph_node *n)
{
    const struct graph_param *p = &g->params[n->first_param];
    return (struct quant_range){params[p[LOW].offset], params[p[HIGH].offset]};
}

float qat_scale(const struct graph *g, const float *params, size_t v)
{
    for (; v > 0; v = g->nodes[v - 1].input[0]) {
        const struct graph_node *n = &g->nodes[v - 1];
        if (is_layer(n, "fakequant")) {
            struct quant_range r = range_of(g, params, n);
            return r.low == 0 && r.high == 0 ? 0 : quant_value_of(r).scale;
        }
        if (!is_layer(n, "maxpool") && !is_layer(n, "flatten"))
            return 0;
    }
    return 0;
}

/* Copies parameters of nodes that have the same name in both graphs. */
static void copy_by_name(const struct graph *from, const float *old, const struct graph *to, float *new)
{
    for (size_t i = 0; i < from->param_count; i++)
        for (size_t k = 0; k < to->param_count; k++)
            if (strcmp(from->params[i].name, to->params[k].name) == 0 && from->params[i].count == to->params[k].count)
                memcpy(new + to->params[k].offset, old + from->params[i].offset, from->params[i].count * sizeof(float));
}

/* The graph of `text` and room for its parameters, with those that `from` has. */
static pst_status build(struct graph **ret, float **ret_params, const char *text, const struct graph *from, const float *params,
                        pst_error *reterr)
{
    struct graph *g = NULL;
    pst_status st = graph_create(&g, text, &from->input, reterr);
    if (st < 0)
        return st;
    float *new = mem_large((g->values ? g->values : 1) * sizeof(float));
    if (!new) {
        graph_destroy(g);
        return fail_memory(reterr, "preparing quantisation");
    }
    memset(new, 0, g->values * sizeof(float));
    copy_by_name(from, params, g, new);
    *ret = g;
    *ret_params = new;
    return PST_OK;
}

/* ---- Adding ---- */

struct adding {
    const struct quant_borders *borders;
    const struct graph *graph;
    unsigned bits;
};

/* Values that are rounded anew: results of maxima and flatten are already. */
static bool is_rounded(const struct adding *a, size_t value)
{
    if (a->borders->forms[value] != QUANT_U8)
        return false;
    const struct graph_node *n = value ? &a->graph->nodes[value - 1] : NULL;
    return !n || (!is_layer(n, "maxpool") && !is_layer(n, "flatten"));
}

static void add_layer(void *user, size_t value, struct text *to)
{
    const struct adding *a = user;
    if (is_rounded(a, value))
        text_addf(to, "fakequant weight_bits=%u name=round_%zu", a->bits, value);
}

pst_status qat_create(struct graph **ret, char **ret_text, float **ret_params, const struct graph *folded, const float *params,
                      const struct quant_range *ranges, unsigned weight_bits, pst_error *reterr)
{
    struct quant_borders borders = {0};
    struct adding a = {.borders = &borders, .graph = folded, .bits = weight_bits};
    char *text = NULL, name[48];
    struct graph *g = NULL;
    float *new = NULL;
    pst_status st = quant_borders_create(&borders, folded, reterr);
    if (st == PST_OK)
        st = graph_write(folded, &(struct graph_edit){.user = &a, .after = add_layer}, &text, reterr);
    if (st == PST_OK)
        st = build(&g, &new, text, folded, params, reterr);
    for (size_t v = 0; st == PST_OK && v <= folded->count; v++) {
        snprintf(name, sizeof(name), "round_%zu", v);
        const struct graph_node *n = is_rounded(&a, v) ? graph_find_node(g, name) : NULL;
        if (!n)
            continue;
        new[g->params[n->first_param + LOW].offset] = ranges[v].low;
        new[g->params[n->first_param + HIGH].offset] = ranges[v].high;
    }
    quant_borders_finish(&borders);
    if (st < 0) {
        mem_free(text);
        return st;
    }
    *ret = g;
    *ret_text = text;
    *ret_params = new;
    return PST_OK;
}

/* ---- Removing ---- */

static bool skip_layer(void *user, size_t node)
{
    return is_layer(&((const struct graph *)user)->nodes[node], "fakequant");
}

/* Ranges of the values of the stripped graph: nodes come in the same order. */
static void move_ranges(const struct graph *g, const float *params, struct quant_range *ranges)
{
    size_t at = 0; /* the value of the stripped graph that stands for value i of g */
    for (size_t i = 0; i < g->count; i++) {
        if (!is_layer(&g->nodes[i], "fakequant"))
            at++;
        else
            ranges[at] = range_of(g, params, &g->nodes[i]);
    }
}

pst_status qat_strip(struct graph **ret, float **ret_params, struct quant_range **ret_ranges, const struct graph *g, const float *params,
                     pst_error *reterr)
{
    char *text = NULL;
    struct graph *to = NULL;
    float *new = NULL;
    struct quant_range *ranges = NULL;
    pst_status st = graph_write(g, &(struct graph_edit){.user = (void *)(uintptr_t)g, .skip = skip_layer}, &text, reterr);
    if (st == PST_OK)
        st = build(&to, &new, text, g, params, reterr);
    if (st == PST_OK) {
        ranges = mem_array(to->count + 1, sizeof(*ranges));
        st = ranges ? PST_OK : fail_memory(reterr, "quantising");
    }
    mem_free(text);
    if (st < 0) {
        graph_destroy(to);
        mem_free(new);
        return st;
    }
    move_ranges(g, params, ranges);
    *ret = to;
    *ret_params = new;
    *ret_ranges = ranges;
    return PST_OK;
}
