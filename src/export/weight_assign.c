/* weight_assign.c: which array of a file belongs to which parameter. See weight_file.h. */
#include "export/weight_file.h"

#include "base/error.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum role { KERNEL, BIAS, GAMMA, BETA, MEAN, VARIANCE, ROLES };
enum kind { CONV, DEPTHWISE, DENSE, BATCHNORM, LAYERNORM, KINDS };

static const char *const role_names[ROLES] = {"kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance"};
static const char *const kind_layers[KINDS] = {"conv", "dwconv", "dense", "batchnorm", "layernorm"};

/* The arrays of one layer of the file. */
struct module {
    const char *name; /* the beginning of the arrays' names… */
    size_t length;    /* …so long */
    enum kind kind;
    bool torch;       /* layouts of PyTorch */
    const struct safetensor *array[ROLES];
    bool used;
    bool separable;   /* half of a separable convolution */
    const struct safetensor *point; /* of a separable convolution: its second kernel */
};

struct modules {
    struct module *list;
    size_t count;
};

/* ---- Names ---- */

static bool is(const char *s, const char *word)
{
    return strcmp(s, word) == 0;
}

/* Numbers in names compare as numbers. */
static int natural(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0, k = 0;
    while (i < n && k < m) {
        bool digits = a[i] >= '0' && a[i] <= '9' && b[k] >= '0' && b[k] <= '9';
        if (!digits) {
            if (a[i] != b[k])
                return (unsigned char)a[i] < (unsigned char)b[k] ? -1 : 1;
            i++;
            k++;
            continue;
        }
        uint64_t x = 0, y = 0;
        for (; i < n && a[i] >= '0' && a[i] <= '9'; i++)
            x = x * 10 + (uint64_t)(a[i] - '0');
        for (; k < m && b[k] >= '0' && b[k] <= '9'; k++)
            y = y * 10 + (uint64_t)(b[k] - '0');
        if (x != y)
            return x < y ? -1 : 1;
    }
    return i < n ? 1 : k < m ? -1 : 0;
}

static int by_name(const void *a, const void *b)
{
    const struct module *x = a, *y = b;
    return natural(x->name, x->length, y->name, y->length);
}

/* The last part of a name, after "." or "/"; `*ret_before` is the length of what comes before. */
static const char *last_part(const char *name, size_t *ret_before)
{
    const char *end = name + strlen(name), *s = end;
    while (s > name && s[-1] != '.' && s[-1] != '/')
        s--;
    *ret_before = s > name ? (size_t)(s - name) - 1 : 0;
    return s;
}

/* ---- Modules ---- */

static struct module *find_module(struct modules *m, const char *name, size_t length)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->list[i].length == length && memcmp(m->list[i].name, name, length) == 0)
            return &m->list[i];
    m->list[m->count] = (struct module){.name = name, .length = length};
    return &m->list[m->count++];
}

/* The class of a Keras layer is in the name of its group: "layers/depthwise_conv2d_3". */
static enum kind keras_kind(const struct module *m, size_t rank)
{
    static const struct {
        const char *word;
        enum kind kind;
    } rows[] = {{"batch_norm", BATCHNORM}, {"layer_norm", LAYERNORM}, {"depthwise", DEPTHWISE}, {"separable", DEPTHWISE}};
    size_t begin = m->length;
    while (begin > 0 && m->name[begin - 1] != '/')
        begin--;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strncmp(m->name + begin, rows[i].word, strlen(rows[i].word)) == 0)
            return rows[i].kind;
    return rank == 2 ? DENSE : rank == 1 ? BATCHNORM : CONV;
}

/* "…/vars/2": the role follows from the number and the class. */
static void add_numbered(struct modules *all, const struct safetensor *x, size_t before, unsigned number)
{
    struct module *m = find_module(all, x->name, before);
    if (number == 0)
        m->kind = keras_kind(m, x->rank);
    bool norm = m->kind == BATCHNORM || m->kind == LAYERNORM;
    if (m->kind == DEPTHWISE && number == 1 && x->rank == 4)
        m->point = x;
    else if (norm && number < 4)
        m->array[GAMMA + number] = x;
    else if (!norm && number < 3)
        m->array[number == 0 ? KERNEL : BIAS] = x;
}

