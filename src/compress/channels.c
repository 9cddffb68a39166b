/* channels.c: see channels.h. Every channel of every value has an id; what must go together is united. */
#include "compress/channels.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/graph_write.h"
#include "model/layer_conv.h"
#include "model/layer_dense.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct candidate {
    double importance;
    uint32_t root;
};

struct set {
    size_t node;                  /* the first layer that makes its channels */
    struct candidate *candidates; /* channels that may go, the least important first */
    size_t count, all;            /* that may go; that there are */
    size_t gone, unit, fewest;    /* so far; at once; that stay at least */
    double sum;                   /* of all importances */
};

struct channels {
    const struct graph *graph;
    const float *params;
    uint32_t **ids;    /* per value: one per channel */
    uint32_t *parent;  /* per id: towards the root of what is united */
    bool *fixed, *gone; /* per root */
    uint32_t id_count;
    uint32_t *owner;   /* per root: the first layer that makes it */
    uint32_t *tied;    /* per node: towards the first node whose channels are tied to its own */
    double *importance; /* per root */
    struct set *sets;
    size_t set_count;
    uint64_t flops; /* of the original */
};

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

/* Whether the layer makes new channels. */
static bool makes(const struct graph_node *n)
{
    return is_layer(n, "conv") || is_layer(n, "dense");
}

static bool is_grouped(const struct graph_node *n)
{
    return is_layer(n, "conv") && ((const struct conv_config *)n->config)->groups > 1;
}

