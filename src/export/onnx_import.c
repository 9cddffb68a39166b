/* onnx_import.c: see onnx_import.h. Names become values, nodes are put in order and translated one by one; the graph of layers becomes text. */
#include "export/onnx_import.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "export/onnx_translate.h"
#include "io/file.h"
#include "model/graph_write.h"
#include "model/layer_list.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum { OLDEST_OPSET = 7, MAX_NAMES = 1 << 18 };

bool onnx_is_file(const char *path)
{
    size_t length = strlen(path);
    struct file_info info;
    return length > 5 && strcasecmp(path + length - 5, ".onnx") == 0 && (file_stat(path, &info, NULL) < 0 || !info.is_folder);
}

/* ---- Names ---- */

/* Adds the value of a name; `*ret` is the one that is there already where `*ret_new` is false. */
static struct onnx_value *add_value(struct onnx_translation *t, const char *name, bool *ret_new)
{
    struct onnx_value *found = onnx_find(t, name);
    *ret_new = !found;
    if (found)
        return found;
    struct onnx_value *v = &t->values[t->value_count++];
    v->name = name;
    onnx_index_value(t, t->value_count - 1);
    return v;
}

static pst_status add_constants(struct onnx_translation *t)
{
    for (size_t i = 0; i < t->file->tensor_count; i++) {
        const struct onnx_tensor *c = &t->file->tensors[i];
        bool new;
        if (!c->name[0])
            return onnx_fail(t, PST_ECORRUPT, "a constant has no name");
        struct onnx_value *v = add_value(t, c->name, &new);
        if (!new)
            return onnx_fail(t, PST_ECORRUPT, "two constants are called \"%.60s\"", c->name);
        v->kind = ONNX_CONSTANT;
        v->constant = c;
    }
    return PST_OK;
}

/* The one input that is not a constant. */
static pst_status find_input(struct onnx_translation *t, const struct onnx_file_port **ret)
{
    *ret = NULL;
    for (size_t i = 0; i < t->file->input_count; i++) {
        const struct onnx_file_port *p = &t->file->inputs[i];
        bool new;
        struct onnx_value *v = add_value(t, p->name, &new);
        if (!new && v->kind == ONNX_CONSTANT)
            continue; /* old files list constants as inputs with a default */
        if (!new || !p->name[0])
            return onnx_fail(t, PST_ECORRUPT, "two inputs are called \"%.60s\"", p->name);
        if (*ret)
            return onnx_fail(t, PST_EUNSUPPORTED, "several inputs, \"%.60s\" and \"%.60s\"; models with one are supported", (*ret)->name, p->name);
        *ret = p;
    }
    return *ret ? PST_OK : onnx_fail(t, PST_ECORRUPT, "the graph has no input");
}

static pst_status add_results(struct onnx_translation *t)
{
    for (size_t i = 0; i < t->file->node_count; i++) {
        const struct onnx_file_node *n = &t->file->nodes[i];
        t->node = n;
        for (size_t k = 0; k < n->outs; k++) {
            bool new;
            if (!n->out[k][0])
                continue;
            struct onnx_value *v = add_value(t, n->out[k], &new);
            if (!new)
                return onnx_fail(t, PST_ECORRUPT, "its result \"%.60s\" has a name that is taken", n->out[k]);
            v->maker = i + 1;
        }
    }
    t->node = NULL;
    return PST_OK;
}

/* ---- Order ---- */

enum { NEW, OPEN, DONE };

/* A node whose inputs are being visited. */
struct frame {
    size_t node, next;
};

/* Visits the nodes that `value` needs, depth first. */
static pst_status visit(struct onnx_translation *t, const struct onnx_value *value, struct frame *stack)
{
    size_t depth = 0;
    if (value->maker) {
        stack[depth++] = (struct frame){.node = value->maker - 1};
        t->states[value->maker - 1].visit = OPEN;
    }
    while (depth) {
        struct frame *f = &stack[depth - 1];
        const struct onnx_file_node *n = &t->file->nodes[f->node];
        t->node = n;
        if (f->next == n->ins) {
            t->states[f->node].visit = DONE;
            t->order[t->order_count++] = f->node;
            depth--;
            continue;
        }
        const char *name = n->in[f->next++];
        struct onnx_value *v = onnx_find(t, name);
        if (!v && name[0])
            return onnx_fail(t, PST_ECORRUPT, "its input \"%.60s\" is not defined anywhere", name);
        if (!v || !v->maker || t->states[v->maker - 1].visit == DONE)
            continue;
        if (t->states[v->maker - 1].visit == OPEN)
            return onnx_fail(t, PST_ECORRUPT, "its input \"%.60s\" depends on its own result: the graph has a cycle", name);
        t->states[v->maker - 1].visit = OPEN;
        stack[depth++] = (struct frame){.node = v->maker - 1};
    }
    t->node = NULL;
    return PST_OK;
}

