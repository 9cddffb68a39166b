/* fold.c: see fold.h. The tree of the model's text is written without the layers that go, a new graph is built from it, and
 * parameters follow their layers: with scale = gamma / √(variance + eps), kernel · scale and beta + (bias − mean) · scale. */
#include "model/fold.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/layer_conv.h"
#include "model/layer_dense.h"
#include "model/layer_norm.h"

#include <math.h>
#include <string.h>

enum { GAMMA, BETA, MOVING_MEAN, MOVING_VARIANCE };

static bool is_class(const struct lang_node *n, const char *name)
{
    return strcmp(n->class.name, name) == 0;
}

/* ---- The tree ---- */

/* Which nodes of a tree go, by their number in the order of the text. */
struct marks {
    bool gone[LANG_MAX_NODES];
    size_t at; /* the number of the next node of a walk */
};

/* Where the bias is switched, if batch normalisation after this layer can be folded into it; NULL: it cannot. */
static bool *bias_of(const struct lang_node *n)
{
    struct conv_config *conv = n->config;
    struct dense_config *dense = n->config;
    if (is_class(n, "conv") || is_class(n, "dwconv") || is_class(n, "sepconv"))
        return conv->activation == ACT_NONE ? &conv->bias : NULL;
    return is_class(n, "dense") && dense->activation == ACT_NONE ? &dense->bias : NULL;
}

static bool has_others(const struct lang_chain *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (!is_class(c->nodes[i], "dropout"))
            return true;
    return false;
}

/* Marks what goes, and switches on the biases that take its place. */
static void mark_chain(const struct lang_chain *c, struct marks *m)
{
    const struct lang_node *before = NULL; /* the last one that stays */
    for (size_t i = 0; i < c->count; i++) {
        const struct lang_node *n = c->nodes[i];
        bool *gone = &m->gone[m->at++], *bias = before && is_class(n, "batchnorm") ? bias_of(before) : NULL;
        for (size_t k = 0; k < n->child_count; k++)
            mark_chain(&n->children[k], m);
        if (bias)
            *bias = true;
        *gone = bias || (is_class(n, "dropout") && has_others(c));
        before = *gone ? before : n;
    }
}

static void write_chain(const struct lang_chain *c, struct marks *m, struct text *to)
{
    bool first = true;
    for (size_t i = 0; i < c->count; i++) {
        const struct lang_node *n = c->nodes[i];
        if (m->gone[m->at++])
            continue; /* such layers have no children */
        char *head = lang_head(n);
        to->failed |= !head;
        text_addf(to, "%s%s", first ? "" : " | ", head ? head : "");
        mem_free(head);
        first = false;
        for (size_t k = 0; k < n->child_count; k++) {
            text_add(to, " ( ");
            write_chain(&n->children[k], m, to);
            text_add(to, " )");
        }
    }
}

/* The text of the folded model. */
static pst_status fold_text(const struct graph *g, struct marks *m, struct text *to, pst_error *reterr)
{
    struct lang_tree tree = {0};
    char *text = graph_text(g);
    pst_status st = text ? lang_parse(&tree, &model_language, text, reterr) : fail_memory(reterr, "folding the model");
    if (st == PST_OK) {
        mark_chain(&tree.top, m);
        m->at = 0;
        write_chain(&tree.top, m, to);
        st = to->failed ? fail_memory(reterr, "folding the model") : PST_OK;
    }
    lang_finish(&tree);
    mem_free(text);
    return st;
}

/* Whether node `n` of the tree goes: `*at` counts the nodes before it. */
static bool find_mark(const struct lang_chain *c, const struct lang_node *n, const struct marks *m, size_t *at, bool *ret)
{
    for (size_t i = 0; i < c->count; i++) {
        *ret = m->gone[(*at)++];
        if (c->nodes[i] == n)
            return true;
        for (size_t k = 0; k < c->nodes[i]->child_count; k++)
            if (find_mark(&c->nodes[i]->children[k], n, m, at, ret))
                return true;
    }
    return false;
}