static uint32_t find(uint32_t *parent, uint32_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* The smaller number becomes the root. */
static void unite(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = find(parent, a);
    b = find(parent, b);
    parent[a > b ? a : b] = a < b ? a : b;
}

/* ---- Ids ---- */

static uint32_t count_ids(const struct graph *g)
{
    uint64_t sum = g->input.c;
    for (size_t i = 0; i < g->count; i++)
        sum += makes(&g->nodes[i]) ? g->nodes[i].out.c : 0;
    return sum < NONE ? (uint32_t)sum : NONE - 1;
}

/* The ids of a node's result: new ones, or those of its inputs. */
static void pass_ids(struct channels *c, size_t node, uint32_t *next)
{
    const struct graph_node *n = &c->graph->nodes[node];
    uint32_t *out = c->ids[node + 1], *in = c->ids[n->input[0]];
    size_t count = n->out.c, at = 0;
    if (makes(n)) {
        for (size_t k = 0; k < count; k++)
            out[k] = (*next)++;
    } else if (is_layer(n, "concat")) {
        for (size_t i = 0; i < n->inputs; at += n->in[i++].c)
            memcpy(out + at, c->ids[n->input[i]], n->in[i].c * sizeof(*out));
    } else {
        for (size_t k = 0; k < count; k++)
            out[k] = in[k % n->in[0].c]; /* flatten: height, width, channel */
        for (size_t i = 1; i < n->inputs; i++)
            for (size_t k = 0; k < count; k++)
                unite(c->parent, out[k], c->ids[n->input[i]][k]);
    }
}

static void fix(struct channels *c, size_t value)
{
    for (size_t k = 0; k < graph_shape(c->graph, value)->c; k++)
        c->fixed[find(c->parent, c->ids[value][k])] = true;
}

/* After everything was united: what cannot go. */
static void fix_all(struct channels *c)
{
    const struct graph *g = c->graph;
    fix(c, 0);
    fix(c, g->count);
    for (size_t i = 0; i < g->count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (is_grouped(n) || is_layer(n, "layernorm") || is_layer(n, "softmax")) {
            fix(c, n->input[0]); /* sums over channels would change, or groups would not divide */
            fix(c, i + 1);
        }
    }
}

static pst_status make_ids(struct channels *c, pst_error *reterr)
{
    const struct graph *g = c->graph;
    uint32_t next = 0;
    c->id_count = count_ids(g);
    c->ids = mem_array(g->count + 1, sizeof(*c->ids));
    c->parent = mem_array(c->id_count + 1, sizeof(*c->parent));
    c->fixed = mem_array(c->id_count + 1, sizeof(*c->fixed));
    c->gone = mem_array(c->id_count + 1, sizeof(*c->gone));
    c->owner = mem_array(c->id_count + 1, sizeof(*c->owner));
    c->importance = mem_array(c->id_count + 1, sizeof(*c->importance));
    c->tied = mem_array(g->count + 1, sizeof(*c->tied));
    bool whole = c->ids && c->parent && c->fixed && c->gone && c->owner && c->importance && c->tied;
    for (size_t v = 0; whole && v <= g->count; v++) {
        c->ids[v] = mem_array(graph_shape(g, v)->c + 1, sizeof(**c->ids));
        whole = c->ids[v];
    }
    if (!whole)
        return fail_memory(reterr, "looking for channels");
    for (uint32_t i = 0; i < c->id_count; i++) {
        c->parent[i] = i;
        c->owner[i] = NONE;
    }
    for (; next < g->input.c; next++)
        c->ids[0][next] = next;
    for (size_t i = 0; i < g->count; i++)
        pass_ids(c, i, &next);
    fix_all(c);
    return PST_OK;
}

/* ---- Importance ---- */

/* The batch normalisation that alone reads the node's result; NULL: there is none. */
static const struct graph_node *norm_after(const struct graph *g, size_t node)
{
    const struct graph_node *found = NULL;
    for (size_t i = node + 1; i < g->count; i++)
        for (size_t k = 0; k < g->nodes[i].inputs; k++)
            if (g->nodes[i].input[k] == node + 1) {
                if (found || !is_layer(&g->nodes[i], "batchnorm"))
                    return NULL;
                found = &g->nodes[i];
            }
    return found;
}

static double channel_norm(const struct channels *c, size_t node, size_t k, pst_channel_norm norm)
{
    const struct graph_node *n = &c->graph->nodes[node], *batch = norm == PST_CHANNEL_SCALE ? norm_after(c->graph, node) : NULL;
    const struct graph_param *p = &c->graph->params[n->first_param];
    const float *w = c->params + p->offset;
    double sum = 0;
    if (batch)
        return fabs((double)c->params[c->graph->params[batch->first_param].offset + k]);
    for (size_t i = k; i < p->count; i += n->out.c)
        sum += norm == PST_CHANNEL_L2 ? (double)w[i] * (double)w[i] : fabs((double)w[i]);
    return norm == PST_CHANNEL_L2 ? sqrt(sum) : sum;
}

/* Adds each channel's share of its layer's norm to what it is tied to: layers count the same, whatever their scale is. */
static void weigh(struct channels *c, pst_channel_norm norm)
{
    for (size_t i = 0; i < c->graph->count; i++) {
        const struct graph_node *n = &c->graph->nodes[i];
        double sum = 0;
        c->tied[i] = (uint32_t)i;
        if (!makes(n))
            continue;
        for (size_t k = 0; k < n->out.c; k++)
            sum += channel_norm(c, i, k, norm);
        for (size_t k = 0; k < n->out.c; k++) {
            uint32_t root = find(c->parent, c->ids[i + 1][k]);
            c->importance[root] += sum > 0 ? channel_norm(c, i, k, norm) / sum : 0;
            if (c->owner[root] == NONE)
                c->owner[root] = (uint32_t)i;
            unite(c->tied, c->owner[root], (uint32_t)i);
        }
    }
}

/* ---- Sets ---- */

static int by_importance(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->importance < y->importance ? -1 : x->importance > y->importance ? 1 : x->root < y->root ? -1 : 1;
}

/* Whole vectors go and stay where a layer has enough of them; a quarter stays. */
static void set_units(struct set *s)
{
    s->unit = s->all >= 16 && s->all % 8 == 0 ? 8 : s->all >= 8 && s->all % 4 == 0 ? 4 : 1;
    s->fewest = (s->all + 3) / 4;
    s->fewest = (s->fewest + s->unit - 1) / s->unit * s->unit;
}

static pst_status make_sets(struct channels *c, pst_error *reterr)
{
    c->sets = mem_array(c->graph->count + 1, sizeof(*c->sets));
    if (!c->sets)
        return fail_memory(reterr, "looking for channels");
    for (size_t i = 0; i < c->graph->count; i++) {
        struct set s = {.node = i};
        if (!makes(&c->graph->nodes[i]) || find(c->tied, (uint32_t)i) != i)
            continue;
        s.candidates = mem_array(c->id_count, sizeof(*s.candidates));
        if (!s.candidates)
            return fail_memory(reterr, "looking for channels");
        for (uint32_t r = 0; r < c->id_count; r++) {
            if (c->parent[r] != r || c->owner[r] == NONE || find(c->tied, c->owner[r]) != i)
                continue;
            s.all++;
            s.sum += c->importance[r];
            if (!c->fixed[r])
                s.candidates[s.count++] = (struct candidate){c->importance[r], r};
        }
        if (s.count > 1)
            qsort(s.candidates, s.count, sizeof(*s.candidates), by_importance);
        set_units(&s);
        if (s.count)
            c->sets[c->set_count++] = s;
        else
            mem_free(s.candidates);
    }
    return PST_OK;
}

pst_status channels_create(struct channels **ret, const struct graph *g, const float *params, pst_channel_norm norm, pst_error *reterr)
{
    struct channels *c = mem_zalloc(sizeof(*c));
    if (!c)
        return fail_memory(reterr, "looking for channels");
    c->graph = g;
    c->params = params;
    pst_status st = make_ids(c, reterr);
    if (st == PST_OK) {
        weigh(c, norm);
        st = make_sets(c, reterr);
    }
    if (st < 0) {
        channels_destroy(c);
        return st;
    }
    c->flops = channels_flops(c);
    *ret = c;
    return PST_OK;
}

struct channels *channels_destroy(struct channels *c)
{
    if (!c)
        return NULL;
    for (size_t v = 0; c->ids && v <= c->graph->count; v++)
        mem_free(c->ids[v]);
    for (size_t i = 0; i < c->set_count; i++)
        mem_free(c->sets[i].candidates);
    mem_free(c->ids);
    mem_free(c->parent);
    mem_free(c->fixed);
    mem_free(c->gone);
    mem_free(c->owner);
    mem_free(c->importance);
    mem_free(c->tied);
    mem_free(c->sets);
    mem_free(c);
    return NULL;
}

bool channels_named(const struct graph *g, size_t node, const char *name)
{
    const struct graph_node *n = &g->nodes[node];
    bool named = n->params > 0 && fnmatch(name, n->name, 0) == 0;
    for (size_t i = 0; !named && i < n->params; i++)
        named = fnmatch(name, g->params[n->first_param + i].name, 0) == 0;
    return named;
}

/* None of the channels of the node's result goes. */
static void keep_node(struct channels *c, size_t node)
{
    for (size_t k = 0; k < c->graph->nodes[node].out.c; k++) {
        uint32_t owner = c->owner[find(c->parent, c->ids[node + 1][k])];
        for (size_t i = 0; owner != NONE && i < c->set_count; i++)
            if (c->sets[i].node == find(c->tied, owner))
                c->sets[i].count = 0;
    }
}

pst_status channels_keep(struct channels *c, const char *name, pst_error *reterr)
{
    bool found = false;
    for (size_t i = 0; i < c->graph->count; i++)
        if (channels_named(c->graph, i, name)) {
            keep_node(c, i);
            found = true;
        }
    return found ? PST_OK : pst_fail(reterr, PST_EINVAL, "no layer with parameters is called \"%.60s\"; `penstock model` lists names", name);
}

size_t channels_sets(const struct channels *c)
{
    return c->set_count;
}

const char *channels_set_name(const struct channels *c, size_t set)
{
    return c->graph->nodes[c->sets[set].node].name;
}

size_t channels_left(const struct channels *c, size_t set, size_t *ret_all)
{
    *ret_all = c->sets[set].all;
    return c->sets[set].all - c->sets[set].gone;
}

/* ---- Removing ---- */

static bool is_gone(const struct channels *c, uint32_t id)
{
    return c->gone[find(c->parent, id)];
}

/* Channels of a value that are left. */
static size_t left_of(const struct channels *c, size_t value)
{
    size_t left = 0;
    for (size_t k = 0; k < graph_shape(c->graph, value)->c; k++)
        left += !is_gone(c, c->ids[value][k]);
    return left;
}

uint64_t channels_flops(const struct channels *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->graph->count; i++) {
        const struct graph_node *n = &c->graph->nodes[i];
        if (!n->layer->flops)
            continue;
        double share = (double)left_of(c, i + 1) / n->out.c;
        if (makes(n))
            share *= (double)left_of(c, n->input[0]) / n->in[0].c;
        sum += share * (double)n->layer->flops(n->config, n->in, &n->out);
    }
    return (uint64_t)(sum + 0.5);
}