static void add_named(struct modules *all, const struct safetensor *x, const char *part, size_t before)
{
    static const struct {
        const char *name;
        enum role role;
        bool torch;
    } rows[] = {{"weight", KERNEL, true},       {"kernel", KERNEL, false},      {"depthwise_kernel", KERNEL, false},
                {"bias", BIAS, false},          {"gamma", GAMMA, false},        {"beta", BETA, false},
                {"running_mean", MEAN, true},   {"moving_mean", MEAN, false},   {"running_var", VARIANCE, true},
                {"moving_variance", VARIANCE, false}};
    if (is(part, "pointwise_kernel"))
        find_module(all, x->name, before)->point = x;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (is(part, rows[i].name)) {
            struct module *m = find_module(all, x->name, before);
            m->array[rows[i].role] = x;
            m->torch |= rows[i].torch;
            if (is(part, "depthwise_kernel"))
                m->kind = DEPTHWISE;
        }
}

/* Kinds of modules whose arrays have names; PyTorch's normalisations say weight and bias. */
static void settle(struct module *m)
{
    const struct safetensor *kernel = m->array[KERNEL];
    bool norm = m->array[MEAN] || m->array[GAMMA] || (kernel && kernel->rank == 1);
    if (norm)
        m->kind = m->array[MEAN] ? BATCHNORM : LAYERNORM;
    else if (kernel && m->kind != DEPTHWISE)
        m->kind = kernel->rank == 2 ? DENSE : CONV;
    if (norm && kernel) {
        m->array[GAMMA] = kernel;
        m->array[BETA] = m->array[BIAS];
        m->array[KERNEL] = m->array[BIAS] = NULL;
    }
}

/* A separable convolution is a depthwise one and a 1×1 one, which has the bias. */
static void split(struct modules *all)
{
    for (size_t i = 0, n = all->count; i < n; i++) {
        struct module *m = &all->list[i];
        if (!m->point)
            continue;
        m->separable = true;
        all->list[all->count] = *m;
        all->list[all->count].kind = CONV;
        all->list[all->count].array[KERNEL] = m->point;
        all->list[all->count++].point = NULL;
        m->array[BIAS] = NULL;
        m->point = NULL;
    }
}

static pst_status find_modules(struct modules *ret, const struct safetensors *s, pst_error *reterr)
{
    ret->list = mem_array(2 * s->count + 1, sizeof(*ret->list));
    if (!ret->list)
        return fail_memory(reterr, "reading weights");
    for (unsigned pass = 0; pass < 16; pass++) /* Keras's numbers in their order: number 0 decides the class */
        for (size_t i = 0; i < s->count; i++) {
            const struct safetensor *x = &s->tensors[i];
            size_t before, outer;
            const char *part = last_part(x->name, &before);
            bool numbered = before > 5 && memcmp(x->name + before - 5, "/vars", 5) == 0;
            outer = before - 5;
            if (strncmp(x->name, "optimizer", 9) == 0)
                continue;
            if (numbered && strtoul(part, NULL, 10) == pass)
                add_numbered(ret, x, outer, pass);
            else if (!numbered && pass == 0)
                add_named(ret, x, part, before);
        }
    for (size_t i = 0; i < ret->count; i++)
        settle(&ret->list[i]);
    split(ret);
    if (ret->count > 1)
        qsort(ret->list, ret->count, sizeof(*ret->list), by_name);
    return PST_OK;
}

/* ---- Layouts ---- */

/* Rows of PyTorch's dense layers after a flattened image are numbered channel by channel; ours pixel by pixel. */
static size_t torch_row(const struct graph *g, const struct graph_node *n, size_t row)
{
    const struct graph_node *before = n->input[0] ? &g->nodes[n->input[0] - 1] : NULL;
    while (before && before->inputs == 1 && before->params == 0 && before->input[0] && before->in[0].rank == 1) /* dropout, activations */
        before = &g->nodes[before->input[0] - 1];
    if (!before || !is(before->layer->name, "flatten") || before->in[0].rank != 3)
        return row;
    const struct shape *s = &before->in[0];
    return row % s->c * s->h * s->w + row / s->c;
}