static void count_uses(struct onnx_translation *t, struct onnx_value *result)
{
    for (size_t i = 0; i < t->order_count; i++) {
        const struct onnx_file_node *n = &t->file->nodes[t->order[i]];
        for (size_t k = 0; k < n->ins; k++) {
            struct onnx_value *v = onnx_find(t, n->in[k]);
            if (v) {
                v->uses++;
                v->reader = t->order[i] + 1;
            }
        }
    }
    result->uses++;
}

/* Refuses operators of others before anything looks at names of operators: one of another domain may mean anything. Notes whether there are integers. */
static pst_status check_domains(struct onnx_translation *t)
{
    for (size_t i = 0; i < t->order_count; i++) {
        t->node = &t->file->nodes[t->order[i]];
        t->quantised |= strcmp(t->node->op, "QuantizeLinear") == 0;
        if (t->node->domain[0] && strcmp(t->node->domain, "ai.onnx") != 0)
            return onnx_fail(t, PST_EUNSUPPORTED, "an operator of the domain %.40s; only standard operators are supported", t->node->domain);
    }
    t->node = NULL;
    return PST_OK;
}

/* ---- Input and result ---- */

/* Whether images come as height × width × channels: a Transpose takes them to channels first before anything else depends on the order. */
static bool input_is_nhwc(const struct onnx_translation *t, const struct onnx_value *v)
{
    static const char *const passing[] = {"Pad", "Cast", "Identity", "Mul", "Add", "Sub", "Div", "QuantizeLinear", "DequantizeLinear", NULL};
    static const int64_t wanted[] = {0, 3, 1, 2};
    for (size_t steps = 0; v && v->uses == 1 && v->reader && steps < 64; steps++) {
        const struct onnx_file_node *n = &t->file->nodes[v->reader - 1];
        const struct onnx_file_attribute *perm = onnx_attribute_find(n, "perm");
        bool passes = false;
        if (strcmp(n->op, "Transpose") == 0)
            return perm && perm->ints_count == 4 && memcmp(perm->ints, wanted, sizeof(wanted)) == 0;
        for (size_t i = 0; passing[i]; i++)
            passes |= strcmp(passing[i], n->op) == 0;
        v = passes && n->outs ? onnx_find(t, n->out[0]) : NULL;
    }
    return false;
}

static pst_status set_input(struct onnx_translation *t, const struct onnx_file_port *p)
{
    struct onnx_value *v = onnx_find(t, p->name);
    bool nhwc = p->rank == 4 && input_is_nhwc(t, v);
    const char *axes = p->rank == 2 ? "NC" : nhwc ? "NHWC" : "NCHW";
    struct shape shape = {.rank = p->rank == 2 ? 1 : 3, .h = 1, .w = 1};
    if (!p->shaped || (p->rank != 2 && p->rank != 4))
        return onnx_fail(t, PST_EUNSUPPORTED, "the input \"%.60s\" has %u dimensions; expected a batch of images (4) or of vectors (2)", p->name, p->rank);
    if (p->type != ONNX_FLOAT32 && p->type != ONNX_FLOAT16 && p->type != ONNX_FLOAT64)
        return onnx_fail(t, PST_EUNSUPPORTED, "the input \"%.60s\" is of type %" PRId64 "; expected floats", p->name, p->type);
    for (uint32_t i = 1; i < p->rank; i++) {
        if (p->dims[i] < 1)
            return onnx_fail(t, PST_EUNSUPPORTED, "dimension %u of the input \"%.60s\" is open; export the model with fixed sizes: only the batch may be open", i,
                             p->name);
        if (p->dims[i] > UINT32_MAX)
            return onnx_fail(t, PST_ELIMIT, "dimension %u of the input \"%.60s\" is %" PRId64, i, p->name, p->dims[i]);
        *(axes[i] == 'C' ? &shape.c : axes[i] == 'H' ? &shape.h : &shape.w) = (uint32_t)p->dims[i];
    }
    t->batch = p->dims[0];
    pst_status st = graph_begin(&t->graph, &shape, t->reterr);
    if (st < 0)
        return onnx_fail_inner(t, st);
    t->builder.graph = t->graph;
    onnx_set(t, v, 0, axes);
    return PST_OK;
}

