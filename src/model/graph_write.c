/* graph_write.c: see graph_write.h. A value is written as the chain from the value that dominates it: from a join back to where its
 * branches begin. */
#include "model/graph_write.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/layer_conv.h"
#include "model/layer_dense.h"

#include <string.h>

struct writer {
    const struct graph *graph;
    const struct graph_edit *edit;
    size_t *dominator; /* of each value: the last one that every way to it passes */
    bool *written; /* per node: a second time would double it, and all that it reads */
    bool crossed;
};

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

static size_t meet(const struct writer *w, size_t a, size_t b)
{
    while (a != b) {
        if (a > b)
            a = w->dominator[a];
        else
            b = w->dominator[b];
    }
    return a;
}

static void find_dominators(struct writer *w)
{
    for (size_t i = 0; i < w->graph->count; i++) {
        const struct graph_node *n = &w->graph->nodes[i];
        size_t d = n->input[0];
        for (size_t k = 1; k < n->inputs; k++)
            d = meet(w, d, n->input[k]);
        w->dominator[i + 1] = d;
    }
}

/* Name and arguments of a node. Its activation is a node of its own. */
static void write_head(const struct writer *w, size_t node, const char *class, struct text *to)
{
    const struct graph_node *n = &w->graph->nodes[node];
    const struct layer_class *layer = n->layer;
    void *config = mem_zalloc(layer->config_size);
    if (!config) {
        to->failed = true;
        return;
    }
    memcpy(config, n->config, layer->config_size);
    ((struct layer_config *)config)->name = n->name;
    if (is_layer(n, "conv") || is_layer(n, "dwconv"))
        ((struct conv_config *)config)->activation = ACT_NONE;
    else if (is_layer(n, "dense"))
        ((struct dense_config *)config)->activation = ACT_NONE;
    if (w->edit->change)
        w->edit->change(w->edit->user, node, config);
    struct lang_node head = {.class = {.name = class, .params = layer->params, .positional = layer->positional,
                                       .config_size = layer->config_size, .max_children = n->inputs > 1},
                             .config = config};
    char *text = lang_head(&head);
    to->failed |= !text;
    text_add(to, text ? text : "");
    mem_free(text);
    mem_free(config);
}

static void write_chain(struct writer *w, size_t value, size_t from, struct text *to);

static void write_separator(struct text *to, size_t begin)
{
    text_add(to, to->length > begin ? " | " : "");
}

/* A join: `add` and `concat` of chains, one of which may have no layers; a sum of two is a residual, which leaves that one out. */
static void write_join(struct writer *w, size_t node, struct text *to)
{
    const struct graph_node *n = &w->graph->nodes[node];
    size_t base = w->dominator[node + 1], empty = 0;
    struct text chains[LAYER_MAX_INPUTS] = {{0}};
    for (size_t k = 0; k < n->inputs; k++) {
        write_chain(w, n->input[k], base, &chains[k]);
        to->failed |= chains[k].failed;
        empty += chains[k].length == 0;
    }
    bool sum = is_layer(n, "add");
    if (empty > 1)
        w->crossed = true;
    write_head(w, node, sum && n->inputs == 2 ? "residual" : n->layer->name, to);
    for (size_t k = 0; k < n->inputs; k++)
        if (chains[k].length)
            text_addf(to, " ( %s )", chains[k].data);
        else if (!sum || n->inputs > 2)
            text_add(to, " ( )");
    for (size_t k = 0; k < n->inputs; k++)
        text_finish(&chains[k]);
}

/* Appends the layers between value `from` and value `value`. */
static void write_chain(struct writer *w, size_t value, size_t from, struct text *to)
{
    size_t begin = to->length;
    if (value < from || to->failed || w->crossed) {
        w->crossed |= value < from;
        return;
    }
    if (value == from)
        return;
    const struct graph_node *n = &w->graph->nodes[value - 1];
    struct text more = {0};
    if (w->written[value - 1]) {
        w->crossed = true;
        return;
    }
    w->written[value - 1] = true;
    write_chain(w, w->dominator[value], from, to);
    if (n->inputs > 1) {
        write_separator(to, begin);
        write_join(w, value - 1, to);
    } else if (!w->edit->skip || !w->edit->skip(w->edit->user, value - 1)) {
        write_separator(to, begin);
        write_head(w, value - 1, n->layer->name, to);
    }
    if (w->edit->after)
        w->edit->after(w->edit->user, value, &more);
    if (more.length) {
        write_separator(to, begin);
        text_add(to, more.data);
    }
    to->failed |= more.failed;
    text_finish(&more);
}

pst_status graph_write(const struct graph *g, const struct graph_edit *edit, char **ret, pst_error *reterr)
{
    static const struct graph_edit none = {0};
    struct writer w = {.graph = g, .edit = edit ? edit : &none, .dominator = mem_array(g->count + 1, sizeof(*w.dominator)),
                       .written = mem_array(g->count + 1, sizeof(*w.written))};
    struct text to = {0}, rest = {0};
    if (!w.dominator || !w.written) {
        mem_free(w.dominator);
        mem_free(w.written);
        return fail_memory(reterr, "writing the model");
    }
    find_dominators(&w);
    if (w.edit->after)
        w.edit->after(w.edit->user, 0, &to);
    write_chain(&w, g->count, 0, &rest);
    write_separator(&to, 0);
    text_add(&to, rest.data ? rest.data : "");
    to.failed |= rest.failed;
    text_finish(&rest);
    mem_free(w.dominator);
    mem_free(w.written);
    pst_status st = to.failed   ? fail_memory(reterr, "writing the model")
                    : w.crossed ? pst_fail(reterr, PST_EUNSUPPORTED, "the model's branches cross; it has no form as text")
                                : PST_OK;
    if (st < 0)
        text_finish(&to);
    else
        *ret = to.data;
    return st;
}

const struct graph_node *graph_find_node(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->nodes[i].name, name) == 0)
            return &g->nodes[i];
    return NULL;
}