/* From PyTorch's order of a kernel to ours. `from` has the same number of values. */
static void transpose(const struct graph *g, const struct graph_param *p, const float *from, float *to)
{
    const uint32_t *s = p->layer.shape;
    const struct graph_node *n = &g->nodes[p->node];
    if (p->layer.rank == 2) {
        for (size_t i = 0; i < s[0]; i++)
            for (size_t o = 0; o < s[1]; o++)
                to[i * s[1] + o] = from[o * s[0] + torch_row(g, n, i)];
        return;
    }
    size_t ins = p->layer.rank == 4 ? s[2] : 1, outs = p->layer.rank == 4 ? s[3] : s[2], at = 0;
    for (size_t y = 0; y < s[0]; y++)
        for (size_t x = 0; x < s[1]; x++)
            for (size_t i = 0; i < ins; i++)
                for (size_t o = 0; o < outs; o++)
                    to[at++] = from[((o * ins + i) * s[0] + y) * s[1] + x];
}

/* Whether an array of the file has the shape that parameter `p` has there. */
static bool fits(const struct graph_param *p, const struct safetensor *x, bool torch)
{
    const uint32_t *s = p->layer.shape;
    uint64_t want[4] = {s[0], s[1], s[2], s[3]};
    uint32_t rank = p->layer.rank;
    if (torch && rank == 2)
        want[0] = s[1], want[1] = s[0];
    else if (torch && rank == 4)
        want[0] = s[3], want[1] = s[2], want[2] = s[0], want[3] = s[1];
    else if (rank == 3) { /* depthwise: C × 1 × H × W, or H × W × C × 1 */
        want[3] = torch ? s[1] : 1;
        if (torch)
            want[0] = s[2], want[1] = 1, want[2] = s[0];
        rank = torch || x->rank == 4 ? 4 : 3;
    }
    bool same = x->rank == rank;
    for (uint32_t i = 0; same && i < rank; i++)
        same = x->shape[i] == want[i];
    return same;
}

static pst_status copy_values(const struct graph *g, const struct graph_param *p, const struct safetensor *x, bool torch, float *params,
                              pst_error *reterr)
{
    float *to = params + p->offset;
    if (!torch || p->layer.rank == 1)
        return weights_convert(to, x->data, x->dtype, p->count)
                   ? PST_OK
                   : pst_fail(reterr, PST_EUNSUPPORTED, "%.80s is of type %s; expected numbers", x->name, x->dtype);
    float *room = mem_array(p->count, sizeof(*room));
    if (!room)
        return fail_memory(reterr, "reading weights");
    bool ok = weights_convert(room, x->data, x->dtype, p->count);
    if (ok)
        transpose(g, p, room, to);
    mem_free(room);
    return ok ? PST_OK : pst_fail(reterr, PST_EUNSUPPORTED, "%.80s is of type %s; expected numbers", x->name, x->dtype);
}

/* ---- Assignment ---- */

static size_t last_with_parameters(const struct graph *g)
{
    size_t last = SIZE_MAX;
    for (size_t n = 0; n < g->count; n++)
        last = g->nodes[n].params ? n : last;
    return last;
}

size_t weights_new_head(const struct weight_file *f, const struct graph *g)
{
    size_t last = last_with_parameters(g);
    for (size_t i = 0; i < g->param_count; i++) {
        const struct safetensor *x = g->params[i].node == last ? safetensors_find(&f->arrays, g->params[i].name) : NULL;
        if (x && !fits(&g->params[i], x, false))
            return last;
    }
    return SIZE_MAX;
}