/* Whether the axes stand in the order height, width, channel. */
static bool in_our_order(const struct onnx_value *v)
{
    static const char order[] = "HWC";
    size_t at = 0;
    for (uint32_t i = 1; i < v->rank; i++)
        for (const char *a = v->axes[i]; *a; a++) {
            const char *found = strchr(order + at, *a);
            if (!found)
                return false;
            at = (size_t)(found - order) + 1;
        }
    return true;
}

/* The result is the last value of the graph: a vector, or an image. */
static pst_status finish_result(struct onnx_translation *t, const struct onnx_value *v)
{
    const char *name = v->name;
    size_t ours = v->ours;
    if (v->integers)
        return onnx_fail(t, PST_EUNSUPPORTED, "the result \"%.60s\" is integers; expected DequantizeLinear after it", name);
    if (v->kind != ONNX_VALUE || v->pads[0] || v->pads[1] || v->pads[2] || v->pads[3] || v->rank == 0 || strcmp(v->axes[0], "N") != 0)
        return onnx_fail(t, PST_EUNSUPPORTED, "the result \"%.60s\" is not one row per sample", name);
    bool vector = graph_shape(t->graph, v->ours)->rank == 1, flat = vector, split = false;
    for (uint32_t i = 1; i < v->rank; i++)
        split |= v->axes[i][0] && v->axes[i][1]; /* several axes in one dimension: their order matters */
    flat |= split || shape_values(&v->image) == v->image.c;
    if (flat && !in_our_order(v))
        return onnx_fail(t, PST_EUNSUPPORTED, "the result \"%.60s\" is a flattened image in another order than height, width, channel", name);
    pst_status st = flat && !vector ? onnx_flatten(t, v, &ours) : PST_OK;
    if (st == PST_OK && (t->graph->count == 0 || ours != t->graph->count))
        st = onnx_fail(t, PST_EUNSUPPORTED, "the result \"%.60s\" needs no layer", name);
    return st;
}

/* ---- The whole ---- */

static pst_status prepare(struct onnx_translation *t)
{
    const struct onnx_file *f = t->file;
    size_t names = f->tensor_count + f->input_count, layers = 0, slots = 16;
    for (size_t i = 0; i < f->node_count; i++)
        names += f->nodes[i].outs;
    if (names > MAX_NAMES)
        return onnx_fail(t, PST_ELIMIT, "%zu names; a model can have %d", names, MAX_NAMES);
    while (slots < 2 * names)
        slots *= 2;
    while (layer_at(layers))
        layers++;
    t->mask = slots - 1;
    t->seed = hash_seed();
    t->values = mem_array(names + 1, sizeof(*t->values));
    t->slots = mem_array(slots, sizeof(*t->slots));
    t->states = mem_array(f->node_count + 1, sizeof(*t->states));
    t->order = mem_array(f->node_count + 1, sizeof(*t->order));
    t->builder.counters = mem_array(layers, sizeof(*t->builder.counters));
    t->most = (size_t)1 << 24; /* weights that need no constant: numbers that are repeated for each channel */
    for (size_t i = 0; i < f->tensor_count; i++)
        t->most += 64 * f->tensors[i].count;
    for (size_t i = 0; i < f->node_count; i++)
        for (size_t k = 0; k < f->nodes[i].attribute_count; k++)
            t->most += f->nodes[i].attributes[k].t ? 64 * f->nodes[i].attributes[k].t->count : 0;
    return t->values && t->slots && t->states && t->order && t->builder.counters ? PST_OK : onnx_fail_memory(t);
}

static pst_status order_nodes(struct onnx_translation *t, struct onnx_value *result)
{
    struct frame *stack = mem_array(t->file->node_count + 1, sizeof(*stack));
    pst_status st = stack ? visit(t, result, stack) : onnx_fail_memory(t);
    mem_free(stack);
    return st;
}

static pst_status translate(struct onnx_translation *t)
{
    const struct onnx_file_port *input = NULL;
    struct onnx_value *result = NULL;
    pst_status st = prepare(t);
    if (st == PST_OK && t->file->opset < OLDEST_OPSET)
        st = onnx_fail(t, PST_EUNSUPPORTED, "version %" PRId64 " of the operators; expected %d or newer", t->file->opset, OLDEST_OPSET);
    if (st == PST_OK && t->file->output_count != 1)
        st = onnx_fail(t, PST_EUNSUPPORTED, "the graph has %zu results; models with one are supported", t->file->output_count);
    if (st == PST_OK)
        st = add_constants(t);
    if (st == PST_OK)
        st = find_input(t, &input);
    if (st == PST_OK)
        st = add_results(t);
    if (st == PST_OK && !(result = onnx_find(t, t->file->outputs[0].name)))
        st = onnx_fail(t, PST_ECORRUPT, "nothing computes the result \"%.60s\"", t->file->outputs[0].name);
    if (st == PST_OK)
        st = order_nodes(t, result);
    if (st < 0)
        return st;
    count_uses(t, result);
    st = check_domains(t);
    if (st == PST_OK)
        st = set_input(t, input);
    for (size_t i = 0; st == PST_OK && i < t->order_count; i++) /* first: layers look ahead for constants */
        if (strcmp(t->file->nodes[t->order[i]].op, "Constant") == 0)
            st = onnx_translate_node(t, t->order[i]);
    if (st == PST_OK)
        onnx_find_patterns(t);
    for (size_t i = 0; st == PST_OK && i < t->order_count; i++)
        st = onnx_translate_node(t, t->order[i]);
    t->node = NULL;
    return st == PST_OK ? finish_result(t, result) : st;
}