static bool can_remove(const struct set *s)
{
    return s->gone + s->unit <= s->count && s->all - s->gone >= s->fewest + s->unit;
}

static void mark(struct channels *c, struct set *s, size_t first, bool gone)
{
    for (size_t i = first; i < first + s->unit; i++)
        c->gone[s->candidates[i].root] = gone;
}

bool channels_remove(struct channels *c, size_t set)
{
    struct set *s = &c->sets[set];
    if (!can_remove(s))
        return false;
    mark(c, s, s->gone, true);
    s->gone += s->unit;
    return true;
}

void channels_restore(struct channels *c, size_t set)
{
    struct set *s = &c->sets[set];
    s->gone -= s->unit;
    mark(c, s, s->gone, false);
}

/* The share of a set's norm that its next removal takes. */
static double next_loss(const struct set *s)
{
    double sum = 0;
    for (size_t i = s->gone; i < s->gone + s->unit; i++)
        sum += s->candidates[i].importance;
    return s->sum > 0 ? sum / s->sum : 0;
}

pst_status channels_reduce(struct channels *c, double share, pst_error *reterr)
{
    uint64_t now = channels_flops(c);
    while ((double)now > share * (double)c->flops) {
        size_t best = SIZE_MAX;
        double least = INFINITY;
        for (size_t i = 0; i < c->set_count; i++) {
            double loss = can_remove(&c->sets[i]) ? next_loss(&c->sets[i]) : 0;
            if (!channels_remove(c, i))
                continue;
            double saved = (double)now - (double)channels_flops(c), cost = saved > 0 ? (loss + 1e-9) / saved : INFINITY;
            channels_restore(c, i);
            if (cost < least) {
                least = cost;
                best = i;
            }
        }
        if (best == SIZE_MAX)
            return pst_fail(reterr, PST_ELIMIT, "channels can go until %.0f %% of the operations are left, not %.0f %%: a quarter of each layer stays, and what is excluded",
                            100. * (double)now / (double)(c->flops ? c->flops : 1), 100 * share);
        channels_remove(c, best);
        now = channels_flops(c);
    }
    return PST_OK;
}