static pst_status by_own_names(const struct weight_file *f, const struct graph *g, size_t head, float *params, size_t *loaded, pst_error *reterr)
{
    for (size_t i = 0; i < g->param_count; i++) {
        const struct safetensor *x = g->params[i].node == head ? NULL : safetensors_find(&f->arrays, g->params[i].name);
        if (!x)
            continue;
        if (!fits(&g->params[i], x, false))
            return pst_fail(reterr, PST_ETYPE, "%s has another shape in the file than in the model", g->params[i].name);
        pst_status st = copy_values(g, &g->params[i], x, false, params, reterr);
        if (st < 0)
            return st;
        ++*loaded;
    }
    return PST_OK;
}

static int role_of(const char *name)
{
    for (int i = 0; i < ROLES; i++)
        if (is(role_names[i], name))
            return i;
    return -1;
}

static pst_status take_module(const struct graph *g, size_t node, const struct module *m, bool last, float *params, size_t *loaded,
                              pst_error *reterr)
{
    const struct graph_node *n = &g->nodes[node];
    for (size_t i = n->first_param; i < n->first_param + n->params; i++) {
        const struct graph_param *p = &g->params[i];
        int role = role_of(p->layer.name);
        const struct safetensor *x = role >= 0 ? m->array[role] : NULL;
        if (x && fits(p, x, m->torch))
            continue;
        if (last) /* a new head starts fresh */
            return PST_OK;
        return pst_fail(reterr, PST_ETYPE, "%s: %.*s of the file has no %s of the same shape; the file belongs to another model", n->name,
                        (int)(m->length < 80 ? m->length : 80), m->name, p->layer.name);
    }
    for (size_t i = n->first_param; i < n->first_param + n->params; i++) {
        const struct graph_param *p = &g->params[i];
        pst_status st = copy_values(g, p, m->array[role_of(p->layer.name)], m->torch, params, reterr);
        if (st < 0)
            return st;
        ++*loaded;
    }
    return PST_OK;
}

/* The kind of a node; PyTorch has one kind of convolution. -1: no parameters that a file could have. */
static int node_kind(const struct graph_node *n, bool torch)
{
    for (int k = 0; k < KINDS; k++)
        if (is(kind_layers[k], n->layer->name))
            return torch && k == DEPTHWISE ? CONV : k;
    return -1;
}

static bool is_separable(const struct graph_node *n)
{
    return n->written && is(n->written->class.name, "sepconv");
}

/* The first unused module of a kind. Where the file has separable convolutions and the model has sepconv, they belong
 * together. */
static struct module *next_module(const struct modules *all, enum kind kind, bool separable, bool apart)
{
    for (size_t i = 0; i < all->count; i++) {
        struct module *m = &all->list[i];
        if (!m->used && m->kind == kind && (!apart || m->separable == separable))
            return m;
    }
    return NULL;
}

static pst_status by_order(const struct modules *all, const struct graph *g, float *params, size_t *loaded, pst_error *reterr)
{
    size_t last = last_with_parameters(g);
    bool torch = false, theirs = false, ours = false;
    for (size_t i = 0; i < all->count; i++) {
        torch |= all->list[i].torch;
        theirs |= all->list[i].separable;
    }
    for (size_t n = 0; n < g->count; n++)
        ours |= is_separable(&g->nodes[n]);
    for (size_t n = 0; n < g->count; n++) {
        int kind = node_kind(&g->nodes[n], torch);
        bool taken = kind >= 0 && g->nodes[n].params;
        struct module *m = taken ? next_module(all, (enum kind)kind, is_separable(&g->nodes[n]), theirs && ours) : NULL;
        if (!m)
            continue;
        m->used = true;
        pst_status st = take_module(g, n, m, n == last, params, loaded, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

pst_status weights_assign(const struct weight_file *f, const struct graph *g, size_t head, float *params, size_t *ret_loaded, pst_error *reterr)
{
    struct modules all = {0};
    size_t loaded = 0;
    pst_status st = by_own_names(f, g, head, params, &loaded, reterr);
    if (st == PST_OK && loaded == 0)
        st = find_modules(&all, &f->arrays, reterr);
    if (st == PST_OK && loaded == 0)
        st = by_order(&all, g, params, &loaded, reterr);
    mem_free(all.list);
    *ret_loaded = loaded;
    return st;
}