/* The graph of the text has the same parameters, in the order of the text. */
static pst_status copy_params(const struct onnx_translation *t, struct onnx_model *m)
{
    m->params = mem_large((m->graph->values ? m->graph->values : 1) * sizeof(float));
    if (!m->params)
        return onnx_fail_memory(t);
    memset(m->params, 0, m->graph->values * sizeof(float));
    for (size_t i = 0; i < m->graph->count; i++) {
        const struct graph_node *to = &m->graph->nodes[i], *from = graph_find_node(t->graph, to->name);
        for (size_t k = 0; k < to->params; k++) {
            const struct graph_param *p = &m->graph->params[to->first_param + k], *q = from && k < from->params ? &t->graph->params[from->first_param + k] : NULL;
            if (!q || p->count != q->count)
                return onnx_fail(t, PST_EUNSUPPORTED, "the layer %s has no form as text", to->name);
            memcpy(m->params + p->offset, t->params + q->offset, p->count * sizeof(float));
        }
    }
    return PST_OK;
}

static const char *find_note(const struct onnx_file *f, const char *key)
{
    for (size_t i = 0; i < f->note_count; i++)
        if (strcmp(f->notes[i].key, key) == 0)
            return f->notes[i].value;
    return NULL;
}

static pst_status make_model(const struct onnx_translation *t, struct onnx_model *m)
{
    const char *classes = find_note(t->file, "classes"), *preprocessing = find_note(t->file, "preprocessing");
    pst_status st = graph_write(t->graph, NULL, &m->text, t->reterr);
    if (st == PST_OK)
        st = graph_create(&m->graph, m->text, &t->graph->input, t->reterr);
    if (st < 0)
        return onnx_fail_inner(t, st);
    m->classes = classes ? mem_strdup(classes) : NULL;
    m->preprocessing = preprocessing ? mem_strdup(preprocessing) : NULL;
    if ((classes && !m->classes) || (preprocessing && !m->preprocessing))
        return onnx_fail_memory(t);
    pst_status copied = copy_params(t, m);
    return copied == PST_OK ? onnx_make_quantised(t, m) : copied;
}

static pst_status import_file(struct onnx_model *ret, const struct onnx_file *f, pst_error *reterr)
{
    struct onnx_translation t = {.file = f, .reterr = reterr};
    *ret = (struct onnx_model){0};
    arena_init(&t.memory);
    pst_status st = translate(&t);
    if (st == PST_OK)
        st = make_model(&t, ret);
    graph_destroy(t.graph);
    mem_free(t.params);
    mem_free(t.values);
    mem_free(t.slots);
    mem_free(t.states);
    mem_free(t.order);
    mem_free(t.concats);
    mem_free(t.builder.counters);
    arena_finish(&t.memory);
    if (st < 0)
        onnx_model_finish(ret);
    return st;
}

pst_status onnx_import_bytes(struct onnx_model *ret, const char *path, const uint8_t *bytes, size_t length, pst_error *reterr)
{
    struct onnx_file f;
    pst_status st = onnx_file_parse(&f, path, bytes, length, reterr);
    if (st < 0)
        return st;
    st = import_file(ret, &f, reterr);
    onnx_file_finish(&f);
    return st;
}

pst_status onnx_import(struct onnx_model *ret, const char *path, pst_error *reterr)
{
    struct onnx_file f;
    pst_status st = onnx_file_open(&f, path, reterr);
    if (st < 0)
        return st;
    st = import_file(ret, &f, reterr);
    onnx_file_finish(&f);
    return st;
}

void onnx_model_finish(struct onnx_model *m)
{
    mem_free(m->text);
    graph_destroy(m->graph);
    mem_free(m->params);
    quant_unref(m->quant);
    mem_free(m->classes);
    mem_free(m->preprocessing);
    *m = (struct onnx_model){0};
}