/* ---- The smaller model ---- */

static void change_config(void *user, size_t node, void *config)
{
    const struct channels *c = user;
    const struct graph_node *n = &c->graph->nodes[node];
    if (is_layer(n, "conv"))
        ((struct conv_config *)config)->filters = left_of(c, node + 1);
    else if (is_layer(n, "dense"))
        ((struct dense_config *)config)->units = left_of(c, node + 1);
}

/* Copies what is left of a parameter: (…, inputs, outputs) of a layer that makes channels, (…, channels) of others. */
static void copy_param(const struct channels *c, const struct graph_param *p, const float *from, float *to)
{
    const struct graph_node *n = &c->graph->nodes[p->node];
    size_t outputs = p->layer.shape[p->layer.rank - 1], rows = p->count / outputs;
    const uint32_t *out = c->ids[p->node + 1], *in = c->ids[n->input[0]];
    bool kernel = makes(n) && p->layer.rank >= 2 && !is_grouped(n), whole = outputs != n->out.c;
    for (size_t r = 0; r < rows; r++) {
        if (kernel && is_gone(c, in[r % n->in[0].c]))
            continue;
        for (size_t k = 0; k < outputs; k++)
            if (whole || !is_gone(c, out[k]))
                *to++ = from[r * outputs + k];
    }
}

pst_status channels_shrink(const struct channels *c, char **ret_text, struct graph **ret, float **ret_params, pst_error *reterr)
{
    struct graph_edit edit = {.user = (void *)(uintptr_t)c, .change = change_config};
    struct graph *g = NULL;
    float *params = NULL;
    char *text = NULL;
    pst_status st = graph_write(c->graph, &edit, &text, reterr);
    if (st == PST_OK)
        st = graph_create(&g, text, &c->graph->input, reterr);
    if (st == PST_OK) {
        params = mem_large((g->values ? g->values : 1) * sizeof(float));
        st = params ? PST_OK : fail_memory(reterr, "shrinking the model");
    }
    if (st == PST_OK && g->param_count != c->graph->param_count)
        st = pst_fail(reterr, PST_EUNSUPPORTED, "shrinking the model: the smaller one has other parameters");
    if (st == PST_OK)
        memset(params, 0, g->values * sizeof(float));
    for (size_t i = 0; st == PST_OK && i < g->param_count; i++) /* both have the same layers in the same order */
        copy_param(c, &c->graph->params[i], c->params + c->graph->params[i].offset, params + g->params[i].offset);
    if (st < 0) {
        graph_destroy(g);
        mem_free(params);
        mem_free(text);
        return st;
    }
    *ret_text = text;
    *ret = g;
    *ret_params = params;
    return PST_OK;
}

void channels_ignore(const struct channels *c, float *params)
{
    for (size_t i = 0; i < c->graph->count; i++) {
        const struct graph_node *n = &c->graph->nodes[i];
        const struct graph_param *p = &c->graph->params[n->first_param];
        if (!makes(n) || is_grouped(n))
            continue;
        for (size_t r = 0; r < p->count / n->out.c; r++)
            if (is_gone(c, c->ids[n->input[0]][r % n->in[0].c]))
                memset(params + p->offset + r * n->out.c, 0, n->out.c * sizeof(float));
    }
}