/* ---- Parameters ---- */

static const struct graph_node *find_node(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->nodes[i].name, name) == 0)
            return &g->nodes[i];
    return NULL;
}

/* Whether a node of the old graph is not part of the new one. Nodes of a shortcut that nothing in the text names go by name. */
static bool is_gone(const struct graph *g, const struct graph *to, const struct marks *m, const struct graph_node *n)
{
    bool gone = false;
    size_t at = 0;
    if (strcmp(n->layer->name, "batchnorm") != 0 && strcmp(n->layer->name, "dropout") != 0)
        return false;
    if (n->written && !is_class(n->written, n->layer->name))
        return !find_node(to, n->name);
    return n->written && find_mark(&g->tree.top, n->written, m, &at, &gone) && gone;
}

struct folding {
    const struct graph *from, *to;
    const float *old;
    float *new;
};

static void copy_params(const struct folding *f, const struct graph_node *from, const struct graph_node *to)
{
    for (size_t i = 0; i < from->params; i++) {
        const struct graph_param *p = &f->from->params[from->first_param + i], *q = &f->to->params[to->first_param + i];
        memcpy(f->new + q->offset, f->old + p->offset, p->count * sizeof(float));
    }
}

/* The parameters of `to`, which has a bias, after batch normalisation `norm`. */
static void fold_norm(const struct folding *f, const struct graph_node *norm, const struct graph_node *to)
{
    const struct norm_config *config = norm->config;
    const struct graph_param *p = &f->from->params[norm->first_param], *kernel = &f->to->params[to->first_param];
    float *w = f->new + kernel->offset, *bias = f->new + f->to->params[to->first_param + 1].offset;
    size_t channels = norm->out.c;
    for (size_t c = 0; c < channels; c++) {
        double scale = (double)f->old[p[GAMMA].offset + c] / sqrt((double)f->old[p[MOVING_VARIANCE].offset + c] + config->eps);
        for (size_t k = c; k < kernel->count; k += channels)
            w[k] = (float)(w[k] * scale);
        bias[c] = (float)((double)f->old[p[BETA].offset + c] + ((double)bias[c] - (double)f->old[p[MOVING_MEAN].offset + c]) * scale);
    }
}

/* Both graphs have the same nodes in the same order, but for those that are gone. */
static pst_status move_params(const struct folding *f, const struct marks *m, pst_error *reterr)
{
    size_t at = 0;
    for (size_t i = 0; i < f->from->count; i++) {
        const struct graph_node *n = &f->from->nodes[i];
        if (is_gone(f->from, f->to, m, n)) {
            if (n->params)
                fold_norm(f, n, &f->to->nodes[at - 1]);
            continue;
        }
        if (at == f->to->count || f->to->nodes[at].layer != n->layer)
            return pst_fail(reterr, PST_EINVAL, "folding changed the order of the layers at %s", n->name);
        copy_params(f, n, &f->to->nodes[at++]);
    }
    return PST_OK;
}

pst_status graph_fold(struct graph **ret, float **ret_params, const struct graph *g, const float *params, pst_error *reterr)
{
    struct marks *m = mem_zalloc(sizeof(*m));
    struct text text = {0};
    struct graph *to = NULL;
    float *new = NULL;
    pst_status st = m ? fold_text(g, m, &text, reterr) : fail_memory(reterr, "folding the model");
    if (st == PST_OK)
        st = graph_create(&to, text.data, &g->input, reterr);
    if (st == PST_OK) {
        new = mem_large((to->values ? to->values : 1) * sizeof(float));
        st = new ? PST_OK : fail_memory(reterr, "folding the model");
    }
    if (st == PST_OK) {
        memset(new, 0, to->values * sizeof(float));
        st = move_params(&(struct folding){.from = g, .to = to, .old = params, .new = new}, m, reterr);
    }
    text_finish(&text);
    mem_free(m);
    if (st < 0) {
        graph_destroy(to);
        mem_free(new);
        return st;
    }
    *ret = to;
    *ret_params = new;
    return PST_OK;
}
